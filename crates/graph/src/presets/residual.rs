//! Residual networks (He et al. 2015): blocks of two 3×3 convolutions with batch normalisation, added to what they read.
//!
//! Layers are named as torchvision names them, with `_` for its dots: `layer2_0_conv1.weight` is its
//! `layer2.0.conv1.weight`.

use super::layer;
use crate::{LayerSpec, Padding, Pair, Units};

fn conv(name: &str, channels: usize, kernel: usize, stride: usize) -> LayerSpec {
    LayerSpec {
        channels: Some(Units::Count(channels)),
        kernel: Some(Pair::Both(kernel)),
        stride: (stride > 1).then_some(Pair::Both(stride)),
        pad: (kernel > 1).then_some(Padding::Sides(Pair::Both(kernel / 2))),
        bias: Some(false),
        ..layer(name, "conv")
    }
}

fn norm(name: &str) -> LayerSpec {
    layer(name, "batch-norm")
}

fn reading(inputs: &[&str], spec: LayerSpec) -> LayerSpec {
    LayerSpec { inputs: Some(inputs.iter().map(ToString::to_string).collect()), ..spec }
}

/// A block, from the layer `from` on; gives the name of its last layer.
fn block(layers: &mut Vec<LayerSpec>, name: &str, from: &str, channels: usize, stride: usize, project: bool) -> String {
    let n = |part: &str| format!("{name}_{part}");
    layers.extend([
        reading(&[from], conv(&n("conv1"), channels, 3, stride)),
        norm(&n("bn1")),
        layer(&n("relu1"), "relu"),
        conv(&n("conv2"), channels, 3, 1),
        norm(&n("bn2")),
    ]);
    let mut kept = from.to_string();
    if project {
        kept = n("downsample_1");
        layers.push(reading(&[from], conv(&n("downsample_0"), channels, 1, stride)));
        layers.push(norm(&kept));
    }
    layers.push(reading(&[&n("bn2"), &kept], layer(&n("add"), "add")));
    layers.push(layer(&n("relu2"), "relu"));
    n("relu2")
}

/// Stages of blocks: (channels, number of blocks); each stage but the first halves height and width.
fn stages(layers: &mut Vec<LayerSpec>, mut from: String, mut channels: usize, stages: &[(usize, usize)]) {
    for (stage, &(width, blocks)) in stages.iter().enumerate() {
        for b in 0..blocks {
            let stride = if stage > 0 && b == 0 { 2 } else { 1 };
            let project = stride > 1 || width != channels;
            from = block(layers, &format!("layer{}_{b}", stage + 1), &from, width, stride, project);
            channels = width;
        }
    }
}

fn close(layers: &mut Vec<LayerSpec>, dropout: f64) -> Vec<LayerSpec> {
    layers.push(layer("avgpool", "global-average-pool"));
    if dropout > 0.0 {
        layers.push(LayerSpec { rate: Some(dropout), ..layer("dropout", "dropout") });
    }
    layers.push(LayerSpec { units: Some(Units::Named("classes".into())), ..layer("fc", "dense") });
    layers.push(layer("loss", "softmax-cross-entropy"));
    std::mem::take(layers)
}

fn stem(channels: usize, kernel: usize, stride: usize) -> Vec<LayerSpec> {
    let first = LayerSpec { input_channels: Some(3), ..conv("conv1", channels, kernel, stride) };
    vec![first, norm("bn1"), layer("relu", "relu")]
}

/// ResNet-18, for images in colour of 224×224 and others from 32×32 up.
pub(super) fn resnet18() -> Vec<LayerSpec> {
    let mut layers = stem(64, 7, 2);
    layers.push(LayerSpec {
        window: Some(Pair::Both(3)),
        stride: Some(Pair::Both(2)),
        pad: Some(Padding::Sides(Pair::Both(1))),
        ..layer("maxpool", "max-pool")
    });
    stages(&mut layers, "maxpool".into(), 64, &[(64, 2), (128, 2), (256, 2), (512, 2)]);
    close(&mut layers, 0.0)
}

/// A residual network of 14 layers for images in colour of 32×32, such as CIFAR-10's: widths 16, 32 and 64.
pub(super) fn resnet_small() -> Vec<LayerSpec> {
    let mut layers = stem(16, 3, 1);
    stages(&mut layers, "relu".into(), 16, &[(16, 2), (32, 2), (64, 2)]);
    close(&mut layers, 0.0)
}

/// A residual network for a few thousand photos of 192×192: narrow where images are large (0.3 GFLOP forward), dropout
/// before the last layer.
pub(super) fn flowers_net() -> Vec<LayerSpec> {
    let mut layers = stem(32, 3, 2);
    layers.push(LayerSpec { window: Some(Pair::Both(2)), ..layer("maxpool", "max-pool") });
    stages(&mut layers, "maxpool".into(), 32, &[(32, 1), (64, 1), (128, 1), (256, 1)]);
    close(&mut layers, 0.2)
}
