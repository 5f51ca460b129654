//! What the lab measured, as data, and how it is shown.
//!
//! A method of the lab returns a [`Section`]: numbers under names that stay the same from record to record
//! ([`Measurement`]), and what a reader gets to see: a lesson, plots, heat maps, tables, conclusions. A [`Record`] is the
//! sections of one run on one machine: read and written as JSON ([`Record::read`], [`Record::to_json`]), shown as a page
//! ([`html`]) or in a terminal ([`terminal`]), and compared with another ([`compare`]). Nothing in this crate measures.
mod compare;
mod estimate;
mod facts;
mod html;
mod inks;
mod machine;
mod map;
mod model;
mod plot;
mod read;
#[cfg(test)]
mod sample;
mod scale;
mod svg;
mod table;
mod terminal;
mod words;

pub use compare::{Change, Comparison, Verdict, compare};
pub use estimate::{Estimate, SPREAD_QUOTABLE_MAX};
pub use html::html;
pub use machine::Machine;
pub use map::{MAP_AHEAD_ABOVE, MAP_BEHIND_BELOW, Map, MapCell, MapGroup, MapRow, MapState};
pub use model::{Better, Environment, Measurement, Missing, RECORD_FORMAT, Record, Section};
pub use plot::{Axis, Crossing, Look, Plot, Scale, Series};
pub use read::RecordError;
pub use svg::svg;
pub use table::{Align, Cell, Column, Emphasis, Table};
pub use terminal::{terminal, terminal_head, terminal_warnings};
pub use words::grouped;
