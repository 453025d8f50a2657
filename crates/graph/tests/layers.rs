//! Layers of images in model files: shapes that are PyTorch's, and messages that name the layer and both shapes.

use paceline_graph::{Graph, model_file};

/// Layers, one a line with its keys, before a classifier of three classes on images of this shape.
fn check(shape: &[usize], layers: &str, expected: &str) {
    let mut text = String::from("format=1\n");
    for line in layers.lines().map(str::trim).filter(|l| !l.is_empty()) {
        text += &format!("[[layer]]\n{}\n", line.replace(';', "\n"));
    }
    text += "[[layer]]\ntype='flatten'\n[[layer]]\ntype='dense'\nunits='classes'\n[[layer]]\ntype='softmax-cross-entropy'\n";
    let result = model_file::parse(&text, "m.toml").and_then(|m| Graph::build("m", &m.layers, shape, 3, 0.0));
    let got = match result {
        Ok(graph) => format!("{:?}", graph.nodes[graph.nodes.len() - 4].shape),
        Err(e) => e.message().into(),
    };
    assert!(got.contains(expected), "{layers}: wanted {expected:?}, got {got:?}");
}

#[test]
fn shapes_are_those_of_pytorch() {
    let colour = [7, 10, 3];
    check(&colour, "type='conv';channels=4;kernel=3", "[5, 8, 4]");
    check(&colour, "type='conv';channels=4;kernel=3;pad='same'", "[7, 10, 4]");
    check(&colour, "type='conv';channels=4;kernel=[3,5];pad='same';stride=2", "[4, 5, 4]");
    check(&colour, "type='conv';channels=4;kernel=[3,2];stride=[2,3];pad=[1,0];dilation=[1,2]", "[4, 3, 4]");
    check(&colour, "type='conv';channels='classes';kernel=1;groups=3", "[7, 10, 3]");
    check(&[7, 10], "type='conv';channels=4;kernel=2", "[6, 9, 4]");
    check(&colour, "type='max-pool';window=2", "[3, 5, 3]");
    check(&colour, "type='max-pool';window=3;stride=2;pad=1", "[4, 5, 3]");
    check(&[7, 10], "type='average-pool';window=[2,3];stride=1", "[6, 8]");
    check(&colour, "type='global-average-pool'", "[3]");
    check(&colour, "type='pad';pad=[1,2]", "[9, 14, 3]");
    check(&colour, "type='batch-norm'", "[7, 10, 3]");
    check(&colour, "type='layer-norm';eps=1e-6", "[7, 10, 3]");
    check(&colour, "type='local-response-norm';size=5", "[7, 10, 3]");
    check(&colour, "name='a';type='conv';channels=2;kernel=1\ntype='concatenate';inputs=['a','input']", "[7, 10, 5]");
    check(&colour, "name='a';type='pad';pad=[1,0]\ntype='concatenate';inputs=['a','input'];axis=1", "[16, 10, 3]");
}

#[test]
fn what_does_not_fit_is_refused_with_the_layer_and_both_shapes() {
    let colour = [7, 10, 3];
    check(
        &[2, 2, 8],
        "name='p';type='max-pool';window=3;stride=2",
        "layer p: max-pool: a 3×3 window with stride 2×2 does not fit into 2×2×8",
    );
    check(&[12], "name='c';type='conv';channels=2;kernel=3", "layer c: a convolution takes images");
    check(&[12], "name='c';type='conv';channels=2;kernel=3", "but gets [12]");
    check(
        &[28, 28],
        "name='c';type='conv';channels=2;kernel=3;input_channels=3",
        "layer c: it takes images of shape height×width×3 (input_channels = 3), but gets 28×28, which has 1 channel",
    );
    check(
        &colour,
        "type='conv';channels=4;kernel=3;groups=2",
        "does not divide both the 3 channels of its input 7×10×3",
    );
    check(&colour, "type='conv';channels=4;kernel=1;pad=1", "zeros alone");
    check(&colour, "type='conv';channels=4;kernel=2;pad='same'", "half of an odd kernel");
    check(&colour, "type='conv';channels=4;kernel=2;pad='full'", "neither a number");
    check(&colour, "type='conv';channels=4;kernel=0", "window is 0×0");
    check(&colour, "type='conv';channels=0;kernel=3", "channels is 0");
    check(&colour, "type='conv';kernel=3", "needs channels = N");
    check(&colour, "type='conv';channels=3", "needs kernel = 3");
    check(&colour, "type='conv';channels=3;kernel='big'", "a number, or two for height and width");
    check(&colour, "type='conv';channels=3;kernel=[3,3,3]", "a number, or two for height and width");
    check(&colour, "type='max-pool'", "needs window = 2");
    check(&colour, "type='max-pool';window=2;pad=2", "more than half of its 2×2 window");
    check(&[40, 40, 1], "type='max-pool';window=16", "has 256 places");
    check(&colour, "type='max-pool';window=2;pad='same'", "belongs to conv layers");
    check(&colour, "type='pad'", "needs pad = N");
    check(&colour, "type='batch-norm';momentum=2.0", "momentum is 2");
    check(&colour, "type='batch-norm';eps=0.0", "eps is 0");
    check(&colour, "type='local-response-norm'", "needs size = 5");
    check(
        &colour,
        "name='a';type='conv';channels=2;kernel=2\nname='j';type='concatenate';inputs=['a','input']",
        "layer j: concatenate along axis 3 takes inputs that are equal along the others, but gets [6, 9, 2] and [7, 10, 3]",
    );
    check(&colour, "type='concatenate'", "at least two inputs");
    check(&colour, "name='a';type='relu'\ntype='concatenate';inputs=['a','a'];axis=4", "have axes 1 to 3");
}

#[test]
fn keys_belong_to_their_layers() {
    let image = [7, 10, 3];
    check(&image, "type='max-pool';window=2;kernel=3", "kernel belongs to conv layers, not to max-pool; remove it");
    check(&image, "type='conv';channels=2;kernel=3;window=3", "window belongs to max-pool and average-pool layers");
    check(&image, "type='batch-norm';bias=false", "bias belongs to dense and conv layers");
    check(&image, "type='relu';axis=1", "axis belongs to concatenate");
    check(&image, "type='conv';chanels=2;kernel=3", "did you mean channels?");
    check(&image, "type='maxpool';window=2", "did you mean max-pool?");
}
