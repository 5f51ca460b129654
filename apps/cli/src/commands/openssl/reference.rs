//! `ciphermill openssl reference`: a file that stands where programs expect a private key, and names one of the keystore.

use anyhow::{Context, anyhow, bail};
use ciphermill_contract::KeyForm;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::pem::LineEnding;
use pkcs8::der::{Decode, Encode};
use pkcs8::spki::SubjectPublicKeyInfoRef;
use pkcs8::{PrivateKeyInfoRef, der};

use crate::args::KeystoreArgs;
use crate::commands::keys::public;
use crate::config::Config;
use crate::output::say;
use crate::secret;

/// Prints the reference: PKCS#8 of the key's algorithm, whose octets are the name of the key.
pub(super) fn print(name: &str, version: Option<u32>, args: &KeystoreArgs, config: &Config) -> anyhow::Result<()> {
    let keystore = secret::open(args, config)?;
    let public = keystore.with_key(name, version, |record, key| {
        if key.form != KeyForm::Private {
            bail!("{name} is no private key");
        }
        let suites = &record.policy.suites;
        let suite = suites.iter().next().filter(|_| !suites.is_any());
        let suite =
            suite.with_context(|| format!("{name} is for no suite of its own, so that its type is not known"))?;
        public::info(suite, key)
    })??;
    let algorithm =
        SubjectPublicKeyInfoRef::from_der(&public).map_err(|error| anyhow!("public key: {error}"))?.algorithm;
    let version = version.map(|version| format!("?version={version}")).unwrap_or_default();
    let text = format!("ciphermill:{name}{version}");
    say(pem(algorithm, text.as_bytes()).map_err(|error| anyhow!("PEM: {error}"))?.trim_end())
}

fn pem(algorithm: pkcs8::AlgorithmIdentifierRef<'_>, octets: &[u8]) -> Result<String, der::Error> {
    let reference = PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(octets)?).to_der()?;
    Ok(der::pem::encode_string("PRIVATE KEY", LineEnding::LF, &reference)?)
}
