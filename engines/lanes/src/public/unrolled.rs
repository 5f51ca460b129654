//! Loops without a loop.

/// Repeats a block for each index below a constant, which is at most eleven, `long` at most 17. Columns are registers, so that their indices must be known
/// when it is compiled. A loop is unrolled by compilers too, but late: in functions that hold all of a point's arithmetic, a
/// thousand short ones took minutes.
macro_rules! unrolled {
    ($index:ident < $count:expr => $body:block) => {
        $crate::public::unrolled::unrolled!(@each $index $count, $body, 0 1 2 3 4 5 6 7 8 9 10)
    };
    (long $index:ident < $count:expr => $body:block) => {
        $crate::public::unrolled::unrolled!(@each $index $count, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    };
    (@each $index:ident $count:expr, $body:block, $($at:literal)*) => {
        $(if $at < $count {
            let $index: usize = $at;
            $body
        })*
    };
}
pub(crate) use unrolled;

/// An array of what an expression gives for each index below its length, at most eleven; the first value stands there before.
macro_rules! filled {
    ($index:ident < $count:expr, $first:expr, $value:expr) => {{
        let mut all = [$first; $count];
        $crate::public::unrolled::unrolled!($index < $count => {
            all[$index] = $value;
        });
        all
    }};
}
pub(crate) use filled;
