//! What is decided once for each convolution of a run: the algorithm, how the work is cut, and the scratch it needs.

use super::direct::{self, Geometry};
use super::scheme::{Scheme, Tile2Kernel3, Tile2Kernel5, Tile4Kernel3};
use super::winograd;
use crate::cpu::memory::Memory;
use crate::tuning::Tuning;
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::window::{ConvDims, PoolDims};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// How a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// By the definition, any shape.
    #[serde(rename = "direct")]
    Direct,
    /// Winograd F(2×2, 3×3): 2.25 times fewer multiplications.
    #[serde(rename = "winograd-2x2-3x3")]
    Winograd2,
    /// Winograd F(4×4, 3×3): 4 times fewer, rounding errors somewhat larger.
    #[serde(rename = "winograd-4x4-3x3")]
    Winograd4,
    /// Winograd F(2×2, 5×5): 2.8 times fewer.
    #[serde(rename = "winograd-2x2-5x5")]
    Winograd5,
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Algorithm::Direct => "direct",
            Algorithm::Winograd2 => "winograd-2x2-3x3",
            Algorithm::Winograd4 => "winograd-4x4-3x3",
            Algorithm::Winograd5 => "winograd-2x2-5x5",
        })
    }
}

/// Which result of a convolution is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// The output.
    Forward,
    /// The gradient of the input.
    Data,
    /// The gradient of the weights.
    Weights,
}

impl fmt::Display for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pass::Forward => "forward",
            Pass::Data => "data",
            Pass::Weights => "weights",
        })
    }
}

/// One convolution that an algorithm is chosen for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ConvCase {
    /// What is computed.
    pub pass: Pass,
    /// Its sizes; with 1 sample in [`shape`](Self::shape).
    pub dims: ConvDims,
    /// The pool that is computed with it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolDims>,
}

impl ConvCase {
    /// The case of a kernel, if it is a convolution.
    pub fn of(kernel: &Kernel) -> Option<Self> {
        Some(match kernel {
            Kernel::ConvForward { dims, pool, .. } => Self { pass: Pass::Forward, dims: *dims, pool: *pool },
            Kernel::ConvBackwardData { dims, pooled, .. } => Self { pass: Pass::Data, dims: *dims, pool: *pooled },
            Kernel::ConvBackwardWeights { dims, pooled, .. } => {
                Self { pass: Pass::Weights, dims: *dims, pool: *pooled }
            }
            _ => return None,
        })
    }

    /// The case without its number of samples: what a choice is made for, so that all batch sizes of a run share it.
    #[must_use]
    pub fn shape(&self) -> Self {
        let mut case = *self;
        case.dims.samples = 1;
        if let Some(pool) = &mut case.pool {
            pool.samples = 1;
        }
        case
    }

    /// The algorithms that can compute it.
    pub fn candidates(&self) -> Vec<Algorithm> {
        let d = &self.dims;
        let mut list = vec![Algorithm::Direct];
        // The maximum of 2×2 windows is taken within a tile; other windows only in strips.
        let pool = self.pass != Pass::Forward || self.pool.is_none_or(|p| p.window == [2, 2] && p.stride == [2, 2]);
        if d.stride == [1, 1] && d.dilation == [1, 1] && d.groups == 1 && pool {
            match d.kernel {
                [3, 3] => list.extend([Algorithm::Winograd2, Algorithm::Winograd4]),
                [5, 5] => list.push(Algorithm::Winograd5),
                _ => {}
            }
        }
        list
    }

    /// A choice without measuring: transforms pay off once both sides have a vector of channels to share their cost.
    pub fn likely(&self) -> Algorithm {
        let d = &self.dims;
        let best = *self.candidates().last().unwrap_or(&Algorithm::Direct);
        if d.channels.min(d.out_channels) < 8 { Algorithm::Direct } else { best }
    }
}

