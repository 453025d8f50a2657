//! What a kernel costs on one host: the time that was measured for its kind and shape, or what kernels of the same kind, else of the same class,
//! were measured to make of the host's speed.
//!
//! A measured kernel is compared with its *bound*: the time in which the host's product speed would do its operations, or its copy speed move its
//! bytes, whichever is longer. Between measured shapes it is the ratio to the bound that is interpolated, by how far sizes are apart in logarithms, since
//! it changes slowly where times change by orders of magnitude.

use paceline_base::kernel::Kernel;
use paceline_base::optim::Rule;
use paceline_base::text::did_you_mean;
use std::collections::BTreeMap;
use std::fmt;

/// Most sizes that a shape has.
const SIZES: usize = 9;

/// Measured shapes that are taken into account, the nearest ones.
const NEAREST: usize = 3;

/// How kernels are grouped where a kind was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Class {
    /// Products of matrices.
    Dense,
    /// Convolutions.
    Conv,
    /// Everything that does little with each element: activations, pools, norms, copies, loads.
    Elements,
    /// The optimiser's rules.
    Update,
}

impl Class {
    /// The time over the bound where nothing of the class was measured: orders of magnitude, from a processor of 2022.
    fn usual(self) -> f64 {
        match self {
            Class::Dense => 1.5,
            Class::Conv => 2.0,
            Class::Elements | Class::Update => 1.0,
        }
    }
}

/// All kinds, as they are called in a cluster file. Words after a `+` are what is done in the same pass.
const KINDS: [&str; 47] = [
    "load",
    "dense-forward",
    "dense-backward-data",
    "dense-backward-weights",
    "dense-backward+sgd",
    "dense-backward+momentum",
    "dense-backward+adam",
    "dense-backward+adagrad",
    "conv-forward",
    "conv-forward+pool",
    "conv-backward-data",
    "conv-backward-data+pool",
    "conv-backward-weights",
    "conv-backward-weights+pool",
    "max-pool",
    "max-pool-backward",
    "average-pool",
    "average-pool-backward",
    "batch-sums",
    "batch-normalize",
    "batch-infer",
    "batch-gradient-sums",
    "batch-backward",
    "local-response",
    "local-response-backward",
    "layer-norm",
    "layer-norm-backward-data",
    "layer-norm-backward-weights",
    "sum",
    "activate",
    "activate+tanh",
    "activate+sigmoid",
    "activate+gelu",
    "activate-backward",
    "activate-backward+tanh",
    "activate-backward+sigmoid",
    "activate-backward+gelu",
    "dropout",
    "loss",
    "copy",
    "add",
    "zero",
    "sparsify",
    "update+sgd",
    "update+momentum",
    "update+adam",
    "update+adagrad",
];

/// A kernel's kind and sizes: what its time depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelShape {
    kind: &'static str,
    sizes: [u32; SIZES],
    len: u8,
}

impl KernelShape {
    fn new(kind: &'static str, sizes: &[usize]) -> Self {
        let mut all = [0; SIZES];
        for (to, from) in all.iter_mut().zip(sizes) {
            *to = (*from).min(u32::MAX as usize) as u32;
        }
        Self { kind, sizes: all, len: sizes.len().min(SIZES) as u8 }
    }

