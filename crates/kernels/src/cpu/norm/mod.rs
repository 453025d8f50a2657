//! Normalisations: by channel over a batch, over the channels of a row, and over the channels around each.

mod batch_norm;
mod layer_norm;
mod local_response;

pub(super) use batch_norm::BatchNormPart;
