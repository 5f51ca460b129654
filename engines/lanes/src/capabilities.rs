//! What the chosen kernels run. The priors are rough figures of one core; the router corrects them by measuring.

use ciphermill_contract::Capability;

use crate::select::Kernels;

/// Everything that the engine runs with these kernels. Each family lists its own suites.
pub(crate) fn of(kernels: &Kernels) -> Vec<Capability> {
    let mut all = Vec::new();
    all.extend(crate::des::capabilities(kernels.des));
    all.extend(crate::chacha::capabilities(kernels.chacha));
    all.extend(crate::hash::capabilities(kernels.hash));
    all.extend(crate::legacy::capabilities(kernels.legacy));
    all.extend(crate::public::capabilities(kernels.public));
    all.extend(crate::public::lattice::capabilities(kernels.lattice));
    all.extend(crate::public::binary_curves::capabilities(kernels.binary));
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(aes) = kernels.aes {
            all.extend(crate::aes::capabilities(aes));
            all.extend(crate::fpe::capabilities(aes));
        }
        all.extend(crate::chain::capabilities(kernels));
    }
    all
}
