//! OpenSSL's own program with the provider as its default: what it makes is what `default` takes, and the other way about.
#![allow(clippy::expect_used, reason = "helpers of tests may stop at once, as tests do")]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::program::{Folder, serve};

const KEYS: [(&str, &str); 6] = [
    ("rsa", "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048"),
    ("pss", "genpkey -algorithm RSA-PSS -pkeyopt rsa_keygen_bits:2048"),
    ("p256", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"),
    ("p384", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384"),
    ("ed25519", "genpkey -algorithm ED25519"),
    ("ed448", "genpkey -algorithm ED448"),
];

#[test]
fn the_program_finds_us_and_lists_what_we_do() {
    let folder = Folder::new("lists");
    let listed = folder.run("on", "list -providers -verbose");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("name: Ciphermill") && listed.contains("status: active"), "{listed}");
    let listed = folder.run("on", "list -signature-algorithms -key-exchange-algorithms -key-managers");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for name in ["rsaEncryption } @ ciphermill", "ECDSA @ ciphermill", "ED25519 } @ ciphermill", "ECDH @ ciphermill"] {
        assert!(listed.contains(name), "{name} is not in {listed}");
    }
}

#[test]
fn keys_certificates_and_messages_go_both_ways() {
    let folder = Folder::new("keys");
    for (name, generate) in KEYS {
        for (from, to) in [("on", "off"), ("off", "on")] {
            let key = format!("{name}-{from}");
            folder.run(from, &format!("{generate} -out {key}.pem"));
            folder.run(to, &format!("pkey -in {key}.pem -check -noout"));
            folder.run(to, &format!("pkey -in {key}.pem -pubout -out {key}.pub"));
            folder.run(from, &format!("req -new -key {key}.pem -subj /CN=localhost -out {key}.csr"));
            folder.run(to, &format!("req -in {key}.csr -verify -noout"));
            folder.run(from, &format!("req -x509 -key {key}.pem -subj /CN=localhost -days 30 -out {key}.crt"));
            folder.run(to, &format!("verify -CAfile {key}.crt {key}.crt"));
            if !name.starts_with("ed") {
                folder.run(from, &format!("dgst -sha256 -sign {key}.pem -out {key}.sig message"));
                folder.run(to, &format!("dgst -sha256 -verify {key}.pub -signature {key}.sig message"));
            }
            if ["rsa", "p256", "p384"].contains(&name) {
                folder.run(from, &format!("cms -sign -in message -signer {key}.crt -inkey {key}.pem -out {key}.cms"));
                folder.run(to, &format!("cms -verify -in {key}.cms -CAfile {key}.crt -out {key}.out"));
                folder.run(to, &format!("cms -encrypt -in message -out {key}.enc {key}.crt"));
                folder
                    .run(from, &format!("cms -decrypt -in {key}.enc -inkey {key}.pem -recip {key}.crt -out {key}.out"));
                let opened = fs::read_to_string(folder.0.join(format!("{key}.out"))).expect("opened");
                assert_eq!(opened.replace('\r', ""), "a message\n");
            }
        }
        // A key that is no key, and one that is another's.
        let pem = fs::read_to_string(folder.0.join(format!("{name}-on.pem"))).expect("a key");
        fs::write(folder.0.join("cut.pem"), &pem[..pem.len() / 2]).expect("written");
        folder.both_fail("pkey -in cut.pem -noout");
        folder
            .both_fail(&format!("x509 -req -in {name}-on.csr -CA {name}-on.crt -CAkey {name}-off.pem -out wrong.crt"));
    }
    let oaep = "-pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 -pkeyopt rsa_mgf1_md:sha1";
    for (from, to) in [("on", "off"), ("off", "on")] {
        folder.run(from, &format!("pkeyutl -encrypt -pubin -inkey rsa-on.pub {oaep} -in message -out oaep"));
        let opened = folder.run(to, &format!("pkeyutl -decrypt -inkey rsa-on.pem {oaep} -in oaep"));
        assert_eq!(opened.stdout, b"a message\n");
        let pair = ("pkeyutl -derive -inkey p256-on.pem -peerkey p256-off.pub", "p256-off.pem -peerkey p256-on.pub");
        let here = folder.run(from, pair.0).stdout;
        assert_eq!(here, folder.run(to, &format!("pkeyutl -derive -inkey {}", pair.1)).stdout);
    }
}

#[test]
fn what_is_done_is_counted_in_a_file_that_is_there() {
    let folder = Folder::new("counts");
    let counts = folder.0.join("counts");
    let sign = |provider: &str, key: &str| {
        let mut command = folder.command(provider, &format!("dgst -sha256 -sign {key}.pem -out signature message"));
        let output = command.env("CIPHERMILL_OPENSSL_COUNTS", &counts).output().expect("openssl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let counted = || {
        let bytes = fs::read(&counts).expect("counts");
        let number = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        (number(0), number(8))
    };
    folder.run("off", &format!("{} -out rsa.pem", KEYS[0].1));
    folder.run("off", "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out p256.pem");
    // A name that is wrong is no reason to fail, nor for a file.
    sign("on", "rsa");
    assert!(!counts.exists());
    fs::write(&counts, [0; 15]).expect("written");
    sign("on", "rsa");
    assert_eq!(fs::read(&counts).expect("counts"), [0; 15]);
    fs::write(&counts, [0; 16]).expect("written");
    sign("off", "rsa");
    assert_eq!(counted(), (0, 0));
    sign("on", "rsa");
    sign("on", "p256");
    assert_eq!(counted(), (2, 0));
}

#[test]
fn servers_and_clients_shake_hands_in_every_suite() {
    let folder = Folder::new("servers");
    for (name, generate) in [KEYS[0], KEYS[2], KEYS[4]] {
        folder.run("off", &format!("{generate} -out {name}.pem"));
        folder.run("off", &format!("req -x509 -key {name}.pem -subj /CN=localhost -days 30 -out {name}.crt"));
        // As users have it, the server measures what is worth it, among others after some connections.
        for (server, client, times) in [("on", "off", 1), ("off", "on", 1), ("faster", "off", 3)] {
            let (_server, port) = serve(&folder, server, name);
            // Key exchange by RSA too, which `default` decrypts under our key.
            let suites: &[&str] = if name == "rsa" {
                &[
                    "-tls1_3",
                    "-tls1_2 -cipher ECDHE-RSA-AES128-GCM-SHA256",
                    "-tls1_2 -cipher AES256-GCM-SHA384",
                    "-tls1_2 -cipher DHE-RSA-AES128-GCM-SHA256",
                    "-tls1_3 -groups P-256",
                    "-tls1_3 -groups X448",
                    "-tls1_3 -groups ffdhe2048",
                ]
            } else {
                &["-tls1_3", "-tls1_2", "-tls1_3 -groups P-384", "-tls1_3 -groups P-521"]
            };
            for suite in suites.iter().cycle().take(times * suites.len()) {
                let mut client = folder.command(
                    client,
                    &format!(
                        "s_client -connect 127.0.0.1:{port} -brief -verify_return_error -CAfile {name}.crt {suite}"
                    ),
                );
                let output = client.stdin(Stdio::null()).output().expect("openssl");
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(output.status.success() && said.contains("Verification: OK"), "{name}, {suite}: {said}");
            }
        }
    }
}

#[test]
fn the_library_exports_one_function_and_stays_loaded() {
    let library = support::library();
    let headers = Command::new("readelf").arg("-dW").arg(&library).output().expect("readelf (binutils)");
    let headers = String::from_utf8_lossy(&headers.stdout).into_owned();
    assert!(headers.contains("NODELETE"), "{headers}");
    let symbols =
        Command::new("nm").args(["-D", "--defined-only"]).arg(Path::new(&library)).output().expect("nm (binutils)");
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let names: Vec<_> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["OSSL_provider_init"]);
}
