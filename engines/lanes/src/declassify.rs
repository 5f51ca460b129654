//! What is public although it was made of secrets: a signature, or whether an answer may leave. `make ctgrind` follows secrets
//! through the engine, and has to be told where they end.

/// A value that everybody may know, so that what is done may depend on it. With the feature `ctgrind` Valgrind is told, too; a
/// program without that feature has the value and nothing else.
#[inline(always)]
pub(crate) fn declassify<T: Copy>(value: T) -> T {
    #[cfg(all(feature = "ctgrind", target_arch = "x86_64"))]
    {
        let mut value = value;
        valgrind::make_defined(&mut value);
        value
    }
    #[cfg(not(all(feature = "ctgrind", target_arch = "x86_64")))]
    value
}

#[cfg(all(feature = "ctgrind", target_arch = "x86_64"))]
mod valgrind {
    use core::arch::asm;

    /// The request of `memcheck.h`.
    const MAKE_MEM_DEFINED: usize = 0x4d43_0002;

    /// Tells Valgrind that no bit of a value is secret.
    pub(super) fn make_defined<T>(value: &mut T) {
        let arguments = [MAKE_MEM_DEFINED, core::ptr::from_mut(value) as usize, size_of::<T>(), 0, 0, 0];
        let mut answer = 0usize;
        // SAFETY: the four rotations add up to 128 bits and the exchange is of a register with itself, so that on a processor
        // nothing happens; Valgrind recognises the sequence and reads the six words that `rax` points to.
        unsafe {
            asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                in("rax") arguments.as_ptr(),
                inout("rdx") answer,
                options(nostack),
            );
        }
        core::hint::black_box(answer);
    }
}
