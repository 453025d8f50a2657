//! A kernel by its kind and sizes, as far as its time depends on them, and how it is called in a cluster file.

use paceline_base::kernel::Kernel;
use paceline_base::optim::Rule;
use paceline_base::text::did_you_mean;
use std::fmt;

/// Most sizes that a shape has.
const SIZES: usize = 9;

/// How kernels are grouped where a kind was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
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
    pub(super) fn usual(self) -> f64 {
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
    pub(super) kind: &'static str,
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
            Kernel::EmbeddingForward(d) | Kernel::EmbeddingBackward(d) => {
                Self::new(kernel.name(), &[d.rows, d.expected, d.table_rows, d.columns])
            }
            Kernel::Loss { rows, targets, .. } => Self::new(kernel.name(), &[*rows, targets.outputs()]),
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
    pub(super) fn parse(text: &str) -> Result<Self, String> {
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

    pub(super) fn class(&self) -> Class {
        match self.kind {
            kind if kind.starts_with("dense") => Class::Dense,
            kind if kind.starts_with("conv") => Class::Conv,
            kind if kind.starts_with("update") => Class::Update,
            _ => Class::Elements,
        }
    }

    /// How far two shapes of one kind are apart: zero for the same, about one for a factor of e in one size. Numbers of samples (the first size of
    /// what has several) change rates least.
    pub(super) fn distance(&self, other: &Self) -> f64 {
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

/// A kind without what is done in the same pass.
pub(super) fn base(kind: &str) -> &str {
    kind.split('+').next().unwrap_or(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_and_others_are_refused() {
        let shape = KernelShape::parse("update+adam 1000").unwrap();
        assert_eq!(shape.to_string(), "update+adam 1000");
        assert!(KernelShape::parse("dense-foward 1 2 3").unwrap_err().contains("did you mean dense-forward?"));
        assert!(KernelShape::parse("copy").unwrap_err().contains("sizes"));
        assert!(KernelShape::parse("copy -5").is_err());
    }
}
