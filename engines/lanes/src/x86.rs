//! The instruction sets of x86-64 that kernels are built for. Each is one list of features: what is detected when a value is
//! made, and what is enabled in functions that are given one.

use crate::instruction_set::{InstructionSet, Step};

/// Makes an instruction set: its type, and a macro that enables the same features in a function. One that builds on
/// another has that one's features too.
macro_rules! features {
    (@field) => { () };
    (@field $base:ident) => { $base };
    (@detect) => { Some(()) };
    (@detect $base:ident) => { $base::detect() };
    (@enable [] $($function:tt)*) => { $($function)* };
    (@enable [$base_enabled:ident] $($function:tt)*) => {
        $crate::x86::$base_enabled! { $($function)* }
    };
    ($d:tt $(#[$doc:meta])* $name:literal, $set:ident$(($base:ident, $base_enabled:ident))?, $enabled:ident, [$($feature:tt),+]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $set(features!(@field $($base)?));

        $(impl $set {
            /// The instruction set that this one builds on.
            #[inline(always)]
            #[allow(dead_code, reason = "not every kernel has parts that the base is enough for")]
            pub(crate) fn base(self) -> $base {
                self.0
            }
        })?

        macro_rules! $enabled {
            ($d($d function:tt)*) => {
                $crate::x86::features!(@enable [$($base_enabled)?] #[target_feature($(enable = $feature),+)] $d($d function)*);
            };
        }
        #[allow(unused_imports, reason = "some sets are used by steps only")]
        pub(crate) use $enabled;

        impl InstructionSet for $set {
            const NAME: &'static str = $name;

            fn detect() -> Option<$set> {
                let base = features!(@detect $($base)?)?;
                (true $(&& std::is_x86_feature_detected!($feature))+).then_some($set(base))
            }

            #[inline(always)]
            fn call<S: Step<$set>>(self, step: S) -> S::Out {
                $enabled! {
                    fn enabled<S: Step<$set>>(isa: $set, step: S) -> S::Out {
                        step.run(isa)
                    }
                }
                // rustc 1.95 keeps a function with features apart only where one with these features calls it, not where a call from here
                // is inlined into one. A function without features is kept apart everywhere.
                #[inline(never)]
                fn apart<S: Step<$set>>(isa: $set, step: S) -> S::Out {
                    // SAFETY: `isa` is the proof that the processor has the features that the function enables.
                    unsafe { enabled(isa, step) }
                }
                apart(self, step)
            }
        }
    };
}
pub(crate) use features;

features! { $
    /// AVX2 and the bit instructions that came with it.
    "avx2", Avx2, with_avx2, ["avx2", "bmi1", "bmi2", "lzcnt", "popcnt"]
}

features! { $
    /// AVX-512 (F, BW, VL, DQ), and what every processor that has it has.
    "avx512", Avx512(Avx2, with_avx2), with_avx512, ["avx512f", "avx512bw", "avx512vl", "avx512dq"]
}

features! { $
    /// AVX-512 and its multiplications of 52 bits.
    "avx512-ifma", Avx512Ifma(Avx512, with_avx512), with_avx512_ifma, ["avx512ifma"]
}

features! { $
    /// AVX2 and the multiplications of 52 bits on 256 bits.
    "avx-ifma", AvxIfma(Avx2, with_avx2), with_avx_ifma, ["avxifma"]
}

features! { $
    /// AVX-512, VBMI and GFNI.
    "avx512-vbmi", Avx512Vbmi(Avx512, with_avx512), with_avx512_vbmi, ["avx512vbmi", "gfni"]
}

features! { $
    /// AVX-512, VBMI and VBMI2.
    "avx512-vbmi2", Avx512Vbmi2(Avx512, with_avx512), with_avx512_vbmi2, ["avx512vbmi", "avx512vbmi2"]
}

features! { $
    /// AES-NI, PCLMULQDQ and SSE4.1.
    "aesni", AesNi, with_aesni, ["aes", "pclmulqdq", "ssse3", "sse4.1"]
}

features! { $
    /// VAES and VPCLMULQDQ on 256 bits.
    "vaes256", Vaes256(Avx2, with_avx2), with_vaes256, ["vaes", "vpclmulqdq", "aes", "pclmulqdq"]
}

features! { $
    /// VAES and VPCLMULQDQ on 512 bits.
    "vaes512", Vaes512(Avx512, with_avx512), with_vaes512, ["vaes", "vpclmulqdq", "aes", "pclmulqdq"]
}

features! { $
    /// AVX-512 and carry-less products of 512 bits, with shifts over two words, which every processor that has the one has too.
    "avx512-vpclmul", Avx512Clmul(Avx512, with_avx512), with_avx512_clmul, ["vpclmulqdq", "pclmulqdq", "avx512vbmi2"]
}

features! { $
    /// AVX2 and carry-less products of 256 bits.
    "avx2-vpclmul", Avx2Clmul(Avx2, with_avx2), with_avx2_clmul, ["vpclmulqdq", "pclmulqdq"]
}

features! { $
    /// The SHA instructions.
    "sha-ni", ShaNi, with_sha_ni, ["sha", "sse4.1", "ssse3"]
}

impl Vaes256 {
    /// The instructions on single blocks, which it has too.
    #[inline(always)]
    pub(crate) fn aes_ni(self) -> AesNi {
        AesNi(())
    }
}

impl Vaes512 {
    /// The instructions on single blocks, which it has too.
    #[inline(always)]
    pub(crate) fn aes_ni(self) -> AesNi {
        AesNi(())
    }
}
