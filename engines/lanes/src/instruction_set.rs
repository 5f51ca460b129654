//! Kernels by instruction set: one that cannot be run cannot be named either.

/// An instruction set. A value is the proof that this processor has it.
pub(crate) trait InstructionSet: Copy {
    /// Its name, as kernels are listed and asked for by it.
    const NAME: &'static str;

    /// The proof, where this processor has every feature.
    fn detect() -> Option<Self>;

    /// Runs a step in a function of its own, which has the instructions enabled.
    #[inline(never)]
    fn call<S: Step<Self>>(self, step: S) -> S::Out {
        step.run(self)
    }
}

/// What a function of its own does: a part that is used in several places, or that would make one function too long to compile. `run`
/// must be `#[inline(always)]`, and so must what it calls. Closures cannot be, and have none of the instructions where they are not
/// inlined: they may do no more than an operation or two.
pub(crate) trait Step<I> {
    /// What comes of it.
    type Out;
    /// Does it.
    fn run(self, isa: I) -> Self::Out;
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

/// Makes what a batch needs to run with any of a family's kernels: `Task`, generic over the family's instruction sets, and
/// `with_vectors`, which runs one.
macro_rules! tasks {
    ($vis:vis $kernel:ident: $isa:ident { $($(#[cfg($($cfg:tt)*)])? $variant:ident),+ $(,)? }) => {
        /// What is done for a batch, whichever the kernel.
        $vis trait Task {
            /// What comes of it.
            type Out;
            /// Does it. Must be `#[inline(always)]`, and so must what it calls.
            fn run<I: $isa>(self, isa: I) -> Self::Out;
        }

        /// A task as a step.
        struct Whole<T>(T);

        impl<I: $isa, T: Task> $crate::instruction_set::Step<I> for Whole<T> {
            type Out = T::Out;

            #[inline(always)]
            fn run(self, isa: I) -> T::Out {
                self.0.run(isa)
            }
        }

        /// Runs a task with the kernel's instruction set.
        $vis fn with_vectors<T: Task>(kernel: $kernel, task: T) -> T::Out {
            use $crate::instruction_set::InstructionSet as _;
            match kernel {
                $($(#[cfg($($cfg)*)])? $kernel::$variant(isa) => isa.call(Whole(task))),+
            }
        }
    };
}
pub(crate) use tasks;
