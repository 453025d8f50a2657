//! A layer as a model file writes it, and the operator it names. Every key belongs to certain types of layers; one that
//! would do nothing is refused.

use crate::ops::{
    Activate, Add, AveragePool, BatchNorm, Concatenate, Conv, Dense, Dropout, Embedding, Flatten, GlobalAveragePool,
    LayerNorm, LocalResponseNorm, LossOp, MaxPool, Operator, PadZeros, Slide,
};
use paceline_base::op::{Activation, Init, Loss};
use paceline_base::sample::{FeatureKind, IndexWidth, TargetKind};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The types of layers.
pub(crate) const KINDS: [&str; 20] = [
    "dense",
    "conv",
    "embedding",
    "relu",
    "tanh",
    "sigmoid",
    "gelu",
    "dropout",
    "max-pool",
    "average-pool",
    "global-average-pool",
    "batch-norm",
    "layer-norm",
    "local-response-norm",
    "flatten",
    "add",
    "concatenate",
    "pad",
    "softmax-cross-entropy",
    "mean-squared-error",
];

/// The keys of a layer.
pub(crate) const KEYS: [&str; 26] = [
    "name",
    "type",
    "inputs",
    "units",
    "rows",
    "columns",
    "mode",
    "channels",
    "input_channels",
    "kernel",
    "window",
    "stride",
    "pad",
    "dilation",
    "groups",
    "bias",
    "init",
    "rate",
    "l2",
    "eps",
    "momentum",
    "size",
    "alpha",
    "beta",
    "k",
    "axis",
];

/// A layer as a model file writes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSpec {
    /// Unique name; made from the type if absent.
    pub name: Option<String>,
    /// What it computes: `dense`, `conv`, `relu`, `max-pool`, `batch-norm`, `add`, `softmax-cross-entropy`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Names of the layers it reads; the layer before if absent. `input` is the data.
    pub inputs: Option<Vec<String>>,
    /// Output features of a dense layer.
    pub units: Option<Units>,
    /// Rows of an embedding's table: every index is below (default `"indices"`).
    pub rows: Option<Units>,
    /// Columns of an embedding's table: its output features.
    pub columns: Option<usize>,
    /// What an embedding makes of the rows that a list names: `sum` (default) or `mean`.
    pub mode: Option<ListMode>,
    /// Channels that a convolution makes.
    pub channels: Option<Units>,
    /// Channels that a convolution's input must have; any number if absent.
    pub input_channels: Option<usize>,
    /// Kernel of a convolution.
    pub kernel: Option<Pair>,
    /// Window of a pool.
    pub window: Option<Pair>,
    /// Steps between windows (default 1 for a convolution, the window for a pool).
    pub stride: Option<Pair>,
    /// Zeros on every side (default 0); `"same"` for half of an odd kernel, which keeps the size at stride 1.
    pub pad: Option<Padding>,
    /// Steps between the taps of a convolution's kernel (default 1).
    pub dilation: Option<Pair>,
    /// Groups of channels that a convolution treats apart (default 1).
    pub groups: Option<usize>,
    /// Whether a dense layer or a convolution has a bias (default true).
    pub bias: Option<bool>,
    /// Initial weights (default `glorot` for a dense layer, `he` for a convolution, `normal` for an embedding).
    pub init: Option<Init>,
    /// Share of elements that dropout sets to zero.
    pub rate: Option<f64>,
    /// L2 penalty on this layer's weights; the model's if absent.
    pub l2: Option<f64>,
    /// Keeps the division of a normalisation finite (default 1e-5).
    pub eps: Option<f64>,
    /// Share of each batch in the running moments of batch-norm (default 0.1).
    pub momentum: Option<f64>,
    /// Channels in a window of local-response-norm.
    pub size: Option<usize>,
    /// α of local-response-norm (default 1e-4).
    pub alpha: Option<f64>,
    /// β of local-response-norm (default 0.75).
    pub beta: Option<f64>,
    /// k of local-response-norm (default 1).
    pub k: Option<f64>,
    /// Axis of concatenate, the sample's first axis being 1 (default the last).
    pub axis: Option<usize>,
}

