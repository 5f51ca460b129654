//! The instruction sets of this family.

/// The kernel, with the proof that this processor can run it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChaChaKernel {
    /// Plain 64-bit words.
    Portable,
}

impl ChaChaKernel {
    /// The kernels' names, the preferred ones first.
    pub(crate) const NAMES: &'static [&'static str] = &["portable"];
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: ChaChaKernel = ChaChaKernel::Portable;

    /// The kernel of this name, when this processor can run it.
    pub(crate) fn detect(name: &str) -> Option<ChaChaKernel> {
        match name {
            "portable" => Some(ChaChaKernel::Portable),
            _ => None,
        }
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ChaChaKernel::Portable => "portable",
        }
    }
}
