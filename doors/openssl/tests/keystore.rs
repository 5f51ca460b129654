//! Keys of the keystore in OpenSSL's own program: by URI, and by references in files.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use ciphermill::KeyPolicy;
use ciphermill_contract::{KeyMaterial, Suite};
use ciphermill_keys::keystore::{Keystore, MasterSecret};
use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::{self, Decode};
use support::program::{Folder, serve};
use support::reference;

/// Keys, what OpenSSL makes them by, and what they are for.
const KEYS: [(&str, &str, &str); 7] = [
    ("rsa", "RSA -pkeyopt rsa_keygen_bits:2048", "rsa-2048-raw"),
    ("p256", "EC -pkeyopt ec_paramgen_curve:P-256", "ecdsa-p256-digest"),
    ("p384", "EC -pkeyopt ec_paramgen_curve:P-384", "ecdsa-p384-digest"),
    ("ed25519", "ED25519", "ed25519"),
    ("agree", "EC -pkeyopt ec_paramgen_curve:P-256", "ecdh-p256"),
    ("x25519", "X25519", "x25519"),
    ("x448", "X448", "x448"),
];

/// The private key of a file in PEM: PKCS#8, or what the contract has raw.
fn material(pem: &str) -> Vec<u8> {
    let (_, der) = der::pem::decode_vec(pem.as_bytes()).expect("PEM");
    let octets = PrivateKeyInfoRef::from_der(&der).expect("PKCS#8").private_key.as_bytes().to_vec();
    // RFC 8410, 7: an octet string within.
    if octets[0] == 4 { octets[2..].to_vec() } else { der }
}

/// Makes keys by `default`, their keystore, and references to them.
fn keystore(folder: &Folder) -> Keystore {
    let master = folder.0.join("master");
    fs::write(&master, [7; 32]).expect("written");
    fs::set_permissions(&master, fs::Permissions::from_mode(0o600)).expect("set");
    let mut keystore = Keystore::create(folder.0.join("keys"), &MasterSecret::KeyFile(master)).expect("a keystore");
    for (name, generate, suite) in KEYS {
        folder.run("off", &format!("genpkey -algorithm {generate} -out {name}.pem"));
        folder.run("off", &format!("pkey -in {name}.pem -pubout -out {name}.pub"));
        import(&mut keystore, folder, name, suite);
        let pem = fs::read_to_string(folder.0.join(format!("{name}.pem"))).expect("a key");
        let text = reference(&pem, &format!("ciphermill:{name}"));
        fs::write(folder.0.join(format!("{name}-reference.pem")), text).expect("written");
    }
    keystore
}

fn import(keystore: &mut Keystore, folder: &Folder, name: &str, suite: &str) {
    let pem = fs::read_to_string(folder.0.join(format!("{name}.pem"))).expect("a key");
    let policy = KeyPolicy::only(suite.parse::<Suite>().expect("a suite"));
    keystore.import(name, KeyMaterial::private(&material(&pem)), policy).expect("imported");
}

