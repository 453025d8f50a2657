//! From named layers to a checked graph.

use crate::LayerSpec;
use crate::ops::{Input, Operator, ParamSpec};
use paceline_base::sample::{FeatureKind, SampleKind, TargetKind};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use std::sync::Arc;

/// Index of a node in [`Graph::nodes`]; nodes are in topological order.
pub type NodeId = usize;

/// A parameter tensor of the whole model.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Global name: `hidden1.weight`.
    pub name: String,
    /// Number in the model: its random stream.
    pub id: u32,
    /// What its operator declared.
    pub spec: ParamSpec,
    /// L2 penalty of its update; 0 where the operator says that it does not decay.
    pub l2: f64,
}

/// One operator in its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Unique in the model; plan files and parameters use it.
    pub name: String,
    /// What it computes.
    pub op: Arc<dyn Operator>,
    /// Whose outputs it reads.
    pub inputs: Vec<NodeId>,
    /// Shape of one sample's output.
    pub shape: Vec<usize>,
    /// In the order in which its operator declares them.
    pub params: Vec<Param>,
}

/// A model: nodes in topological order, the input first, the loss last.
#[derive(Clone, Debug)]
pub struct Graph {
    /// For people: the preset or the `name` of the model file.
    pub name: String,
    /// The input first, the loss last, every node behind those it reads.
    pub nodes: Vec<Node>,
    /// Features of the data it is built for.
    pub features: FeatureKind,
    /// Targets of the data it is built for.
    pub targets: TargetKind,
}

impl Graph {
    /// Builds and checks a graph for dense samples of this shape and number of classes. `l2` is the default penalty.
    pub fn build(name: &str, layers: &[LayerSpec], input: &[usize], classes: usize, l2: f64) -> Result<Self> {
        Self::build_for(name, layers, &SampleKind::classified(input, classes), l2)
    }

    /// Builds and checks a graph for samples of any kind.
    pub fn build_for(name: &str, layers: &[LayerSpec], sample: &SampleKind, l2: f64) -> Result<Self> {
        let SampleKind { shape, features, targets } = sample;
        let mut graph = Graph { name: name.into(), nodes: Vec::new(), features: *features, targets: *targets };
        graph.nodes.push(Node {
            name: "input".into(),
            op: Arc::new(Input { shape: shape.clone() }),
            inputs: Vec::new(),
            shape: shape.clone(),
            params: Vec::new(),
        });
        let mut params = 0;
        for (index, layer) in layers.iter().enumerate() {
            graph.push(index, layer, l2, &mut params)?;
        }
        graph.check()?;
        Ok(graph)
    }

    fn push(&mut self, index: usize, layer: &LayerSpec, l2: f64, params: &mut u32) -> Result<()> {
        let name = layer.name.clone().unwrap_or_else(|| format!("{}{}", layer.kind, index + 1));
        let fail = |e: Error| e.context(format!("layer {name}"));
        if name.is_empty() || name.contains(['.', '/', '[']) {
            return Err(Error::user(format!(
                "layer name {name:?} is empty or holds one of . / [ ; use letters, digits, - or _"
            )));
        }
        if self.nodes.iter().any(|n| n.name == name) {
            return Err(Error::user(format!("two layers are named {name}; give each its own name")));
        }
        let inputs = match &layer.inputs {
            None => vec![self.nodes.len() - 1],
            Some(names) => names.iter().map(|n| self.find(n).map_err(fail)).collect::<Result<_>>()?,
        };
        let op = layer.operator(inputs.len(), self.features, self.targets).map_err(fail)?;
        for &input in &inputs {
            let lists = input == 0 && matches!(self.features, FeatureKind::Lists { .. });
            if lists != op.takes_lists() {
                let (takes, what) = if lists {
                    ("numbers", "lists of indices; begin with an embedding layer")
                } else {
                    ("lists of indices", "numbers; let it read the input of data whose samples are lists")
                };
                let from = &self.nodes[input].name;
                return Err(fail(Error::user(format!("{} takes {takes}, but {from} gives {what}", layer.kind))));
            }
        }
        let shapes: Vec<&[usize]> = inputs.iter().map(|&i| &self.nodes[i].shape[..]).collect();
        let shape = op.output(&shapes).map_err(fail)?;
        let layer_l2 = layer.l2.unwrap_or(l2);
        if !(layer_l2 >= 0.0 && layer_l2.is_finite()) {
            return Err(fail(Error::user(format!("l2 is {layer_l2}; give a number of at least 0"))));
        }
        let params = op
            .params(&shapes)
            .into_iter()
            .map(|spec| {
                *params += 1;
                let l2 = if spec.decays { layer_l2 } else { 0.0 };
                Param { name: format!("{name}.{}", spec.name), id: *params - 1, spec, l2 }
            })
            .collect();
        self.nodes.push(Node { name, op, inputs, shape, params });
        Ok(())
    }

    fn find(&self, name: &str) -> Result<NodeId> {
        self.nodes.iter().position(|n| n.name == name).ok_or_else(|| {
            let hint = did_you_mean(name, self.nodes.iter().map(|n| &n.name[..]));
            Error::user(format!("its input {name:?} is not a layer above it{hint}"))
        })
    }

    fn check(&self) -> Result<()> {
        let last = self.nodes.len() - 1;
        if !self.nodes[last].op.is_loss() {
            return Err(Error::user(format!(
                "model {}: the last layer is {}, not a loss; end with type = \"softmax-cross-entropy\" or \"mean-squared-error\"",
                self.name, self.nodes[last].name
            )));
        }
        for (id, node) in self.nodes.iter().enumerate() {
            if node.op.is_loss() && id != last {
                return Err(Error::user(format!("model {}: the loss {} is not the last layer", self.name, node.name)));
            }
            if id != last && !self.nodes.iter().any(|n| n.inputs.contains(&id)) {
                return Err(Error::user(format!(
                    "model {}: nothing reads layer {}; remove it or name it in another layer's inputs",
                    self.name, node.name
                )));
            }
        }
        if !self.params().any(|p| p.spec.trained) {
            return Err(Error::user(format!("model {}: there is nothing to train; add a dense layer", self.name)));
        }
        Ok(())
    }

    /// All parameters, in node order, also those that are not trained.
    pub fn params(&self) -> impl Iterator<Item = &Param> {
        self.nodes.iter().flat_map(|n| &n.params)
    }

    /// Number of trainable values.
    pub fn parameter_count(&self) -> usize {
        self.params().filter(|p| p.spec.trained).map(|p| p.spec.shape.iter().product::<usize>()).sum()
    }

    /// Shapes of a node's inputs.
    pub fn input_shapes(&self, id: NodeId) -> Vec<&[usize]> {
        self.nodes[id].inputs.iter().map(|&i| &self.nodes[i].shape[..]).collect()
    }

    /// True if the node is the data seen with another shape: any rank can load any region of it.
    pub fn is_data(&self, id: NodeId) -> bool {
        id == 0 || (self.nodes[id].op.is_view() && self.is_data(self.nodes[id].inputs[0]))
    }

    /// True if some trained parameter lies at or before this node: then its gradient is wanted.
    pub fn wants_gradient(&self, id: NodeId) -> bool {
        self.nodes[id].params.iter().any(|p| p.spec.trained)
            || self.nodes[id].inputs.iter().any(|&i| self.wants_gradient(i))
    }

    /// What makes two models the same for a checkpoint: parameter names and shapes, running moments included.
    pub fn signature(&self) -> Vec<(String, Vec<usize>)> {
        self.params().map(|p| (p.name.clone(), p.spec.shape.clone())).collect()
    }
}
