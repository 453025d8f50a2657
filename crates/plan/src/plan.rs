//! Plans: how each operator is split, where its parts run, and how parameters are kept equal.

use paceline_base::region::{split_range, weighted_ranges};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use paceline_graph::ops::{Needs, SplitDim};
use paceline_graph::{Graph, NodeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// How one operator is split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpPlan {
    /// Degree per dimension name; 1 where absent.
    #[serde(default)]
    pub split: BTreeMap<String, usize>,
    /// The rank of each part, parts in row-major order of the operator's dimensions; ranks 0, 1, … if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Vec<usize>>,
}

/// Whether every rank updates all its parameters, or each a share that it then hands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpdateMode {
    /// All-reduce the gradients; every rank does the whole update.
    Replicated,
    /// Reduce-scatter the gradients; each rank updates its chunk; all-gather the parameters.
    Sharded,
}

/// Ranks that a plan may have. Lowering makes tasks for all of them, in every process.
pub(crate) const MOST_RANKS: usize = 4096;

/// A batch in which every part has samples, whatever the plan: for what does not depend on their number.
pub(crate) const MANY_SAMPLES: usize = usize::MAX >> 16;

/// How gradients are made smaller on their way between ranks. All but the first make a run statistical.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// Rounded to 16 bits.
    Bf16,
    /// Only the largest travel; the others are added to the next step's.
    TopK {
        /// How many of a million.
        per_million: u32,
    },
}

/// Where parameters live and how gradients reach them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Store {
    /// Who updates what.
    pub update: UpdateMode,
    /// Gradients travel in buckets of about this many elements.
    pub bucket: usize,
    /// How they travel. What is compressed is not sharded.
    #[serde(default)]
    pub compression: Compression,
}

impl Default for Store {
    /// 256 Ki elements, 1 MB: on threads a bucket costs two handshakes, which smaller ones do not earn back. Larger models
    /// still send their first buckets while the backward pass runs.
    fn default() -> Self {
        Self { update: UpdateMode::Sharded, bucket: 1 << 18, compression: Compression::None }
    }
}

/// A parallelisation of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of ranks.
    pub ranks: usize,
    /// Operators by name.
    pub operators: BTreeMap<String, OpPlan>,
    /// For operators that are not named: `None` splits samples over all ranks.
    pub default: Option<OpPlan>,
    /// How parameters are kept equal.
    pub store: Store,
    /// A weight for each rank, by which samples are shared out wherever an operator is split along them: for ranks that are
    /// not equally fast, or do not have equally many samples. All alike if absent.
    pub shares: Option<Vec<u64>>,
}

/// One part of an operator, placed.
#[derive(Clone, Debug)]
pub struct Part {
    /// Where it runs.
    pub rank: usize,
    /// What it reads, holds and makes.
    pub needs: Needs,
}

/// All parts of all operators, for one batch size.
#[derive(Clone, Debug)]
pub struct Parts {
    /// By node, in part order. The input has none: it is loaded where it is wanted.
    pub of: Vec<Vec<Part>>,
}

impl Plan {
    /// Samples split over all ranks, parameters mirrored. One rank: no parallelism.
    pub fn data_parallel(ranks: usize) -> Self {
        Self { ranks, operators: BTreeMap::new(), default: None, store: Store::default(), shares: None }
    }

    /// Checks the plan against a model: names, dimensions, degrees, ranks.
    pub fn check(&self, graph: &Graph) -> Result<()> {
        self.check_ranks()?;
        self.check_names(graph)?;
        self.parts(graph, MANY_SAMPLES).map(drop)
    }

