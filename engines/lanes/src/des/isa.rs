//! The instruction sets of this family.

/// The kernel, with the proof that this processor can run it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DesKernel {
    /// Plain 64-bit words.
    Portable,
}

impl DesKernel {
    /// The kernels' names, the preferred ones first.
    pub(crate) const NAMES: &'static [&'static str] = &["portable"];
    /// The kernel that every processor runs.
    pub(crate) const PORTABLE: DesKernel = DesKernel::Portable;

    /// The kernel of this name, when this processor can run it.
    pub(crate) fn detect(name: &str) -> Option<DesKernel> {
        match name {
            "portable" => Some(DesKernel::Portable),
            _ => None,
        }
    }

    /// The kernel's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DesKernel::Portable => "portable",
        }
    }
}
