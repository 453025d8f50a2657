//! The vocabulary of Paceline: shapes, regions, placements, operators, units, random numbers, errors

pub mod error;
pub use error::{Error, Kind, Result};