/// A number of units, or a name for what the data has: `"classes"`, and of an embedding's rows `"indices"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or \"classes\" (for rows \"indices\")")]
pub enum Units {
    /// This number of units.
    Count(usize),
    /// By name.
    Named(String),
}

/// What becomes of the rows that a list names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListMode {
    /// They are added.
    Sum,
    /// They are added, and divided by the length of the list.
    Mean,
}

/// A number for height and width, or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, or two for height and width: [3, 5]")]
pub enum Pair {
    /// The same for both.
    Both(usize),
    /// Height first, then width.
    Each([usize; 2]),
}

impl Pair {
    /// Height and width.
    pub fn sides(self) -> [usize; 2] {
        match self {
            Pair::Both(n) => [n, n],
            Pair::Each(sides) => sides,
        }
    }
}

/// Zeros around an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "a number, two for height and width such as [1, 2], or \"same\"")]
pub enum Padding {
    /// This many zeros above and below, left and right.
    Sides(Pair),
    /// By name; only `same`.
    Named(String),
}

impl LayerSpec {
    /// Which keys are given, and which types of layers take them.
    fn owners(&self) -> [(&'static str, bool, &'static [&'static str]); 23] {
        const POOLS: &[&str] = &["max-pool", "average-pool"];
        const WINDOWS: &[&str] = &["conv", "max-pool", "average-pool"];
        const WEIGHTS: &[&str] = &["dense", "conv", "embedding"];
        const EMBEDDING: &[&str] = &["embedding"];
        const RESPONSE: &[&str] = &["local-response-norm"];
        [
            ("units", self.units.is_some(), &["dense"]),
            ("rows", self.rows.is_some(), EMBEDDING),
            ("columns", self.columns.is_some(), EMBEDDING),
            ("mode", self.mode.is_some(), EMBEDDING),
            ("channels", self.channels.is_some(), &["conv"]),
            ("input_channels", self.input_channels.is_some(), &["conv"]),
            ("kernel", self.kernel.is_some(), &["conv"]),
            ("window", self.window.is_some(), POOLS),
            ("stride", self.stride.is_some(), WINDOWS),
            ("pad", self.pad.is_some(), &["conv", "max-pool", "average-pool", "pad"]),
            ("dilation", self.dilation.is_some(), &["conv"]),
            ("groups", self.groups.is_some(), &["conv"]),
            ("bias", self.bias.is_some(), &["dense", "conv"]),
            ("init", self.init.is_some(), WEIGHTS),
            ("l2", self.l2.is_some(), WEIGHTS),
            ("rate", self.rate.is_some(), &["dropout"]),
            ("eps", self.eps.is_some(), &["batch-norm", "layer-norm"]),
            ("momentum", self.momentum.is_some(), &["batch-norm"]),
            ("size", self.size.is_some(), RESPONSE),
            ("alpha", self.alpha.is_some(), RESPONSE),
            ("beta", self.beta.is_some(), RESPONSE),
            ("k", self.k.is_some(), RESPONSE),
            ("axis", self.axis.is_some(), &["concatenate"]),
        ]
    }

    /// The operator, for a layer with this many inputs in a model for such data.
    pub(crate) fn operator(
        &self,
        inputs: usize,
        features: FeatureKind,
        targets: TargetKind,
    ) -> Result<Arc<dyn Operator>> {
        let kind = &self.kind[..];
        if !KINDS.contains(&kind) {
            return Err(Error::user(format!(
                "unknown type {kind:?}{}; types are {}",
                did_you_mean(kind, KINDS),
                KINDS.join(", ")
            )));
        }
        let joins = matches!(kind, "add" | "concatenate");
        if joins && inputs < 2 {
            return Err(Error::user(format!("{kind} takes at least two inputs: inputs = [\"a\", \"b\"]")));
        }
        if !joins && inputs != 1 {
            return Err(Error::user(format!("{kind} takes one input, but {inputs} are given")));
        }
        for (key, given, owners) in self.owners() {
            if given && !owners.contains(&kind) {
                return Err(Error::user(format!("{key} belongs to {} layers, not to {kind}; remove it", list(owners))));
            }
        }
        Ok(match kind {
            "dense" => Arc::new(Dense {
                units: self.count("units", self.units.as_ref(), targets)?,
                bias: self.bias.unwrap_or(true),
                init: self.init.unwrap_or(Init::Glorot),
            }),
            "conv" => Arc::new(Conv {
                channels: self.count("channels", self.channels.as_ref(), targets)?,
                input_channels: self.input_channels,
                slide: self.kernel_slide()?,
                groups: self.groups.unwrap_or(1),
                bias: self.bias.unwrap_or(true),
                init: self.init.unwrap_or(Init::He),
            }),
            "embedding" => self.embedding(features)?,
            "relu" => Arc::new(Activate(Activation::Relu)),
            "tanh" => Arc::new(Activate(Activation::Tanh)),
            "sigmoid" => Arc::new(Activate(Activation::Sigmoid)),
            "gelu" => Arc::new(Activate(Activation::Gelu)),
            "dropout" => {
                let rate = self.rate.ok_or_else(|| Error::user("dropout needs rate = 0.5 or another share"))?;
                if !(0.0..1.0).contains(&rate) {
                    return Err(Error::user(format!(
                        "dropout's rate is {rate}; give a share of at least 0 and below 1"
                    )));
                }
                Arc::new(Dropout { rate })
            }
            "max-pool" => Arc::new(MaxPool { slide: self.window_slide()? }),
            "average-pool" => Arc::new(AveragePool { slide: self.window_slide()? }),
            "global-average-pool" => Arc::new(GlobalAveragePool),
            "batch-norm" => {
                let momentum = self.momentum.unwrap_or(0.1);
                if !(0.0..=1.0).contains(&momentum) {
                    return Err(Error::user(format!("momentum is {momentum}; give a share from 0 to 1, such as 0.1")));
                }
                Arc::new(BatchNorm { eps: self.eps()?, momentum })
            }
            "layer-norm" => Arc::new(LayerNorm { eps: self.eps()? }),
            "local-response-norm" => self.local_response()?,
            "flatten" => Arc::new(Flatten),
            "add" => Arc::new(Add { inputs }),
            "concatenate" => Arc::new(Concatenate { inputs, axis: self.axis }),
            "pad" => match &self.pad {
                Some(Padding::Sides(pair)) => Arc::new(PadZeros { pad: pair.sides() }),
                _ => return Err(Error::user("a pad layer needs pad = N, or pad = [rows, columns]")),
            },
            "softmax-cross-entropy" => Arc::new(LossOp { loss: Loss::SoftmaxCrossEntropy, targets }),
            "mean-squared-error" => Arc::new(LossOp { loss: Loss::MeanSquaredError, targets }),
            other => return Err(Error::internal(format!("layer type {other} has no operator"))),
        })
    }

    fn embedding(&self, features: FeatureKind) -> Result<Arc<dyn Operator>> {
        let columns = match self.columns {
            Some(0) | None => {
                return Err(Error::user("an embedding layer needs columns = 16 or another number above 0"));
            }
            Some(columns) => columns,
        };
        // Data whose samples are numbers has no indices; that it cannot be read is said where the layer is joined to it.
        let (width, bound) = match features {
            FeatureKind::Lists { width, bound } => (width, bound),
            FeatureKind::Dense => (IndexWidth::Bits32, 1),
        };
        let rows = match &self.rows {
            Some(Units::Count(0)) => return Err(Error::user("rows is 0; give at least 1, or \"indices\"")),
            Some(Units::Count(rows)) => *rows,
            Some(Units::Named(name)) if name != "indices" => {
                return Err(Error::user(format!("rows = {name:?} is neither a number nor \"indices\"")));
            }
            _ => usize::try_from(bound.max(1)).unwrap_or(usize::MAX),
        };
        if bound > rows as u64 {
            return Err(Error::user(format!(
                "the data holds index {}, but the table has {rows} rows; give rows = {bound} or more, or rows = \"indices\"",
                bound - 1
            )));
        }
        if rows.checked_mul(columns).is_none_or(|n| n > isize::MAX as usize / 8) {
            return Err(Error::user(format!(
                "a table of {rows} rows and {columns} columns is more than memory has; the largest index of the data decides the rows"
            )));
        }
        let (mean, init) = (self.mode == Some(ListMode::Mean), self.init.unwrap_or(Init::Normal));
        Ok(Arc::new(Embedding { rows, columns, mean, init, width }))
    }

    fn count(&self, key: &str, value: Option<&Units>, targets: TargetKind) -> Result<usize> {
        match value {
            Some(Units::Count(0)) => Err(Error::user(format!("{key} is 0; give at least 1"))),
            Some(Units::Count(n)) => Ok(*n),
            Some(Units::Named(n)) if n == "classes" => match targets {
                TargetKind::Classes { .. } => Ok(targets.outputs()),
                TargetKind::Numbers { each } => Err(Error::user(format!(
                    "{key} = \"classes\", but the data's targets are numbers; give {key} = {each} to the last layer"
                ))),
            },
            Some(Units::Named(n)) => Err(Error::user(format!("{key} = {n:?} is neither a number nor \"classes\""))),
            None => Err(Error::user(format!("a {} layer needs {key} = N, or {key} = \"classes\"", self.kind))),
        }
    }

    fn kernel_slide(&self) -> Result<Slide> {
        let window = self.kernel.ok_or_else(|| Error::user("a conv layer needs kernel = 3 or another size"))?.sides();
        let dilation = self.dilation.map_or([1, 1], Pair::sides);
        let pad = match &self.pad {
            None => [0, 0],
            Some(Padding::Sides(pair)) => pair.sides(),
            Some(Padding::Named(n)) if n == "same" => {
                if window.iter().any(|w| w % 2 == 0) {
                    return Err(Error::user(format!(
                        "pad = \"same\" is half of an odd kernel, but the kernel is {}×{}; give pad = N",
                        window[0], window[1]
                    )));
                }
                [0, 1].map(|a| dilation[a] * (window[a] / 2))
            }
            Some(Padding::Named(n)) => {
                return Err(Error::user(format!("pad = {n:?} is neither a number, two numbers nor \"same\"")));
            }
        };
        Ok(Slide { window, stride: self.stride.map_or([1, 1], Pair::sides), pad, dilation })
    }

    fn window_slide(&self) -> Result<Slide> {
        let kind = &self.kind;
        let window =
            self.window.ok_or_else(|| Error::user(format!("{kind} needs window = 2 or another size")))?.sides();
        let pad = match &self.pad {
            None => [0, 0],
            Some(Padding::Sides(pair)) => pair.sides(),
            Some(Padding::Named(n)) => {
                return Err(Error::user(format!("pad = {n:?} belongs to conv layers; give {kind} a number")));
            }
        };
        Ok(Slide { window, stride: self.stride.map_or(window, Pair::sides), pad, dilation: [1, 1] })
    }

    fn eps(&self) -> Result<f64> {
        let eps = self.eps.unwrap_or(1e-5);
        if eps > 0.0 && eps.is_finite() {
            return Ok(eps);
        }
        Err(Error::user(format!("eps is {eps}; give a small number above 0, such as 1e-5")))
    }

    fn local_response(&self) -> Result<Arc<dyn Operator>> {
        let size = self.size.ok_or_else(|| Error::user("local-response-norm needs size = 5 or another number"))?;
        let (alpha, beta, k) = (self.alpha.unwrap_or(1e-4), self.beta.unwrap_or(0.75), self.k.unwrap_or(1.0));
        if size == 0 || !(alpha >= 0.0 && beta >= 0.0 && k > 0.0) || !(alpha + beta + k).is_finite() {
            return Err(Error::user(format!(
                "local-response-norm with size {size}, alpha {alpha}, beta {beta}, k {k}; give a size of at least 1, alpha \
                 and beta of at least 0, and k above 0"
            )));
        }
        Ok(Arc::new(LocalResponseNorm { size, alpha, beta, k }))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