/// How one convolution of a run is computed on this device: algorithm, blocks, scratch.
pub(crate) struct ConvConfig {
    pub(super) algorithm: Algorithm,
    /// Of a direct convolution.
    pub(super) geometry: Option<Geometry>,
    /// Of a direct weight gradient: where each row's strip begins.
    pub(super) rows: Vec<usize>,
    /// Tiles of a block, for Winograd.
    pub(super) block: usize,
    /// Weight gradients: the number of partial sums. A function of the shape, never of the threads, so that these do not change
    /// bits; each is summed over its own strips or tiles, and all are added up in their order.
    pub(super) sums: usize,
    /// Weight gradients: elements of a partial sum, with that of the bias.
    pub(super) sum: usize,
    /// Scratch that all threads share: packed weights, or the partial sums of a weight gradient.
    pub(super) shared: usize,
    /// Scratch of each thread.
    pub(super) own: usize,
}

/// Elements of a block of tiles, transformed patches and products together: they stay in the second-level cache.
const BLOCK: usize = 80 << 10;

/// Partial sums of a weight gradient at most: whole ones for 1, 2, 4, 8 or 16 threads. Other numbers of threads, and more of
/// them, also divide output channels.
const MOST_SUMS: usize = 16;

/// Elements that all partial sums of a weight gradient may take: larger gradients have one sum, and threads divide its channels.
const SUMS: usize = 1 << 21;

/// Terms that a partial sum has at least, so that adding it up costs little beside them; fewer where it stays in the first-level
/// caches.
const TERMS: usize = 256;
const FEW_TERMS: usize = 48;
const SMALL_SUM: usize = 8 << 10;

/// How many partial sums a weight gradient of `len` elements has, each of them a sum of `terms` terms in all.
fn partial_sums(len: usize, terms: usize) -> usize {
    let least = if len <= SMALL_SUM { FEW_TERMS } else { TERMS };
    let most = (terms / least).min(SUMS / len.max(1)).clamp(1, MOST_SUMS);
    1 << most.ilog2()
}

fn align(len: usize) -> usize {
    len.next_multiple_of(64)
}

impl ConvConfig {
    fn new(case: &ConvCase, algorithm: Algorithm, lanes: usize, threads: usize) -> Self {
        match algorithm {
            Algorithm::Direct => Self::direct(case, lanes, threads),
            Algorithm::Winograd2 => Self::winograd::<Tile2Kernel3>(case, algorithm, lanes, threads),
            Algorithm::Winograd4 => Self::winograd::<Tile4Kernel3>(case, algorithm, lanes, threads),
            Algorithm::Winograd5 => Self::winograd::<Tile2Kernel5>(case, algorithm, lanes, threads),
        }
    }

    fn direct(case: &ConvCase, lanes: usize, threads: usize) -> Self {
        let d = &case.dims;
        let mut config = Self {
            algorithm: Algorithm::Direct,
            geometry: None,
            rows: Vec::new(),
            block: 0,
            sums: 0,
            sum: 0,
            shared: 0,
            own: 0,
        };
        match case.pass {
            Pass::Forward => {
                let mut g = Geometry::forward(d, lanes, case.pool.as_ref());
                if case.pool.is_none() {
                    g = g.group(d.samples.div_ceil(threads));
                }
                config.shared = align(g.packed);
                let rows = case.pool.map_or(0, |p| p.window[0] * d.out_width * d.out_channels);
                config.own = align(g.together * g.strip + rows);
                config.geometry = Some(g);
            }
            Pass::Data => {
                let g = Geometry::backward(d, lanes).group(d.samples.div_ceil(threads));
                config.shared = align(g.packed);
                config.own = align(g.together * g.strip);
                config.geometry = Some(g);
            }
            Pass::Weights => {
                let g = Geometry::weights(d, lanes);
                let len = g.gradient_len(lanes);
                let sums = partial_sums(len, d.samples * d.out_height * d.out_width);
                let g = g.group(d.samples / sums);
                config.sums = sums.min(g.strips(0, d.samples)).max(1);
                config.sum = align(len) + align(d.out_channels.next_multiple_of(lanes));
                config.rows = direct::row_offsets(&g);
                config.shared = config.sums * config.sum;
                config.own = align(g.together * g.strip.next_multiple_of(16)) + align(g.gradient_strip());
                config.geometry = Some(g);
            }
        }
        config
    }

