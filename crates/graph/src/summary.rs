//! What `paceline train --summary` shows: layers, shapes, parameters, FLOPs and memory.

use crate::Graph;
use paceline_base::text::{bytes, si};
use serde::Serialize;

/// One layer's line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerLine {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Whose outputs it reads.
    pub inputs: String,
    /// Output shape with the sample axis.
    pub shape: String,
    /// Trainable values.
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
pub fn table(graph: &Graph, batch: usize, states: usize) -> String {
    let rows = lines(graph);
    let mut cells = vec![["layer", "type", "reads", "output", "parameters", "FLOPs/sample"].map(String::from)];
    cells.extend(rows.iter().map(|r| {
        [r.name.clone(), r.kind.clone(), r.inputs.clone(), r.shape.clone(), r.parameters.to_string(), si(r.flops)]
    }));
    let widths: Vec<usize> = (0..6).map(|c| cells.iter().map(|r| r[c].chars().count()).max().unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &cells {
        for (c, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[c] - cell.chars().count());
            out += &if c < 4 { format!("{cell}{pad}  ") } else { format!("{pad}{cell}  ") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    let parameters = graph.parameter_count();
    let activations: usize = graph.nodes.iter().map(|n| n.shape.iter().product::<usize>()).sum::<usize>() * batch;
    out += &format!(
        "\n{} parameters, {} FLOPs a sample forward, about three times that in training\n",
        si(parameters as f64),
        si(rows.iter().map(|l| l.flops).sum())
    );
    out += &format!(
        "memory in f32: parameters, gradients and optimiser state {}, activations of {batch} samples up to {}\n",
        bytes((parameters * (2 + states) * 4) as u64),
        bytes((2 * activations * 4) as u64)
    );
    out
}
