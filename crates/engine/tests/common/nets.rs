//! Small convolutional networks that hold every operator once or more. A bias before batch normalisation has a gradient of
//! rounding alone, which cannot be compared: there is none.

use paceline_base::sample::SampleKind;
use paceline_graph::{Graph, model_file};

/// One layer a line: `name type key=value …`; inputs as `<a,b`. Short to write, and to read beside each other.
pub(crate) fn layers(text: &str) -> Vec<paceline_graph::LayerSpec> {
    let mut toml = String::from("format = 1\n");
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let mut words = line.split_whitespace();
        let (name, kind) = (words.next().unwrap(), words.next().unwrap());
        toml += &format!("[[layer]]\nname = \"{name}\"\ntype = \"{kind}\"\n");
        for word in words {
            match word.strip_prefix('<') {
                Some(inputs) => {
                    let names: Vec<_> = inputs.split(',').map(|n| format!("\"{n}\"")).collect();
                    toml += &format!("inputs = [{}]\n", names.join(", "));
                }
                None => {
                    let (key, value) = word.split_once('=').unwrap();
                    toml += &format!("{key} = {value}\n");
                }
            }
        }
    }
    model_file::parse(&toml, "net").unwrap().layers
}

/// A model of these layers.
pub(crate) fn net(text: &str, shape: &[usize]) -> Graph {
    Graph::build("net", &layers(text), shape, 5, 0.01).unwrap()
}

/// The same for samples of any kind, without a penalty.
pub(crate) fn net_for(text: &str, sample: &SampleKind) -> Graph {
    Graph::build_for("net", &layers(text), sample, 0.0).unwrap()
}

/// Convolutions, activations and pools that a device joins, on sides that do not divide by the windows.
pub(crate) const PLAIN: &str = r#"
    c1 conv channels=8 kernel=3 pad=1
    r1 relu
    p1 max-pool window=2
    c2 conv channels=6 kernel=3 pad=1
    r2 relu
    p2 max-pool window=2 stride=[2,3]
    mean global-average-pool
    logits dense units="classes"
    loss softmax-cross-entropy
"#;

/// Residual blocks with synchronised batch normalisation, one of them narrowing, and an overlapping pool.
pub(crate) const RESIDUAL: &str = r#"
    c1 conv channels=6 kernel=3 pad="same" bias=false
    bn1 batch-norm
    r1 relu
    c2 conv channels=6 kernel=3 pad=1 bias=false
    bn2 batch-norm momentum=0.3 eps=1e-3
    sum add <bn2,r1
    r2 relu
    c3 conv channels=4 kernel=3 stride=2 pad=1 bias=false
    bn3 batch-norm
    c4 conv channels=4 kernel=1 stride=2 bias=false <r2
    bn4 batch-norm
    sum2 add <bn3,bn4
    r3 relu
    pool max-pool window=3 stride=2 pad=1
    mean global-average-pool
    logits dense units="classes"
    loss softmax-cross-entropy
"#;

/// Branches that meet, with strides, groups, dilation, odd windows, and every normalisation.
pub(crate) const BRANCHES: &str = r#"
    a conv channels=4 kernel=[3,2] stride=[2,1] pad=[1,0]
    lrn local-response-norm size=3 alpha=0.5 k=2.0
    b conv channels=6 kernel=3 pad=2 dilation=[2,1] stride=[2,1] groups=2 bias=false <input
    cut average-pool window=[1,4] stride=1 <b
    both concatenate <lrn,cut
    ln layer-norm
    g gelu
    wide pad pad=[1,2]
    d conv channels=4 kernel=3 groups=2
    act tanh
    avg average-pool window=3 stride=2 pad=1
    flat flatten
    drop dropout rate=0.25
    logits dense units="classes"
    loss mean-squared-error
"#;

/// Images without a channel axis; normalisation of vectors; branches joined along the height. Two samples that are nearly
/// alike make batch normalisation of vectors divide by little: a larger eps keeps rounding small.
pub(crate) const GREY: &str = r#"
    top max-pool window=2 stride=1
    c1 conv channels=5 kernel=2 bias=false
    bn1 batch-norm
    act tanh
    half max-pool window=[2,3] stride=[2,1]
    again max-pool window=[2,3] stride=[2,1] <act
    soft average-pool window=[3,3] stride=[2,1] <act
    cut max-pool window=[1,1] <soft
    tall concatenate axis=1 <half,cut,again
    c2 conv channels=3 kernel=1 stride=2 bias=false
    flat flatten
    h dense units=6 bias=false
    bn2 batch-norm eps=0.1
    act3 sigmoid
    logits dense units="classes"
    loss softmax-cross-entropy
"#;
