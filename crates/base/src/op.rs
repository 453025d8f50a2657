//! Operators by their attributes: what a layer is, apart from shapes, memory and ranks.

use crate::metric::{self, Metric, Reduction};
use crate::sample::TargetKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Element-wise functions between layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// max(x, 0)
    Relu,
    /// tanh x
    Tanh,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// x·Φ(x), exact (error function), as PyTorch's default.
    Gelu,
}

impl Activation {
    /// True if the derivative is a function of the *output*: then a kernel that produced the output needs to keep
    /// nothing else, and the backward pass may be fused into the producer of its gradient.
    pub fn derivative_from_output(self) -> bool {
        !matches!(self, Activation::Gelu)
    }

    /// All of them, for tests and messages.
    pub const ALL: [Activation; 4] = [Activation::Relu, Activation::Tanh, Activation::Sigmoid, Activation::Gelu];
}

impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Activation::Relu => "relu",
            Activation::Tanh => "tanh",
            Activation::Sigmoid => "sigmoid",
            Activation::Gelu => "gelu",
        })
    }
}

/// Which loss closes the network. Both are sums over samples, divided once by the global count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// `−log softmax(logits)[class]`; of several classes each has logits of its own, and their mean counts.
    SoftmaxCrossEntropy,
    /// Mean over outputs of (y − target)², where a class stands for 1 at its place and 0 elsewhere.
    MeanSquaredError,
}

impl Loss {
    /// The sums that it adds to, in the order in which they lie in the metrics' buffer.
    pub fn metrics(self, targets: TargetKind) -> [Metric; 3] {
        let second = match targets {
            TargetKind::Classes { .. } => metric::ACCURACY,
            TargetKind::Numbers { .. } => metric::ABSOLUTE_ERROR,
        };
        [
            Metric::new(metric::LOSS, Reduction::Mean),
            Metric::new(second, Reduction::Mean),
            Metric::new(metric::SAMPLES, Reduction::Sum),
        ]
    }

    /// Whether outputs can be compared with such targets.
    pub fn takes(self, targets: TargetKind) -> bool {
        match self {
            Self::SoftmaxCrossEntropy => matches!(targets, TargetKind::Classes { .. }),
            Self::MeanSquaredError => true,
        }
    }
}

/// How the values of a parameter begin. All are functions of (seed, parameter, global coordinate).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// Normal with variance 2 / fan_in (He et al. 2015).
    He,
    /// Uniform in ±√(6 / fan_in).
    HeUniform,
    /// Normal with variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010).
    GlorotNormal,
    /// Uniform in ±√(6 / (fan_in + fan_out)).
    Glorot,
    /// Normal with variance 1, as PyTorch's embeddings begin.
    Normal,
    /// All zero.
    Zeros,
    /// All one.
    Ones,
}
