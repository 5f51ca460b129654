//! Keys of tunnels that no key exchange manages.
//!
//! Counted nonces must not come again under a key (RFC 4106, 3), so keys are fresh after every start: derived by HKDF (RFC 5869) from a secret
//! that both ends have and a start value of each, random and 32 bytes long. An end that starts again has another value, and so other keys, whatever
//! the other end's value is; until that has read the new one, nothing opens.

use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ciphermill_esp::{Keys, Transform};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::configuration::{KeySource, Tunnel};

/// Bytes of a start value.
pub(crate) const NONCE_LEN: usize = 32;

/// Bytes of a secret at least.
const SECRET_LEN_MIN: usize = 32;

/// Bytes of a file of keys at most.
const FILE_LEN_MAX: u64 = 4096;

/// Why there are no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// A file cannot be read or written.
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    /// A file has other contents than it must.
    #[error("{0}: {1}")]
    Content(String, String),
    /// Static keys without the word that says one knows what they are.
    #[error(
        "tunnel `{0}` has static keys with {1}, whose nonces would come again at the next start and give everything away (RFC 4106, 3); \
         derive them (secret_file, nonce_file, peer_nonce_file), or in a laboratory say --lab-static-keys"
    )]
    Static(String, Transform),
    /// The operating system gave no random bytes.
    #[error("no random bytes: {0}")]
    Random(String),
}

/// Keys of what leaves and of what comes.
pub(crate) struct Pair {
    pub(crate) out: Keys,
    pub(crate) into: Keys,
}

/// A random start value for a tunnel that derives its keys, written where the other end fetches it.
pub(crate) fn fresh_nonce(tunnel: &Tunnel) -> Result<[u8; NONCE_LEN], KeyError> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(|error| KeyError::Random(error.to_string()))?;
    if let KeySource::Derived { nonce_file, .. } = &tunnel.keys {
        write_whole(nonce_file, &format!("{}\n", hex::encode(nonce)))
            .map_err(|error| KeyError::File(nonce_file.display().to_string(), error))?;
    }
    Ok(nonce)
}

/// Beside it, and then in its place: whoever fetches it has a whole one.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

/// The keys of a tunnel; none as long as the other end has not said its start value.
pub(crate) fn keys(tunnel: &Tunnel, nonce: &[u8; NONCE_LEN], allows_static: bool) -> Result<Option<Pair>, KeyError> {
    match &tunnel.keys {
        KeySource::Static { static_file } => {
            if tunnel.transform.counts_nonces() && !allows_static {
                return Err(KeyError::Static(tunnel.name.clone(), tunnel.transform));
            }
            static_keys(tunnel, static_file).map(Some)
        }
        KeySource::Derived { secret_file, peer_nonce_file, .. } => {
            let secret = read_secret(secret_file)?;
            let Some(peer) = read_nonce(peer_nonce_file)? else { return Ok(None) };
            Ok(Some(derived(tunnel, &secret, nonce, &peer)))
        }
    }
}

fn derived(tunnel: &Tunnel, secret: &[u8], own: &[u8; NONCE_LEN], peer: &[u8; NONCE_LEN]) -> Pair {
    let key = |from: (IpAddr, &[u8]), to: (IpAddr, &[u8]), spi: u32| {
        // The same at both ends: whoever sends comes first.
        let salt = [from.1, to.1].concat();
        let transform = tunnel.transform;
        let info = format!("ciphermill esp 1, {transform}, {spi:08x}, {} to {}", from.0, to.0);
        let mut bytes = Zeroizing::new(vec![0; transform.key_len() + transform.salt_len()]);
        if Hkdf::<Sha256>::new(Some(&salt), secret).expand(info.as_bytes(), &mut bytes).is_err() {
            // RFC 5869, 2.3: up to 255 digests; no transform's key is as long as four.
            debug_assert!(false, "a key of more than 8160 bytes");
        }
        cut(&bytes, transform)
    };
    let (own, peer) = ((tunnel.local, &own[..]), (tunnel.remote, &peer[..]));
    Pair { out: key(own, peer, tunnel.spi_out), into: key(peer, own, tunnel.spi_in) }
}

fn cut(bytes: &[u8], transform: Transform) -> Keys {
    let (key, salt) = bytes.split_at(transform.key_len());
    Keys { key: Zeroizing::new(key.to_vec()), salt: Zeroizing::new(salt.to_vec()) }
}

fn static_keys(tunnel: &Tunnel, path: &Path) -> Result<Pair, KeyError> {
    let text = read(path)?;
    let wanted = tunnel.transform.key_len() + tunnel.transform.salt_len();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut next = |which: &str| -> Result<Keys, KeyError> {
        let wrong = |text: String| KeyError::Content(path.display().to_string(), text);
        let line = lines.next().ok_or_else(|| wrong(format!("no key of what {which}")))?;
        let bytes = Zeroizing::new(
            hex::decode(line).map_err(|_| wrong(format!("the key of what {which} is not hexadecimal")))?,
        );
        if bytes.len() != wanted {
            let transform = tunnel.transform;
            return Err(wrong(format!(
                "{transform} takes {wanted} bytes with the salt; the key of what {which} has {}",
                bytes.len()
            )));
        }
        Ok(cut(&bytes, tunnel.transform))
    };
    Ok(Pair { out: next("leaves")?, into: next("comes")? })
}

