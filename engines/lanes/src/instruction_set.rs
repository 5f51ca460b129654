//! Kernels by instruction set: one that cannot be run cannot be named either.

/// An instruction set. A value is the proof that this processor has it.
pub(crate) trait InstructionSet: Copy {
    /// Its name, as kernels are listed and asked for by it.
    const NAME: &'static str;

    /// The proof, where this processor has every feature.
    fn detect() -> Option<Self>;
}

/// Makes the kernels of a family: an enum of one variant for each instruction set, the preferred ones first. A value is the
/// proof that this processor can run the kernel.
macro_rules! kernels {
    ($(#[$doc:meta])* $kernel:ident {
        $($(#[doc = $variant_doc:literal])* $(#[cfg($($cfg:tt)*)])? $variant:ident($set:ty)),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum $kernel {
            $($(#[doc = $variant_doc])* $(#[cfg($($cfg)*)])? $variant($set)),+
        }

        impl $kernel {
            /// The kernels' names, the preferred ones first.
            pub(crate) const NAMES: &'static [&'static str] =
                &[$($(#[cfg($($cfg)*)])? <$set as $crate::instruction_set::InstructionSet>::NAME),+];

            /// The kernel of this name, where this processor can run it.
            pub(crate) fn detect(name: &str) -> Option<$kernel> {
                use $crate::instruction_set::InstructionSet as _;
                $($(#[cfg($($cfg)*)])? if name == <$set>::NAME {
                    return <$set>::detect().map($kernel::$variant);
                })+
                None
            }

            /// The kernel's name.
            pub(crate) fn name(self) -> &'static str {
                use $crate::instruction_set::InstructionSet as _;
                match self {
                    $($(#[cfg($($cfg)*)])? $kernel::$variant(_) => <$set>::NAME),+
                }
            }
        }
    };
}
pub(crate) use kernels;
