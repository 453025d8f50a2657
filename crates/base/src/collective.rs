//! Collectives as data: what they leave behind, and which member touches which elements.
//!
//! The simulator and every transport use [`chunk`], so that predicted and counted bytes agree exactly.

use crate::region::split_range;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// What a collective leaves in each member's buffer. Sums run in rank order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Collective {
    /// Everywhere the sum.
    AllReduce,
    /// In chunk `i` of member `i` the sum; the rest is undefined.
    ReduceScatter,
    /// Everywhere, chunk `i` of member `i`.
    AllGather,
}

/// How the numbers of an exchange travel. Other types than `f32` travel as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// As they are.
    #[default]
    Plain,
    /// Rounded to 16 bits, summands as well as sums: half the bytes.
    Bf16,
    /// Only those that are not zero, with their places.
    Sparse,
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Collective::AllReduce => "all-reduce",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllGather => "all-gather",
        })
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Encoding::Plain => "as it is",
            Encoding::Bf16 => "in 16 bits",
            Encoding::Sparse => "without zeros",
        })
    }
}

/// A collective, and how its numbers travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Exchange {
    /// What it leaves behind.
    pub what: Collective,
    /// How the numbers travel.
    pub encoding: Encoding,
}

impl From<Collective> for Exchange {
    /// Numbers travel as they are.
    fn from(what: Collective) -> Self {
        Self { what, encoding: Encoding::Plain }
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.encoding {
            Encoding::Plain => write!(f, "{}", self.what),
            encoding => write!(f, "{} {encoding}", self.what),
        }
    }
}

/// The elements of a buffer of `len` that member `index` of `members` reduces or contributes, on whole cache lines.
pub fn chunk(len: usize, members: usize, index: usize) -> Range<usize> {
    const LINE: usize = 16;
    let lines = split_range(len.div_ceil(LINE), members, index);
    (lines.start * LINE).min(len)..(lines.end * LINE).min(len)
}

/// Elements that member `from` hands to member `to`, each byte once: the direct algorithm, where every member reads the
/// others' share of its own chunk and hands out its sum.
pub fn elements_moved(what: Collective, len: usize, members: usize, from: usize, to: usize) -> usize {
    if from == to {
        return 0;
    }
    let reduce = chunk(len, members, to).len();
    let gather = chunk(len, members, from).len();
    match what {
        Collective::AllReduce => reduce + gather,
        Collective::ReduceScatter => reduce,
        Collective::AllGather => gather,
    }
}
