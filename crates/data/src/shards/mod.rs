//! Shards: many TFRecord files that are one set, with or without the `index.json` that `paceline prepare` writes.
//!
//! [`Index`] is that file; `Records` are the records of a folder or a file, for access in any order; [`Layout`] says
//! which features hold the image and its class, since not everybody calls them the same.

mod files;
mod index;
mod layout;
mod numbers;
mod open;
mod records;

pub(crate) use files::by_part;
pub use files::{is_record_name, record_files};
#[cfg(test)]
pub(crate) use index::FORMAT;
pub use index::{INDEX, Index, Shard};
pub(crate) use layout::is_file as is_image_file;
pub use layout::{Encoding, FeatureNames, Layout};
pub(crate) use numbers::{Range, one_hot};
pub(crate) use open::{ShardOptions, with_index};
pub(crate) use records::Records;

#[cfg(test)]
mod tests;
