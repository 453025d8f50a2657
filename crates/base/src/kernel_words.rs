//! What a kernel does, in words for people.

use crate::kernel::{DenseDims, Kernel};
use crate::window::ConvDims;
use std::fmt;

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dense = |d: &DenseDims| format!("{} samples, {}→{}", d.rows, d.inputs, d.outputs);
        let conv = |d: &ConvDims| {
            format!(
                "{} samples, {}→{} channels, {}×{}",
                d.samples, d.channels, d.out_channels, d.out_height, d.out_width
            )
        };
        let text = match self {
            Kernel::DenseForward { dims, activation, .. } => {
                let then = activation.map(|a| format!(" with {a}")).unwrap_or_default();
                format!("forward{then} ({})", dense(dims))
            }
            Kernel::DenseBackwardData { dims, through } => {
                let then = through.map(|a| format!(" through {a}")).unwrap_or_default();
                format!("gradient of its input{then} ({})", dense(dims))
            }
            Kernel::DenseBackwardWeights { dims, .. } => format!("gradient of its weights ({})", dense(dims)),
            Kernel::DenseBackwardUpdate { dims, .. } => {
                format!("gradient of its weights and their update in one ({})", dense(dims))
            }
            Kernel::ConvForward { dims, activation, pool, .. } => {
                let then = activation.map(|a| format!(" with {a}")).unwrap_or_default();
                let pool = if pool.is_some() { " and the maximum of its windows" } else { "" };
                format!("forward{then}{pool} ({})", conv(dims))
            }
            Kernel::ConvBackwardData { dims, through, .. } => {
                let then = through.map(|a| format!(" through {a}")).unwrap_or_default();
                format!("gradient of its input{then} ({})", conv(dims))
            }
            Kernel::ConvBackwardWeights { dims, .. } => format!("gradient of its weights ({})", conv(dims)),
            Kernel::BatchSums { rows, channels } => format!("sums of {rows} rows by channel ({channels})"),
            Kernel::BatchGradientSums { rows, channels, .. } => {
                format!("sums of the gradient of {rows} rows by channel ({channels})")
            }
            Kernel::MaxPool { dims, .. } | Kernel::AveragePool { dims, .. } => {
                format!(
                    "forward ({}×{}×{} of {} samples)",
                    dims.out_height, dims.out_width, dims.channels, dims.samples
                )
            }
            Kernel::BatchNormalize { rows, channels, .. }
            | Kernel::BatchInfer { rows, channels, .. }
            | Kernel::LayerNorm { rows, channels, .. } => format!("forward ({rows} rows of {channels})"),
            Kernel::LocalResponse(l) => format!("forward ({} rows of {})", l.rows, l.out_channels),
            Kernel::Sum { inputs, len, .. } => format!("sum of {inputs} ({len} elements)"),
            Kernel::MaxPoolBackward { .. }
            | Kernel::AveragePoolBackward { .. }
            | Kernel::BatchBackward { .. }
            | Kernel::LocalResponseBackward(_)
            | Kernel::LayerNormBackwardData { .. } => "gradient of its input".into(),
            Kernel::LayerNormBackwardWeights { .. } => "gradient of its weights".into(),
            Kernel::Activate { len, .. } => format!("forward ({len} elements)"),
            Kernel::ActivateBackward { len, .. } => format!("backward ({len} elements)"),
            Kernel::Dropout { region, .. } => format!("dropout on {region}"),
            Kernel::EmbeddingForward(d) => {
                format!("forward ({} lists, table of {}×{})", d.rows, d.table_rows, d.columns)
            }
            Kernel::EmbeddingBackward(d) => {
                format!("gradient of its table ({} lists, {}×{})", d.rows, d.table_rows, d.columns)
            }
            Kernel::Loss { rows, gradient, .. } => {
                format!("loss{} of {rows} samples", if *gradient { " and its gradient" } else { "" })
            }
            Kernel::Copy(walk) => format!("copy {} elements", walk.len()),
            Kernel::Add(walk) => format!("add {} elements", walk.len()),
            Kernel::Zero { len } => format!("clear {len} elements"),
            Kernel::Sparsify { len, keep } => format!("keep the {keep} largest of {len} elements"),
            Kernel::Update { .. } => "update".into(),
        };
        f.write_str(&text)
    }
}
