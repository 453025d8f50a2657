//! Throughput studies: how fast images come from files and from records.
//!
//! 1. [`ListedSource::open`] recognises what a path holds.
//! 2. [`Design::cells`] lists what to measure, in an order that mixes all parameters by the seed, so that a machine that
//!    becomes slower does not look like an effect of one of them.
//! 3. A [`Measurer`] measures one [`Cell`](paceline_record::Cell) after another. A cell holds all that is needed, so that
//!    any process on any machine that sees the data can do it; [`measure_cells`] is the whole of such a process.
//!
//! What is absent: no directory is written here, and nothing is concluded; `paceline-report` does that from the records.

mod design;
mod measure;
mod page_cache;
mod partition;
mod setting;
mod source;

pub use design::{Design, Designed, StudiedSource};
pub use measure::{Measurer, measure_cells};
pub use page_cache::can_drop;
pub use setting::{StudySetting, StudySettingNames};
pub use source::{ListedSource, recognise};