    /// Of a kernel.
    pub fn of(kernel: &Kernel) -> Self {
        use paceline_base::op::Activation as A;
        let by_function = |plain, tanh, sigmoid, gelu, function: &A| match function {
            A::Relu => plain,
            A::Tanh => tanh,
            A::Sigmoid => sigmoid,
            A::Gelu => gelu,
        };
        match kernel {
            Kernel::DenseForward { dims: d, .. }
            | Kernel::DenseBackwardData { dims: d, .. }
            | Kernel::DenseBackwardWeights { dims: d, .. } => Self::new(kernel.name(), &[d.rows, d.outputs, d.inputs]),
            Kernel::DenseBackwardUpdate { dims: d, rule, .. } => {
                let kind = of_rule(
                    rule,
                    "dense-backward+sgd",
                    "dense-backward+momentum",
                    "dense-backward+adam",
                    "dense-backward+adagrad",
                );
                Self::new(kind, &[d.rows, d.outputs, d.inputs])
            }
            Kernel::ConvForward { dims: d, pool, .. } => {
                Self::conv(if pool.is_some() { "conv-forward+pool" } else { "conv-forward" }, d)
            }
            Kernel::ConvBackwardData { dims: d, pooled, .. } => {
                Self::conv(if pooled.is_some() { "conv-backward-data+pool" } else { "conv-backward-data" }, d)
            }
            Kernel::ConvBackwardWeights { dims: d, pooled, .. } => {
                Self::conv(if pooled.is_some() { "conv-backward-weights+pool" } else { "conv-backward-weights" }, d)
            }
            Kernel::MaxPool { dims: d, .. }
            | Kernel::MaxPoolBackward { dims: d }
            | Kernel::AveragePool { dims: d, .. }
            | Kernel::AveragePoolBackward { dims: d, .. } => Self::new(
                kernel.name(),
                &[d.samples, d.height, d.width, d.channels, d.window[0], d.window[1], d.stride[0]],
            ),
            Kernel::BatchSums { rows, channels }
            | Kernel::BatchNormalize { rows, channels, .. }
            | Kernel::BatchInfer { rows, channels, .. }
            | Kernel::BatchGradientSums { rows, channels, .. }
            | Kernel::BatchBackward { rows, channels, .. }
            | Kernel::LayerNorm { rows, channels, .. }
            | Kernel::LayerNormBackwardData { rows, channels }
            | Kernel::LayerNormBackwardWeights { rows, channels } => Self::new(kernel.name(), &[*rows, *channels]),
            Kernel::LocalResponse(l) | Kernel::LocalResponseBackward(l) => {
                Self::new(kernel.name(), &[l.rows, l.out_channels, l.size])
            }
            Kernel::Sum { inputs, len, .. } => Self::new(kernel.name(), &[*len, *inputs]),
            Kernel::Activate { function, len } => Self::new(
                by_function("activate", "activate+tanh", "activate+sigmoid", "activate+gelu", function),
                &[*len],
            ),
            Kernel::ActivateBackward { function, len } => Self::new(
                by_function(
                    "activate-backward",
                    "activate-backward+tanh",
                    "activate-backward+sigmoid",
                    "activate-backward+gelu",
                    function,
                ),
                &[*len],
            ),
            Kernel::Dropout { region, .. } => Self::new(kernel.name(), &[region.len()]),
            Kernel::Loss { rows, classes, .. } => Self::new(kernel.name(), &[*rows, *classes]),
            Kernel::Copy(walk) | Kernel::Add(walk) => Self::new(kernel.name(), &[walk.len()]),
            Kernel::Zero { len } => Self::new(kernel.name(), &[*len]),
            Kernel::Sparsify { len, .. } => Self::new(kernel.name(), &[*len]),
            Kernel::Update { rule, segments } => {
                let kind = of_rule(rule, "update+sgd", "update+momentum", "update+adam", "update+adagrad");
                Self::new(kind, &[segments.iter().map(|s| s.len).sum()])
            }
        }
    }

    fn conv(kind: &'static str, d: &paceline_base::window::ConvDims) -> Self {
        let sizes =
            [d.samples, d.height, d.width, d.channels, d.out_channels, d.kernel[0], d.kernel[1], d.stride[0], d.groups];
        Self::new(kind, &sizes)
    }

    /// Samples brought into a buffer: how many elements.
    pub fn load(elements: usize) -> Self {
        Self::new("load", &[elements])
    }

    /// Of a name in a cluster file: the kind, then its sizes.
    fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let kind = words.next().unwrap_or_default();
        let kind = KINDS
            .iter()
            .find(|k| **k == kind)
            .ok_or_else(|| format!("unknown kernel {kind}{}", did_you_mean(kind, KINDS)))?;
        let sizes: Result<Vec<usize>, _> = words.map(str::parse::<usize>).collect();
        match sizes {
            Ok(sizes) if (1..=SIZES).contains(&sizes.len()) && sizes.iter().all(|&n| u32::try_from(n).is_ok()) => {
                Ok(Self::new(kind, &sizes))
            }
            _ => Err(format!("kernel {text:?}: write its kind and 1 to {SIZES} sizes, as measured by paceline doctor")),
        }
    }

    fn class(&self) -> Class {
        match self.kind {
            kind if kind.starts_with("dense") => Class::Dense,
            kind if kind.starts_with("conv") => Class::Conv,
            kind if kind.starts_with("update") => Class::Update,
            _ => Class::Elements,
        }
    }

    /// How far two shapes of one kind are apart: zero for the same, about one for a factor of e in one size. Numbers of samples (the first size of
    /// what has several) change rates least.
    fn distance(&self, other: &Self) -> f64 {
        let logs = |n: u32| f64::from(n.max(1)).ln();
        let several = self.len > 1;
        (0..usize::from(self.len.max(other.len)))
            .map(|i| {
                let weight = if several && i == 0 { 0.5 } else { 1.0 };
                weight * (logs(self.sizes[i]) - logs(other.sizes[i])).powi(2)
            })
            .sum()
    }
}

