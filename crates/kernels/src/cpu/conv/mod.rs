//! Convolutions, channels last: by Winograd's transforms where they save multiplications, else straight by the definition.
//!
//! Images stay as they are between layers. Only weights are packed, anew for every call: they change with every step, and are
//! small beside the images that they pass over. Which algorithm a shape gets is part of [`Tuning`](crate::Tuning).

mod config;
mod direct;
mod epilogue;
pub mod measure;
mod scheme;
mod source;
mod submit;
mod tile;
mod winograd;

pub(crate) use config::Convs;
pub use config::{Algorithm, ConvCase, Pass};