    fn winograd<C: Scheme>(case: &ConvCase, algorithm: Algorithm, lanes: usize, threads: usize) -> Self {
        let d = &case.dims;
        let (terms, outputs) = match case.pass {
            Pass::Data => (d.out_channels, d.channels),
            _ => (d.channels, d.out_channels),
        };
        let (height, width) = match case.pass {
            Pass::Data => (d.height, d.width),
            _ => (d.out_height, d.out_width),
        };
        let tiles = d.samples * height.div_ceil(C::TILE) * width.div_ceil(C::TILE);
        let wide = terms.next_multiple_of(lanes) + outputs.next_multiple_of(lanes);
        let weights = winograd::weights_len::<C>(terms, outputs, lanes);
        // Weights that do not fit the cache are fetched once per block: the larger they are, the larger a block is worth.
        let elements = (weights / 3).clamp(BLOCK, 1 << 20);
        let (sums, sum) = match case.pass {
            Pass::Weights => (partial_sums(weights, tiles), align(weights) + align(outputs.next_multiple_of(lanes))),
            _ => (0, 0),
        };
        // Tiles that are done one after the other.
        let tiles = tiles.div_ceil(if sums == 0 { threads } else { sums });
        let block = (elements / (C::PATCH * C::PATCH * wide)).clamp(24, winograd::MOST_TILES).min(tiles.max(1));
        let own = align(winograd::block_len::<C>(block, terms, outputs, lanes));
        let shared = if sums == 0 { align(weights) } else { sums * sum };
        Self { algorithm, geometry: None, rows: Vec::new(), block, sums, sum, shared, own }
    }
}

impl ConvConfig {
    /// Elements of scratch, for all threads.
    fn scratch_len(&self, threads: usize) -> usize {
        self.shared + threads * self.own
    }
}

/// The convolutions of one device: configs by case, and scratch for the largest.
#[derive(Default)]
pub(crate) struct Convs {
    configs: HashMap<ConvCase, Arc<ConvConfig>>,
    pub(super) scratch: Option<Memory>,
}

impl Convs {
    /// The config of a case, made at its first use. Scratch grows to what it needs.
    pub(super) fn config(
        &mut self,
        case: &ConvCase,
        algorithm: impl FnOnce() -> Algorithm,
        lanes: usize,
        threads: usize,
    ) -> Result<Arc<ConvConfig>> {
        if let Some(config) = self.configs.get(case) {
            return Ok(config.clone());
        }
        let config = Arc::new(ConvConfig::new(case, algorithm(), lanes, threads));
        let need = config.scratch_len(threads);
        if self.scratch.as_ref().is_none_or(|s| s.len() < need) {
            self.scratch = None; // before the new one is made: both together might not fit
            self.scratch = Some(Memory::new(need)?);
        }
        self.configs.insert(*case, config.clone());
        Ok(config)
    }

    /// Elements of scratch that the largest of these cases needs.
    pub(crate) fn scratch_len(
        cases: impl Iterator<Item = ConvCase>,
        tuning: &Tuning,
        lanes: usize,
        threads: usize,
    ) -> usize {
        let cases: HashSet<ConvCase> = cases.collect();
        let need = |case: &ConvCase| ConvConfig::new(case, tuning.conv(case), lanes, threads).scratch_len(threads);
        cases.iter().map(need).max().unwrap_or(0)
    }

    /// Forgets a config, so that another algorithm can be tried.
    pub(super) fn forget(&mut self, case: &ConvCase) {
        self.configs.remove(case);
    }

    /// Bytes of scratch.
    pub(crate) fn bytes(&self) -> usize {
        self.scratch.as_ref().map_or(0, |s| s.len() * size_of::<f32>())
    }
}
