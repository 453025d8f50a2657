//! Tables, verdicts and pages made from run directories, and from nothing else.
//!
//! Everything here is a function of recorded runs: no clock, no live process, no network. A figure can be redrawn years
//! later on another machine, and two people who read the same folders see the same page.
//!
//! - [`compare`] puts runs side by side; [`comparison_table`] prints that.
//! - [`closing_table`] is what a finished run prints.
//! - [`verdicts`] says what is wrong or right with a run, and why.
//! - [`study`] reads speed studies: fits, correlations, words.
//! - [`html`] and [`write_html`] make one self-contained page.
//!
//! ```
//! use paceline_record::{EpochRecord, RunData};
//! use paceline_report::verdicts;
//!
//! let epoch = |epoch, accuracy| EpochRecord { epoch, train_accuracy: Some(accuracy), ..EpochRecord::default() };
//! let mut last = epoch(5, 0.9666);
//! last.val_accuracy = Some(0.6611);
//! let run = RunData { epochs: vec![epoch(4, 0.9576), last], ..RunData::default() };
//! assert!(verdicts(&run)[0].title.contains("over-fitting"));
//! ```

mod closing;
mod compare;
mod digest;
mod format;
mod html;
mod preparation;
mod runs;
mod settings;
mod stages;
pub mod study;
mod terminal;
mod verdict;

pub use closing::closing_table;
pub use compare::{Comparison, Row, compare};
pub use digest::digest;
pub use html::{PageIdentity, html, page_identity, study_html, study_identity, write_html, write_study_html};
pub use paceline_base::layout::Style;
pub use preparation::{is_preparation, preparation_table, preparation_words, preparations_table};
pub use runs::runs_table;
pub use terminal::comparison_table;
pub use verdict::{Level, Topic, Verdict, verdicts};