#[test]
fn keys_are_used_by_uri_and_by_reference_and_given_to_nobody() {
    let folder = Folder::new("stored");
    keystore(&folder);
    for (name, generate, suite) in KEYS {
        for place in [format!("ciphermill:{name}"), format!("{name}-reference.pem")] {
            folder.run("on", &format!("pkey -in {place} -pubout -out told"));
            let read = |file: &str| fs::read(folder.0.join(file)).expect("a file");
            assert_eq!(read("told"), read(&format!("{name}.pub")), "{place}");
            for way in ["-out told.pem", "-text -noout", "-traditional -out told.pem"] {
                let command = folder.command("on", &format!("pkey -in {place} {way}")).output().expect("openssl");
                let said = [command.stdout, command.stderr].concat();
                assert!(!String::from_utf8_lossy(&said).contains("PRIVATE KEY-----"), "{place} {way}");
                assert!(!String::from_utf8_lossy(&said).contains("priv:\n"), "{place} {way}");
                assert!(fs::read(folder.0.join("told.pem")).unwrap_or_default().is_empty(), "{place} {way}");
            }
            if ["ecdh-p256", "x25519", "x448"].contains(&suite) {
                folder.run("off", &format!("genpkey -algorithm {generate} -out peer.pem"));
                folder.run("off", "pkey -in peer.pem -pubout -out peer.pub");
                let here = folder.run("on", &format!("pkeyutl -derive -inkey {place} -peerkey peer.pub")).stdout;
                let there = folder.run("off", &format!("pkeyutl -derive -inkey peer.pem -peerkey {name}.pub")).stdout;
                assert_eq!(here, there, "{place}");
                assert!(!here.is_empty());
                continue;
            }
            folder.run("on", &format!("req -x509 -key {place} -subj /CN=localhost -days 30 -out {name}.crt"));
            folder.run("off", &format!("verify -CAfile {name}.crt {name}.crt"));
            if name != "ed25519" {
                folder.run("on", &format!("dgst -sha384 -sign {place} -out signature message"));
                folder.run("off", &format!("dgst -sha384 -verify {name}.pub -signature signature message"));
            }
            // As users have it: nothing of it can be left to `default`.
            folder.run("faster", &format!("req -x509 -key {place} -subj /CN=localhost -days 30 -out faster.crt"));
        }
    }
    let oaep = "-pkeyopt rsa_padding_mode:oaep";
    folder.run("off", &format!("pkeyutl -encrypt -pubin -inkey rsa.pub {oaep} -in message -out encrypted"));
    let opened = folder.run("faster", &format!("pkeyutl -decrypt -inkey ciphermill:rsa {oaep} -in encrypted"));
    assert_eq!(opened.stdout, b"a message\n");
    let pss = "-sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:max";
    folder.run("on", &format!("dgst -sha256 {pss} -sign ciphermill:rsa -out signature message"));
    folder.run("off", &format!("dgst -sha256 {pss} -verify rsa.pub -signature signature message"));
}

#[test]
fn a_server_without_a_key_in_a_file_serves() {
    let folder = Folder::new("stored-server");
    keystore(&folder);
    for name in ["rsa", "p256", "ed25519"] {
        folder.run("off", &format!("req -x509 -key {name}.pem -subj /CN=localhost -days 30 -out {name}.crt"));
        fs::rename(folder.0.join(format!("{name}-reference.pem")), folder.0.join(format!("{name}.pem")))
            .expect("moved");
        for provider in ["on", "faster"] {
            let (_server, port) = serve(&folder, provider, name);
            for version in ["-tls1_2", "-tls1_3"] {
                let client = format!(
                    "s_client -connect 127.0.0.1:{port} -brief -verify_return_error -CAfile {name}.crt {version}"
                );
                let output = folder.command("off", &client).stdin(Stdio::null()).output().expect("openssl");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && said.contains("Verification: OK"), "{name}, {version}: {said}");
            }
        }
    }
}

#[test]
fn what_cannot_be_loaded_is_told_by_its_rule() {
    let folder = Folder::new("stored-refused");
    let mut keystore = keystore(&folder);
    fs::copy(folder.0.join("p256.pem"), folder.0.join("other.pem")).expect("copied");
    import(&mut keystore, &folder, "other", "ecdsa-p256");
    keystore.rotate_to("ed25519", KeyMaterial::private(&[9; 32])).expect("rotated");
    let refused = |place: &str, words: &str| {
        let output = folder.command("on", &format!("pkey -in {place} -pubout")).output().expect("openssl");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{place}: {said}");
        assert!(said.contains(words), "{place}: {said}");
    };
    refused("ciphermill:nobody", "no key `nobody`");
    refused("ciphermill:other", "may not be used for ecdh-p256 or ecdsa-p256-digest");
    refused("ciphermill:ed25519?version=1", "version 1 is not in use any more");
    folder.run("on", "pkey -in ciphermill:ed25519?version=2 -pubout");
    refused("ciphermill:ed25519?version=zwei", "?version=N");
    refused("ciphermill:", "the name of a key");
    // What the mill does not do with it, nobody does.
    folder.run("off", "pkeyutl -encrypt -pubin -inkey rsa.pub -in message -out encrypted");
    let output =
        folder.command("on", "pkeyutl -decrypt -inkey ciphermill:rsa -in encrypted").output().expect("openssl");
    assert!(!output.status.success() && output.status.code().is_some());
    fs::set_permissions(folder.0.join("master"), fs::Permissions::from_mode(0o644)).expect("set");
    refused("ciphermill:rsa", "master");
    fs::remove_file(folder.0.join("keys")).expect("removed");
    refused("ciphermill:rsa", "No such file");
}
