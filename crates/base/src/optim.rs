//! Update rules as data: the engine plans them, a device executes them element by element.

use serde::{Deserialize, Serialize};

/// How a parameter moves, given its gradient. Formulas and the place of `eps` are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Rule {
    /// w ← w − r·g
    Sgd,
    /// v ← m·v + g; w ← w − r·v
    Momentum {
        /// m, from 0 up to but without 1.
        momentum: f64,
    },
    /// v ← m·v + g; w ← w − r·(g + m·v)
    Nesterov {
        /// m, from 0 up to but without 1.
        momentum: f64,
    },
    /// m, v moving averages of g, g²; w ← w − r·m̂ / (√v̂ + eps)
    Adam {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added after the root.
        eps: f64,
    },
    /// w ← w·(1 − r·decay), then Adam
    AdamW {
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added after the root.
        eps: f64,
        /// Decoupled weight decay.
        decay: f64,
    },
    /// s ← s + g²; w ← w − r·g / (√s + eps)
    Adagrad {
        /// Added after the root.
        eps: f64,
    },
}

impl Rule {
    /// Names of the state tensors that each parameter carries, in kernel argument order.
    pub fn states(&self) -> &'static [&'static str] {
        match self {
            Rule::Sgd => &[],
            Rule::Momentum { .. } | Rule::Nesterov { .. } => &["velocity"],
            Rule::Adam { .. } | Rule::AdamW { .. } => &["moment1", "moment2"],
            Rule::Adagrad { .. } => &["squares"],
        }
    }

    /// Arithmetic per element, for the cost model.
    pub(crate) fn flops_per_element(&self) -> usize {
        match self {
            Rule::Sgd => 2,
            Rule::Momentum { .. } => 4,
            Rule::Nesterov { .. } => 6,
            Rule::Adam { .. } | Rule::AdamW { .. } => 14,
            Rule::Adagrad { .. } => 6,
        }
    }
}

/// A run of elements in an update that share their regularisation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// First element, counted in the update's arguments.
    pub start: usize,
    /// Number of elements.
    pub len: usize,
    /// L2 penalty: the gradient gets `l2 · w` added.
    pub l2: f64,
}
