//! What `paceline train --summary` shows: layers, shapes, parameters, FLOPs and memory.

use crate::Graph;
use paceline_base::layout::{self, Column, Style};
use paceline_base::text::{bytes, counted, si};
use serde::Serialize;

/// One layer's line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerLine {
    /// The layer's name.
    pub name: String,
    /// The layer's `type` in a model file.
    pub kind: String,
    /// Whose outputs it reads.
    pub inputs: String,
    /// Output shape with the sample axis.
    pub shape: String,
    /// Trainable values; running moments are not counted.
    pub parameters: usize,
    /// Forward floating-point operations per sample.
    pub flops: f64,
}

/// One line per layer.
pub fn lines(graph: &Graph) -> Vec<LayerLine> {
    graph
        .nodes
        .iter()
        .enumerate()
        .map(|(id, node)| LayerLine {
            name: node.name.clone(),
            kind: node.op.kind(),
            inputs: node.inputs.iter().map(|&i| graph.nodes[i].name.clone()).collect::<Vec<_>>().join(", "),
            shape: std::iter::once("n".to_string())
                .chain(node.shape.iter().map(ToString::to_string))
                .collect::<Vec<_>>()
                .join("×"),
            parameters: node
                .params
                .iter()
                .filter(|p| p.spec.trained)
                .map(|p| p.spec.shape.iter().product::<usize>())
                .sum(),
            flops: node.op.flops(&graph.input_shapes(id)),
        })
        .collect()
}

/// Forward floating-point operations for one sample.
pub fn flops_per_sample(graph: &Graph) -> f64 {
    lines(graph).iter().map(|l| l.flops).sum()
}

/// The table as text. `batch` is a rank's share, `states` the optimiser's state tensors per parameter.
pub fn table(graph: &Graph, batch: usize, states: usize, style: Style) -> String {
    let rows = lines(graph);
    let texts = |text: fn(&LayerLine) -> String| rows.iter().map(text).collect::<Vec<_>>();
    let columns = [
        Column::left("layer", texts(|l| l.name.clone())).shrinking(10),
        Column::left("type", texts(|l| l.kind.clone())).shrinking(14),
        Column::left("reads", texts(|l| l.inputs.clone())).shrinking(8).minor(2),
        Column::left("output", texts(|l| l.shape.clone())),
        Column::right("parameters", texts(|l| l.parameters.to_string())),
        Column::right("FLOPs/sample", texts(|l| si(l.flops))).minor(1),
    ];
    let mut out = layout::table(&columns, style);
    let parameters = graph.parameter_count();
    let activations: usize = graph.nodes.iter().map(|n| n.shape.iter().product::<usize>()).sum::<usize>() * batch;
    let all = format!(
        "\n{} parameters, {} FLOPs a sample forward, about three times that in training\n",
        si(parameters as f64),
        si(rows.iter().map(|l| l.flops).sum())
    );
    let memory = format!(
        "memory in f32: parameters, gradients and optimiser state {}, activations of {} up to {}\n",
        bytes((parameters * (2 + states) * 4) as u64),
        counted(batch, "sample"),
        bytes((2 * activations * 4) as u64)
    );
    out += &layout::paragraphs(&(all + &memory), style.width);
    out
}