    /// Checks the number of ranks and their shares.
    pub(crate) fn check_ranks(&self) -> Result<()> {
        if self.ranks == 0 {
            return Err(Error::user("plan: ranks is 0; give at least 1"));
        }
        if self.ranks > MOST_RANKS {
            return Err(Error::user(format!(
                "plan: ranks is {}; give at most {MOST_RANKS}: a schedule names every task of every rank",
                self.ranks
            )));
        }
        match &self.shares {
            Some(shares) if shares.len() != self.ranks => {
                return Err(Error::user(format!(
                    "plan: shares has {} weights for {} ranks; give one for each",
                    shares.len(),
                    self.ranks
                )));
            }
            Some(shares) if shares.iter().all(|&w| w == 0) => {
                return Err(Error::user("plan: shares are all 0; give at least one rank a weight above 0"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks that the model has the operators that the plan names.
    pub(crate) fn check_names(&self, graph: &Graph) -> Result<()> {
        for name in self.operators.keys() {
            match graph.nodes.iter().position(|n| n.name == *name) {
                Some(id) if graph.is_data(id) => {
                    return Err(Error::user(format!(
                        "plan: {name} is the data itself, which every rank loads where it is wanted; leave it out of the plan"
                    )));
                }
                Some(_) => {}
                None => {
                    let hint = did_you_mean(name, graph.nodes.iter().map(|n| &n.name[..]));
                    return Err(Error::user(format!("plan: model {} has no operator {name}{hint}", graph.name)));
                }
            }
        }
        Ok(())
    }

    /// The parts of every operator for a batch of `samples`.
    pub fn parts(&self, graph: &Graph, samples: usize) -> Result<Parts> {
        let splits = self.splits(graph).into_iter().enumerate();
        let of = splits.map(|(id, split)| self.parts_of_node(graph, id, &split, 0..samples)).collect::<Result<_>>()?;
        Ok(Parts { of })
    }

    /// How every operator is split. The input is not: it is loaded where it is wanted.
    pub(crate) fn splits(&self, graph: &Graph) -> Vec<OpPlan> {
        let mut chosen: Vec<OpPlan> = Vec::with_capacity(graph.nodes.len());
        for id in 0..graph.nodes.len() {
            let split = self.choose(graph, id, &chosen);
            chosen.push(split);
        }
        chosen
    }

    /// The parts of one operator that is split so, for these rows of a batch.
    pub(crate) fn parts_of_node(
        &self,
        graph: &Graph,
        id: NodeId,
        split: &OpPlan,
        rows: Range<usize>,
    ) -> Result<Vec<Part>> {
        if graph.is_data(id) { Ok(Vec::new()) } else { self.split(graph, id, split, rows) }
    }

    /// The plan of one operator: its own, or, for one that follows (element-wise, a pool, a normalisation), that of the
    /// operator before it, so that little has to move, or the default.
    fn choose(&self, graph: &Graph, id: NodeId, before: &[OpPlan]) -> OpPlan {
        let node = &graph.nodes[id];
        if let Some(own) = self.operators.get(&node.name) {
            return own.clone();
        }
        let input = node.inputs.iter().copied().find(|&i| !graph.is_data(i));
        if let Some(previous) = input.filter(|_| node.op.follows()).map(|i| &before[i]) {
            let dims = node.op.dims(1, &graph.input_shapes(id));
            let fits = |(name, &degree): (&String, &usize)| {
                degree == 1 || position(&dims, name).is_some_and(|d| d == 0 || degree <= dims[d].extent)
            };
            if previous.split.iter().all(fits) {
                let mut plan = previous.clone();
                plan.split.retain(|_, degree| *degree > 1);
                return plan;
            }
        }
        self.default
            .clone()
            .unwrap_or_else(|| OpPlan { split: BTreeMap::from([("sample".to_string(), self.ranks)]), ranks: None })
    }

    fn split(&self, graph: &Graph, id: NodeId, plan: &OpPlan, rows: Range<usize>) -> Result<Vec<Part>> {
        let node = &graph.nodes[id];
        let shapes = graph.input_shapes(id);
        let dims = node.op.dims(rows.len(), &shapes);
        let fail = |text: String| Error::user(format!("plan: operator {}: {text}", node.name));
        let mut degrees = vec![1; dims.len()];
        for (name, &degree) in &plan.split {
            let Some(at) = position(&dims, name) else {
                let names: Vec<_> = dims.iter().map(|d| d.name).collect();
                let hint = did_you_mean(name, names.iter().copied());
                return Err(fail(format!(
                    "{} cannot be split along {name}{hint}; it can along {}",
                    node.op.kind(),
                    names.join(", ")
                )));
            };
            degrees[at] *= degree;
            if degree == 0 || (at > 0 && degrees[at] > dims[at].extent) {
                return Err(fail(format!("split.{name} is {degree}; give 1 to {}", dims[at].extent)));
            }
        }
        let count: usize = degrees.iter().product();
        let ranks = match &plan.ranks {
            Some(ranks) if ranks.len() != count => {
                return Err(fail(format!(
                    "it is split into {count} parts, but ranks lists {}; give one rank for each part",
                    ranks.len()
                )));
            }
            Some(ranks) => ranks.clone(),
            None => (0..count).collect(),
        };
        if let Some(&bad) = ranks.iter().find(|&&r| r >= self.ranks) {
            return Err(fail(format!(
                "a part is on rank {bad}, but the plan has {} ranks (0 to {}); raise ranks, split less, or list ranks",
                self.ranks,
                self.ranks - 1
            )));
        }
        let samples = match &self.shares {
            Some(shares) => {
                // Samples are the outermost dimension: the parts of one piece stand together.
                let pieces = ranks.chunks(count / degrees[0]);
                let weights: Vec<u64> =
                    pieces.map(|on| on.iter().fold(0, |sum: u64, &rank| sum.saturating_add(shares[rank]))).collect();
                if weights.iter().all(|&w| w == 0) {
                    return Err(fail(
                        "its parts are on ranks whose shares are 0; give one of them a weight above 0".into(),
                    ));
                }
                weighted_ranges(dims[0].extent, &weights)
            }
            None => (0..degrees[0]).map(|piece| split_range(dims[0].extent, degrees[0], piece)).collect(),
        };
        Ok((0..count)
            .map(|part| {
                let (mut rest, mut ranges) = (part, vec![0..0; dims.len()]);
                for axis in (1..dims.len()).rev() {
                    ranges[axis] = split_range(dims[axis].extent, degrees[axis], rest % degrees[axis]);
                    rest /= degrees[axis];
                }
                ranges[0] = rows.start + samples[rest].start..rows.start + samples[rest].end;
                Part { rank: ranks[part], needs: node.op.needs(&ranges, &shapes) }
            })
            .collect())
    }
}

/// The dimension of this name. Axes of images were once known by number only, and still are in older plan files.
fn position(dims: &[SplitDim], name: &str) -> Option<usize> {
    let image = dims.get(1).is_some_and(|d| d.name == "height");
    let number = || name.strip_prefix("axis")?.parse().ok().filter(|n| image && (1..dims.len()).contains(n));
    dims.iter().position(|d| d.name == name).or_else(number)
}
