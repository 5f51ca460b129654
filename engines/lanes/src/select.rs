//! Which kernel runs which family: what this processor is capable of, what is preferred, what was asked for by name.

use ciphermill_contract::{Error, Refusal, Result};

#[cfg(target_arch = "x86_64")]
use crate::aes::isa::AesKernel;
use crate::chacha::isa::ChaChaKernel;
use crate::des::isa::DesKernel;
use crate::hash::HashKernel;
use crate::legacy::LegacyKernel;
use crate::public::binary_curves::isa::BinaryKernel;
use crate::public::isa::PublicKernel;
use crate::public::lattice::isa::LatticeKernel;

/// The chosen kernels, one a family. A value is proof that this processor can run them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernels {
    /// AES in every mode, with the carry-less products and FF1; `None` where the processor has no AES instructions.
    #[cfg(target_arch = "x86_64")]
    pub(crate) aes: Option<AesKernel>,
    /// DES and triple DES.
    pub(crate) des: DesKernel,
    /// ChaCha20 and Poly1305.
    pub(crate) chacha: ChaChaKernel,
    /// Digests and HMAC.
    pub(crate) hash: HashKernel,
    /// Blowfish, Khufu, Khafre, RC4, SEAL.
    pub(crate) legacy: LegacyKernel,
    /// Public keys but those of lattices.
    pub(crate) public: PublicKernel,
    /// ML-KEM and ML-DSA.
    pub(crate) lattice: LatticeKernel,
    /// Public keys on binary curves.
    pub(crate) binary: BinaryKernel,
}

/// A kernel that this engine has, and whether this processor can run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelChoice {
    /// The family: `aes`, `des`, `chacha20`, `hash`, `legacy`, `public`, `lattice` or `binary`.
    pub family: &'static str,
    /// The kernel's name within its family, for example `vaes512`.
    pub name: &'static str,
    /// Whether this processor has the instructions that the kernel needs.
    pub capable: bool,
}

/// Every kernel that this engine has on this architecture, the preferred ones of each family first.
pub fn kernels() -> Vec<KernelChoice> {
    let mut all = Vec::new();
    #[cfg(target_arch = "x86_64")]
    all.extend(choices("aes", AesKernel::NAMES, |name| AesKernel::detect(name).is_some()));
    all.extend(choices("des", DesKernel::NAMES, |name| DesKernel::detect(name).is_some()));
    all.extend(choices("chacha20", ChaChaKernel::NAMES, |name| ChaChaKernel::detect(name).is_some()));
    all.extend(choices("hash", HashKernel::NAMES, |name| HashKernel::detect(name).is_some()));
    all.extend(choices("legacy", LegacyKernel::NAMES, |name| LegacyKernel::detect(name).is_some()));
    all.extend(choices("public", PublicKernel::NAMES, |name| PublicKernel::detect(name).is_some()));
    all.extend(choices("lattice", LatticeKernel::NAMES, |name| LatticeKernel::detect(name).is_some()));
    all.extend(choices("binary", BinaryKernel::NAMES, |name| BinaryKernel::detect(name).is_some()));
    all
}

fn choices(
    family: &'static str,
    names: &'static [&'static str],
    capable: impl Fn(&str) -> bool,
) -> impl Iterator<Item = KernelChoice> {
    names.iter().map(move |name| KernelChoice { family, name, capable: capable(name) })
}

impl Kernels {
    /// The preferred kernels of this processor, but those in `wanted`: names (`avx2`: in every family that has it) or
    /// names of one family (`des=avx2`).
    ///
    /// # Errors
    /// `Refused` with `KernelUnavailable` for a name that no family has or that this processor cannot run.
    pub(crate) fn choose(wanted: &[&str]) -> Result<Kernels> {
        let all = kernels();
        for name in wanted {
            let mut named = all.iter().filter(|choice| matches(name, choice)).peekable();
            if named.peek().is_none() || named.any(|choice| !choice.capable) {
                return Err(Error::Refused(Refusal::KernelUnavailable((*name).to_owned())));
            }
        }
        let pick = |family: &str| {
            let own = || all.iter().filter(|choice| choice.family == family && choice.capable);
            own().find(|choice| wanted.iter().any(|name| matches(name, choice))).or_else(|| own().next())
        };
        Ok(Kernels {
            #[cfg(target_arch = "x86_64")]
            aes: pick("aes").and_then(|choice| AesKernel::detect(choice.name)),
            des: pick("des").and_then(|choice| DesKernel::detect(choice.name)).unwrap_or(DesKernel::PORTABLE),
            chacha: pick("chacha20")
                .and_then(|choice| ChaChaKernel::detect(choice.name))
                .unwrap_or(ChaChaKernel::PORTABLE),
            hash: pick("hash").and_then(|choice| HashKernel::detect(choice.name)).unwrap_or(HashKernel::Portable),
            legacy: pick("legacy")
                .and_then(|choice| LegacyKernel::detect(choice.name))
                .unwrap_or(LegacyKernel::Interleaved),
            public: pick("public")
                .and_then(|choice| PublicKernel::detect(choice.name))
                .unwrap_or(PublicKernel::PORTABLE),
            lattice: pick("lattice")
                .and_then(|choice| LatticeKernel::detect(choice.name))
                .unwrap_or(LatticeKernel::PORTABLE),
            binary: pick("binary")
                .and_then(|choice| BinaryKernel::detect(choice.name))
                .unwrap_or(BinaryKernel::PORTABLE),
        })
    }

    /// Family and kernel, as they are listed and logged.
    pub(crate) fn names(&self) -> Vec<(&'static str, &'static str)> {
        let mut names = vec![
            ("des", self.des.name()),
            ("chacha20", self.chacha.name()),
            ("hash", self.hash.name()),
            ("legacy", self.legacy.name()),
            ("public", self.public.name()),
            ("lattice", self.lattice.name()),
            ("binary", self.binary.name()),
        ];
        #[cfg(target_arch = "x86_64")]
        if let Some(aes) = self.aes {
            names.insert(0, ("aes", aes.name()));
        }
        names
    }
}

/// Whether what was asked for means this kernel.
fn matches(wanted: &str, choice: &KernelChoice) -> bool {
    match wanted.split_once('=') {
        Some((family, name)) => family.trim() == choice.family && name.trim() == choice.name,
        None => wanted.trim() == choice.name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_has_a_kernel_for_every_processor_but_aes() {
        let kernels = Kernels::choose(&[]).expect("nothing was asked for");
        let families: Vec<&str> = kernels.names().iter().map(|(family, _)| *family).collect();
        assert!(families.ends_with(&["des", "chacha20", "hash", "legacy", "public", "lattice", "binary"]));
    }

    #[test]
    fn a_forced_kernel_is_the_one_that_runs() {
        for choice in kernels() {
            let forced = format!("{}={}", choice.family, choice.name);
            match Kernels::choose(&[&forced]) {
                Ok(kernels) => assert!(choice.capable && kernels.names().contains(&(choice.family, choice.name))),
                Err(error) => {
                    assert!(!choice.capable);
                    assert_eq!(error, Error::Refused(Refusal::KernelUnavailable(forced)));
                }
            }
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        for name in ["", "avx1024", "des=vaes512", "aes="] {
            let refusal = Refusal::KernelUnavailable(name.to_owned());
            assert_eq!(Kernels::choose(&[name]).err(), Some(Error::Refused(refusal)));
        }
    }
}