fn of_rule<'a>(rule: &Rule, sgd: &'a str, momentum: &'a str, adam: &'a str, adagrad: &'a str) -> &'a str {
    match rule {
        Rule::Sgd => sgd,
        Rule::Momentum { .. } | Rule::Nesterov { .. } => momentum,
        Rule::Adam { .. } | Rule::AdamW { .. } => adam,
        Rule::Adagrad { .. } => adagrad,
    }
}

impl fmt::Display for KernelShape {
    /// As it stands in a cluster file: `dense-forward 32 128 784`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)?;
        self.sizes[..usize::from(self.len)].iter().try_for_each(|size| write!(f, " {size}"))
    }
}

/// What was measured of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelTime {
    /// Floating-point operations by the definition.
    pub flops: f64,
    /// Bytes read and written by the definition.
    pub bytes: f64,
    /// Seconds on one core while the others are idle.
    pub alone: f64,
    /// Seconds on one core while every other core does the same for itself.
    pub crowded: f64,
    /// Seconds on all cores together.
    pub together: f64,
}

impl KernelTime {
    /// As it stands in a cluster file.
    pub fn figures(&self) -> [f64; 5] {
        [self.flops, self.bytes, self.alone, self.crowded, self.together]
    }

    /// Of the figures in a cluster file.
    pub fn of(figures: [f64; 5]) -> Self {
        let [flops, bytes, alone, crowded, together] = figures;
        Self { flops, bytes, alone, crowded, together }
    }
}

/// How a rank computes: what its kernels' time depends on beside their shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crowd {
    /// Threads of the rank.
    pub threads: usize,
    /// Threads of all ranks of its host.
    pub all: usize,
    /// Cores of the host.
    pub cores: usize,
}

impl Crowd {
    /// The time of a kernel of which these were measured, in this crowd.
    fn seconds(&self, time: &KernelTime) -> f64 {
        let others = (self.cores - 1).max(1) as f64;
        let share = |n: usize| (n.min(self.cores) - 1) as f64 / others;
        // Threads of a rank make it shorter, those of other ranks longer; cores that are shared are shared in turns.
        let team = time.alone + (time.together - time.alone) * share(self.threads);
        let strangers = self.all.saturating_sub(self.threads) + 1;
        let slower = (time.crowded / time.alone).max(1.0);
        let turns = (self.all as f64 / self.cores as f64).max(1.0);
        team * (1.0 + (slower - 1.0) * share(strangers)) * turns
    }
}

/// The kernels that were measured on one host.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelCosts {
    measured: BTreeMap<KernelShape, KernelTime>,
    /// Operations and bytes per second of one core: the bound.
    flops: f64,
    memory: f64,
}

impl KernelCosts {
    /// Of a host's product and copy speed (one core alone) and the kernels that were measured there, by name.
    pub(crate) fn new<'a>(
        flops: f64,
        memory: f64,
        kernels: impl Iterator<Item = (&'a String, &'a [f64; 5])>,
    ) -> Result<Self, String> {
        let measured = kernels.map(|(name, &figures)| {
            let time = KernelTime::of(figures);
            let parts = [time.bytes, time.alone, time.crowded, time.together];
            let wrong = parts.iter().any(|v| !v.is_finite() || *v <= 0.0) || !time.flops.is_finite() || time.flops < 0.0;
            match wrong {
                true => Err(format!("kernel {name:?}: its figures are {figures:?}; give operations, bytes and three times, none of them negative")),
                false => Ok((KernelShape::parse(name)?, time)),
            }
        });
        Ok(Self { measured: measured.collect::<Result<_, _>>()?, flops, memory })
    }

    /// Whether anything was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.measured.is_empty()
    }

    fn bound(&self, flops: f64, bytes: f64) -> f64 {
        (flops / self.flops).max(bytes / self.memory)
    }

    /// Seconds of a kernel that does so many operations and moves so many bytes, in a crowd.
    pub(crate) fn seconds(&self, shape: &KernelShape, flops: f64, bytes: f64, crowd: Crowd) -> f64 {
        if let Some(time) = self.measured.get(shape) {
            return crowd.seconds(time);
        }
        let bound = self.bound(flops, bytes);
        let mut near: Vec<(f64, f64)> = self.of(|other| other.kind == shape.kind, shape, crowd);
        if near.is_empty() {
            near = self.of(|other| base(other.kind) == base(shape.kind), shape, crowd);
        }
        if near.is_empty() {
            // A class's efficiency: sizes of different kinds are not compared.
            near = self.of(|other| other.class() == shape.class(), shape, crowd);
            near.iter_mut().for_each(|(distance, _)| *distance = 1.0);
        } else {
            near.sort_by(|a, b| a.0.total_cmp(&b.0));
            near.truncate(NEAREST);
        }
        if near.is_empty() {
            let turns = (crowd.all as f64 / crowd.cores as f64).max(1.0);
            return bound * shape.class().usual() * turns / crowd.threads.min(crowd.cores) as f64;
        }
        let weights: f64 = near.iter().map(|(distance, _)| 1.0 / (distance + 0.01)).sum();
        let ratio: f64 = near.iter().map(|(distance, ratio)| ratio.ln() / (distance + 0.01)).sum();
        bound * (ratio / weights).exp()
    }

    /// Distance to a shape, and time over bound, of measured kernels.
    fn of(&self, which: impl Fn(&KernelShape) -> bool, shape: &KernelShape, crowd: Crowd) -> Vec<(f64, f64)> {
        let some = self.measured.iter().filter(|(other, _)| which(other));
        some.map(|(other, time)| {
            let bound = self.bound(time.flops, time.bytes).max(1e-12);
            (shape.distance(other), (crowd.seconds(time) / bound).max(1e-9))
        })
        .collect()
    }
}

