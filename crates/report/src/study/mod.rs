//! Speed studies: what `paceline speedtest` measured, in figures, words, tables and a page.
//!
//! [`series`] turns measurements into means, fits and conditions; [`words`] reads them; [`tables`] and the page show
//! them; [`csv`] is for other programs. All of it is a function of what the directory holds.

mod analysis;
mod csv;
mod stats;
mod terminal;
mod words;

pub use analysis::{Condition, Effect, Level, Parameter, Series, UnderCondition, series};
pub use csv::csv;
pub use terminal::tables;
pub(crate) use terminal::{against_neither, figure, peak};
pub(crate) use words::relative_to_cell;
pub use words::words;
