//! Model graphs: operators, their shapes, costs and splits; presets and the model file.
//!
//! An operator says what it computes ([`ops::Operator`]): its output shape, its parameters, along which dimensions it can be
//! split and what a part then needs, and the kernels of one part. It owns no memory and knows no ranks.
//!
//! ```
//! use paceline_graph::{presets, Graph};
//! let layers = presets::mlp(&[128], paceline_base::op::Activation::Relu, 0.0);
//! let graph = Graph::build("mlp", &layers, &[28, 28], 10, 0.0)?;
//! assert_eq!(graph.parameter_count(), 784 * 128 + 128 + 128 * 10 + 10);
//! # Ok::<(), paceline_base::Error>(())
//! ```

mod build;
mod layer;
pub mod model_file;
pub mod ops;
pub mod presets;
pub mod summary;

pub use build::{Graph, Node, NodeId, Param};
pub use layer::{LayerSpec, Padding, Pair, Units};
