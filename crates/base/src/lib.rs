//! The vocabulary of Paceline: what every other crate speaks in, and nothing that does I/O.
//!
//! A tensor is known by its global coordinates. A [`Region`](region::Region) is a hyper-rectangle of them; a
//! [`Placement`](placement::Placement) says which rank holds which region, and whether it *owns* it, has a *copy*, or
//! has a *partial* summand. Operators ([`op`]) never write communication: lowering derives it from placements.
//!
//! ```
//! use paceline_base::region::{split_range, Region};
//! // Two workers share 5 samples of 3 features: rows 0..3 and 3..5.
//! let whole = Region::whole(&[5, 3]);
//! let second = whole.with(0, split_range(5, 2, 1));
//! assert_eq!(second.shape(), vec![2, 3]);
//! assert_eq!(second.intersect(&whole), Some(second.clone()));
//! ```

pub mod collective;
mod error;
pub mod kernel;
mod kernel_words;
pub mod layout;
mod memory;
pub mod metric;
mod monitor;
pub mod number;
pub mod op;
pub mod optim;
pub mod placement;
pub mod portion;
pub mod random;
pub mod region;
pub mod sample;
pub mod setting;
pub mod stage;
pub mod staging;
pub mod text;
mod time_split;
pub mod units;
pub mod window;

pub use error::{Error, Kind, Peer, Result};
pub use monitor::Monitor;
pub use staging::Staging;
pub use time_split::{Activity, TimeSplit};
