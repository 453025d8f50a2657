//! Networks by name, written in the same layers that a model file uses; some are model files, and examples for your own.

mod residual;

use crate::{LayerSpec, Units, model_file};
use paceline_base::Result;
use paceline_base::op::{Activation, Init};

/// Names of the presets.
pub const NAMES: [&str; 8] =
    ["softmax", "mlp", "lenet", "flowers-cnn", "flowers-net", "alexnet", "resnet18", "resnet-small"];

/// A preset that has no settings of its own, by name; `None` for `softmax`, `mlp` and names that are not presets.
pub fn network(name: &str) -> Option<Result<Vec<LayerSpec>>> {
    let file = |text| Some(model_file::parse(text, name).map(|file| file.layers));
    match name {
        "lenet" => file(include_str!("lenet.toml")),
        "flowers-cnn" => file(include_str!("flowers-cnn.toml")),
        "alexnet" => file(include_str!("alexnet.toml")),
        "flowers-net" => Some(Ok(residual::flowers_net())),
        "resnet18" => Some(Ok(residual::resnet18())),
        "resnet-small" => Some(Ok(residual::resnet_small())),
        _ => None,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Graph, summary};

    fn check(name: &str, shape: &[usize], classes: usize, expected: &str) {
        let layers = network(name).expect("a preset").expect("its file is right");
        let got = match Graph::build(name, &layers, shape, classes, 0.0) {
            Ok(graph) => {
                let mega = summary::flops_per_sample(&graph) / 1e6;
                format!("{} parameters, {mega:.1} MFLOP", graph.parameter_count())
            }
            Err(e) => e.message().into(),
        };
        assert!(got.contains(expected), "{name}: wanted {expected:?}, got {got:?}");
    }

    /// Numbers of parameters are those of the same networks in PyTorch and torchvision.
    #[test]
    fn presets_have_the_sizes_of_their_originals() {
        check("lenet", &[28, 28], 10, "61706 parameters");
        check("lenet", &[32, 32, 3], 10, "parameters");
        check("flowers-cnn", &[192, 192, 3], 5, "190341 parameters");
        check("alexnet", &[224, 224, 3], 1000, "61100840 parameters");
        check("resnet18", &[224, 224, 3], 1000, "11689512 parameters");
        check("resnet18", &[112, 112, 3], 1000, "11689512 parameters");
        check("resnet-small", &[32, 32, 3], 10, "175258 parameters");
        check("flowers-net", &[192, 192, 3], 5, "1227685 parameters, 306.9 MFLOP");
    }

    #[test]
    fn images_that_do_not_fit_are_refused_with_both_shapes() {
        for name in ["flowers-cnn", "flowers-net", "alexnet", "resnet18", "resnet-small"] {
            check(name, &[28, 28], 10, "height×width×3 (input_channels = 3), but gets 28×28, which has 1 channel;");
        }
        check(
            "alexnet",
            &[32, 32, 3],
            10,
            "layer features_12: max-pool: a 3×3 window with stride 2×2 does not fit into 1×1×256",
        );
        check(
            "flowers-cnn",
            &[8, 8, 3],
            10,
            "layer pool4: max-pool: a 2×2 window with stride 2×2 does not fit into 1×1×96",
        );
    }

    #[test]
    fn every_name_is_a_preset() {
        for name in NAMES.iter().skip(2) {
            assert!(network(name).is_some(), "{name}");
        }
    }
}
