//! What is decided once for each convolution of a run: the algorithm, how the work is cut, and the scratch it needs.

use super::direct::{self, Geometry};
use super::scheme::{Scheme, Tile2Kernel3, Tile2Kernel5, Tile4Kernel3};
use super::winograd;
use crate::cpu::memory::Memory;
use paceline_base::Result;
use paceline_base::kernel::Kernel;
use paceline_base::window::{ConvDims, PoolDims};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
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
    /// Its sizes.
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

/// A convolution with everything decided.
pub(crate) struct Plan {
    pub(super) algorithm: Algorithm,
    /// Of a direct convolution.
    pub(super) geometry: Option<Geometry>,
    /// Of a direct weight gradient: where each row's strip begins.
    pub(super) rows: Vec<usize>,
    /// Tiles of a block, for Winograd.
    pub(super) block: usize,
    /// Weight gradients: divide output channels between threads, not samples.
    pub(super) by_outputs: bool,
    /// Scratch that all threads share: packed weights.
    pub(super) shared: usize,
    /// Scratch of each thread.
    pub(super) own: usize,
}

/// Elements of a block of tiles, transformed patches and products together: they stay in the second-level cache.
const BLOCK: usize = 80 << 10;

/// Weight gradients up to so many elements are summed by every thread for its own samples.
const SUMMED_APART: usize = 1 << 20;

fn align(len: usize) -> usize {
    len.next_multiple_of(64)
}

impl Plan {
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
        let mut plan = Self {
            algorithm: Algorithm::Direct,
            geometry: None,
            rows: Vec::new(),
            block: 0,
            by_outputs: false,
            shared: 0,
            own: 0,
        };
        match case.pass {
            Pass::Forward => {
                let mut g = Geometry::forward(d, lanes, case.pool.as_ref());
                if case.pool.is_none() {
                    g = g.group(d.samples.div_ceil(threads));
                }
                plan.shared = align(g.packed);
                let rows = case.pool.map_or(0, |p| p.window[0] * d.out_width * d.out_channels);
                plan.own = align(g.together * g.strip + rows);
                plan.geometry = Some(g);
            }
            Pass::Data => {
                let g = Geometry::backward(d, lanes).group(d.samples.div_ceil(threads));
                plan.shared = align(g.packed);
                plan.own = align(g.together * g.strip);
                plan.geometry = Some(g);
            }
            Pass::Weights => {
                let g = Geometry::weights(d, lanes).group(d.samples.div_ceil(threads));
                plan.rows = direct::row_offsets(&g);
                plan.own = align(g.gradient_len(lanes))
                    + align(d.out_channels.next_multiple_of(lanes))
                    + align(g.together * g.strip.next_multiple_of(16))
                    + align(g.gradient_strip());
                plan.geometry = Some(g);
            }
        }
        plan
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
        let block = (elements / (C::PATCH * C::PATCH * wide)).clamp(24, 512).min(tiles.div_ceil(threads).max(1));
        let block_len = align(winograd::block_len::<C>(block, terms, outputs, lanes));
        let by_outputs = case.pass == Pass::Weights && threads > 1 && weights > SUMMED_APART;
        let (shared, own) = match case.pass {
            Pass::Weights if by_outputs => {
                let part = outputs.div_ceil(threads).next_multiple_of(lanes);
                (0, align(winograd::weights_len::<C>(terms, part, lanes)) + align(part) + block_len)
            }
            Pass::Weights => (0, align(weights) + align(outputs.next_multiple_of(lanes)) + block_len),
            _ => (align(weights), block_len),
        };
        Self { algorithm, geometry: None, rows: Vec::new(), block, by_outputs, shared, own }
    }
}

/// The convolutions of one device: plans by case, and scratch for the largest.
#[derive(Default)]
pub(crate) struct Convs {
    plans: HashMap<ConvCase, Arc<Plan>>,
    pub(super) scratch: Option<Memory>,
}

impl Convs {
    /// The plan of a case, made at its first use. Scratch grows to what it needs.
    pub(super) fn plan(
        &mut self,
        case: &ConvCase,
        algorithm: impl FnOnce() -> Algorithm,
        lanes: usize,
        threads: usize,
    ) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plans.get(case) {
            return Ok(plan.clone());
        }
        let plan = Arc::new(Plan::new(case, algorithm(), lanes, threads));
        let need = plan.shared + threads * plan.own;
        if self.scratch.as_ref().is_none_or(|s| s.len() < need) {
            self.scratch = None; // before the new one is made: both together might not fit
            self.scratch = Some(Memory::new(need)?);
        }
        self.plans.insert(*case, plan.clone());
        Ok(plan)
    }

    /// Forgets a plan, so that another algorithm can be tried.
    pub(super) fn forget(&mut self, case: &ConvCase) {
        self.plans.remove(case);
    }

    /// Bytes of scratch.
    pub(crate) fn bytes(&self) -> usize {
        self.scratch.as_ref().map_or(0, |s| s.len() * size_of::<f32>())
    }
}
