//! Networks by name, written in the same layers that a model file uses.

use crate::{LayerSpec, Units};
use paceline_base::op::{Activation, Init};

/// Names of the presets.
pub const NAMES: [&str; 2] = ["softmax", "mlp"];

fn layer(name: &str, kind: &str) -> LayerSpec {
    LayerSpec { name: Some(name.into()), kind: kind.into(), ..LayerSpec::default() }
}

fn classifier(mut layers: Vec<LayerSpec>) -> Vec<LayerSpec> {
    layers.push(LayerSpec { units: Some(Units::Named("classes".into())), ..layer("logits", "dense") });
    layers.push(layer("loss", "softmax-cross-entropy"));
    layers
}

/// Softmax regression: one dense layer.
pub fn softmax() -> Vec<LayerSpec> {
    classifier(vec![layer("flat", "flatten")])
}

/// A multi-layer perceptron with these hidden sizes; `dropout` after each hidden layer if above 0.
pub fn mlp(hidden: &[usize], activation: Activation, dropout: f64) -> Vec<LayerSpec> {
    let init = if matches!(activation, Activation::Relu | Activation::Gelu) { Init::He } else { Init::Glorot };
    let mut layers = vec![layer("flat", "flatten")];
    for (i, &units) in hidden.iter().enumerate() {
        let n = i + 1;
        layers.push(LayerSpec {
            units: Some(Units::Count(units)),
            init: Some(init),
            ..layer(&format!("hidden{n}"), "dense")
        });
        layers.push(layer(&format!("{activation}{n}"), &activation.to_string()));
        if dropout > 0.0 {
            layers.push(LayerSpec { rate: Some(dropout), ..layer(&format!("dropout{n}"), "dropout") });
        }
    }
    classifier(layers)
}
