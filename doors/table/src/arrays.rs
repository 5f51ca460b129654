//! Arrow arrays in memory: what the values of one column become, and back, without a file around them.
//!
//! Values that lie one behind the other, or in one width, go to the mill where they lie, and results come where they stay:
//! texts, byte strings and numbers under `random`, `deterministic` and `token`. All else (`ff1`, booleans, views,
//! integers as texts) goes value by value through the worker that columns of files have. Either way the values are
//! those of a file's column, so that arrays and files join and restore each other.

mod column;
mod mark;
mod parts;
mod table;
#[cfg(test)]
mod tests;

pub use self::column::ArrayColumn;
pub use self::mark::MARK_KEY;
pub use self::table::{ArrayPlan, ArrayTable, TableColumn};
