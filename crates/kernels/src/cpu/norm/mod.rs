//! Normalisations: by channel over a batch, over the channels of a row, and over the channels around each.

mod batch;
mod layer;
mod local;

pub(super) use batch::Batch;