/// A kind without what is done in the same pass.
fn base(kind: &str) -> &str {
    kind.split('+').next().unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_base::kernel::DenseDims;

    fn costs(entries: &[(&str, [f64; 5])]) -> KernelCosts {
        let named: Vec<(String, [f64; 5])> = entries.iter().map(|(n, f)| (n.to_string(), *f)).collect();
        KernelCosts::new(100.0, 10.0, named.iter().map(|(n, f)| (n, f))).unwrap()
    }

    const ALONE: Crowd = Crowd { threads: 1, all: 1, cores: 2 };

    #[test]
    fn what_was_measured_costs_what_it_did() {
        let costs = costs(&[("dense-forward 4 5 10", [400.0, 40.0, 8.0, 10.0, 5.0])]);
        let dims = DenseDims { rows: 4, outputs: 5, inputs: 10 };
        let shape = KernelShape::of(&Kernel::DenseForward { dims, bias: true, activation: None });
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, ALONE), 8.0);
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { all: 2, ..ALONE }), 10.0);
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { threads: 2, all: 2, cores: 2 }), 5.0);
        // Four threads take turns on two cores.
        assert_eq!(costs.seconds(&shape, 400.0, 40.0, Crowd { all: 4, ..ALONE }), 20.0);
    }

    #[test]
    fn between_shapes_it_is_the_ratio_to_the_bound_that_is_interpolated() {
        // Both take twice their bound (400 / 100 and 4000 / 100), so that what lies between does too.
        let costs = costs(&[
            ("dense-forward 4 5 10", [400.0, 1.0, 8.0, 8.0, 4.0]),
            ("dense-forward 4 5 100", [4000.0, 1.0, 80.0, 80.0, 40.0]),
        ]);
        let shape = KernelShape::parse("dense-forward 4 5 30").unwrap();
        assert!((costs.seconds(&shape, 1200.0, 1.0, ALONE) - 24.0).abs() < 1e-9);
        // Another kind of the class: its efficiency.
        let other = KernelShape::parse("dense-backward-data 9 9 9").unwrap();
        assert!((costs.seconds(&other, 500.0, 1.0, ALONE) - 10.0).abs() < 1e-9);
        // No convolution was measured: twice the bound is usual.
        let conv = KernelShape::parse("conv-forward 1 8 8 3 4 3 3 1 1").unwrap();
        assert_eq!(costs.seconds(&conv, 1000.0, 1.0, ALONE), 20.0);
    }

    #[test]
    fn names_come_back_and_others_are_refused() {
        let shape = KernelShape::parse("update+adam 1000").unwrap();
        assert_eq!(shape.to_string(), "update+adam 1000");
        assert!(KernelShape::parse("dense-foward 1 2 3").unwrap_err().contains("did you mean dense-forward?"));
        assert!(KernelShape::parse("copy").unwrap_err().contains("sizes"));
        assert!(KernelShape::parse("copy -5").is_err());
        let named = [("copy 5".to_string(), [0.0, 1.0, -2.0, 1.0, 1.0])];
        let error = KernelCosts::new(1.0, 1.0, named.iter().map(|(n, f)| (n, f))).unwrap_err();
        assert!(error.contains("copy 5"), "{error}");
    }
}