fn read(path: &Path) -> Result<Zeroizing<String>, KeyError> {
    let named = |error| KeyError::File(path.display().to_string(), error);
    let metadata = fs::metadata(path).map_err(named)?;
    if metadata.len() > FILE_LEN_MAX {
        return Err(KeyError::Content(path.display().to_string(), format!("more than {FILE_LEN_MAX} bytes")));
    }
    if metadata.mode() & 0o077 != 0 {
        let text = "others may read it; it has keys: chmod 600".to_owned();
        return Err(KeyError::Content(path.display().to_string(), text));
    }
    fs::read_to_string(path).map(Zeroizing::new).map_err(named)
}

fn read_secret(path: &Path) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let wrong = |text: String| KeyError::Content(path.display().to_string(), text);
    let text = read(path)?;
    let secret = Zeroizing::new(hex::decode(text.trim()).map_err(|_| wrong("not hexadecimal".to_owned()))?);
    if secret.len() < SECRET_LEN_MIN {
        return Err(wrong(format!("{} bytes; a secret has {SECRET_LEN_MIN} at least", secret.len())));
    }
    Ok(secret)
}

fn read_nonce(path: &Path) -> Result<Option<[u8; NONCE_LEN]>, KeyError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(KeyError::File(path.display().to_string(), error)),
    };
    let wrong = || KeyError::Content(path.display().to_string(), format!("no {NONCE_LEN} bytes in hexadecimal"));
    let bytes = hex::decode(text.trim()).map_err(|_| wrong())?;
    bytes.try_into().map(Some).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::configuration::Configuration;

    fn tunnel(local: &str, remote: &str, spis: (u32, u32), keys: &str) -> Tunnel {
        let text = format!(
            r#"
            inside = {{ interface = "in0" }}
            outside = {{ interface = "out0" }}
            [[tunnel]]
            name = "one"
            transform = "aes-128-gcm"
            local = "{local}"
            remote = "{remote}"
            local_networks = ["10.1.0.0/24"]
            remote_networks = ["10.2.0.0/24"]
            spi_out = {}
            spi_in = {}
            keys = {keys}
            "#,
            spis.0, spis.1
        );
        let mut configuration = Configuration::parse(&text, Path::new("gateway.toml")).expect("good");
        configuration.tunnel.remove(0)
    }

    fn write(path: &Path, text: &str, mode: u32) {
        fs::write(path, text).expect("written");
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
    }

    #[test]
    fn both_ends_derive_the_same_keys_and_others_after_a_start_of_either() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        write(Path::new(&at("secret")), &"5a".repeat(32), 0o600);
        let source = |own: &str, peer: &str| {
            format!(
                r#"{{ secret_file = "{}", nonce_file = "{}", peer_nonce_file = "{}" }}"#,
                at("secret"),
                at(own),
                at(peer)
            )
        };
        let left = tunnel("192.0.2.1", "192.0.2.2", (1001, 1002), &source("left", "right"));
        let right = tunnel("192.0.2.2", "192.0.2.1", (1002, 1001), &source("right", "left"));
        let left_nonce = fresh_nonce(&left).expect("random");
        assert!(keys(&left, &left_nonce, false).expect("read").is_none(), "the other end has not started");
        let right_nonce = fresh_nonce(&right).expect("random");
        let pair =
            |tunnel: &Tunnel, nonce: &[u8; NONCE_LEN]| keys(tunnel, nonce, false).expect("read").expect("both started");
        let (one, other) = (pair(&left, &left_nonce), pair(&right, &right_nonce));
        assert_eq!((&one.out.key, &one.out.salt), (&other.into.key, &other.into.salt));
        assert_eq!((&one.into.key, &one.into.salt), (&other.out.key, &other.out.salt));
        assert_ne!(one.out.key, one.into.key);
        let again = fresh_nonce(&right).expect("random");
        let later = pair(&right, &again);
        assert_ne!(later.out.key, other.out.key);
        assert_eq!(pair(&left, &left_nonce).into.key, later.out.key, "as soon as the file is read again");
    }

    #[test]
    fn static_keys_of_counted_nonces_want_to_be_asked_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("keys");
        let source = format!(r#"{{ static_file = "{}" }}"#, path.display());
        let tunnel = tunnel("192.0.2.1", "192.0.2.2", (1001, 1002), &source);
        let both = format!("{}\n{}\n", "11".repeat(20), "22".repeat(20));
        write(&path, &both, 0o600);
        let refused = keys(&tunnel, &[0; NONCE_LEN], false).err().expect("refused").to_string();
        assert!(refused.contains("--lab-static-keys"), "{refused}");
        let pair = keys(&tunnel, &[0; NONCE_LEN], true).expect("read").expect("there");
        assert_eq!((pair.out.key.as_slice(), pair.into.salt.as_slice()), (&[0x11; 16][..], &[0x22; 4][..]));
        write(&path, &both, 0o644);
        let refused = keys(&tunnel, &[0; NONCE_LEN], true).err().expect("refused").to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
        write(&path, "11\n", 0o600);
        let refused = keys(&tunnel, &[0; NONCE_LEN], true).err().expect("refused").to_string();
        assert!(
            refused.ends_with("aes-128-gcm takes 20 bytes with the salt; the key of what leaves has 1"),
            "{refused}"
        );
    }
}
