//! A network of your own: layers from a model file, with two branches that meet again.
//!
//!     cargo run --release --example custom_model
//!
//! The model file is `examples/two-branches.toml`. It names layers and what they read; shapes, costs and the ways in
//! which each layer can be split over workers are derived.

use paceline::{Config, Place, Silent, graph};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/two-branches.toml");

fn main() -> paceline::Result<()> {
    // The graph alone, for samples of 28×28 and 10 classes: no data is needed.
    let text = include_str!("../../../examples/two-branches.toml");
    let file = graph::model_file::parse(text, "two-branches.toml")?;
    let model = graph::Graph::build("two-branches", &file.layers, &[28, 28], 10, 0.0)?;
    for (id, node) in model.nodes.iter().enumerate() {
        let dims = node.op.dims(64, &model.input_shapes(id));
        let dims: Vec<_> = dims.iter().map(|d| format!("{} ({})", d.name, d.extent)).collect();
        println!("{:<12} {:<22} splits along {}", node.name, node.op.kind(), dims.join(", "));
    }

    // The same file in a run.
    let sets = [format!("model.file={MODEL}"), "train.epochs=3".into(), "train.batch=64".into()];
    let run = paceline::train(&Config::from_parts(None, &sets)?, &Place::Auto, &Silent, &false.into())?;
    let percent = |share: Option<f64>| share.map_or("–".into(), |a| format!("{:.1} %", a * 100.0));
    println!("\naccuracy: validation {}", percent(run.summary.best_val_accuracy));
    println!("accuracy: test       {}", percent(run.summary.test_accuracy));
    println!("run: {}", run.dir.display());
    Ok(())
}
