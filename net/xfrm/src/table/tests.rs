//! The table's own rules.
