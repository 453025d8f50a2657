//! The model file: TOML with named layers, inputs by name.
//!
//! ```toml
//! format = 1
//! name = "two-branches"
//!
//! [[layer]]
//! name = "flat"
//! type = "flatten"
//!
//! [[layer]]
//! name = "left"
//! type = "dense"
//! units = 64
//!
//! [[layer]]
//! name = "right"
//! type = "dense"
//! units = 64
//! inputs = ["flat"]        # the layer before, if left out
//!
//! [[layer]]
//! type = "add"
//! inputs = ["left", "right"]
//!
//! [[layer]]
//! type = "dense"
//! units = "classes"
//!
//! [[layer]]
//! type = "softmax-cross-entropy"
//! ```
//!
//! Samples are `[features]`, or images `[height, width, channels]`; images in grey, `[height, width]`, have one channel. Sizes
//! of windows are a number or two, `[height, width]`, and fit as in PyTorch: rows that do not fill a window are left over.
//!
//! | type | keys (with their defaults) |
//! |---|---|
//! | `dense` | `units`, `bias` (true), `init` (`"glorot"`), `l2` |
//! | `conv` | `channels`, `kernel`, `stride` (1), `pad` (0; or `"same"`), `dilation` (1), `groups` (1), `bias` (true), `init` (`"he"`), `l2`, `input_channels` (any) |
//! | `max-pool`, `average-pool` | `window`, `stride` (the window), `pad` (0) |
//! | `global-average-pool`, `flatten`, `relu`, `tanh`, `sigmoid`, `gelu` | none |
//! | `dropout` | `rate` |
//! | `batch-norm` | `eps` (1e-5), `momentum` (0.1) |
//! | `layer-norm` | `eps` (1e-5) |
//! | `local-response-norm` | `size`, `alpha` (1e-4), `beta` (0.75), `k` (1) |
//! | `pad` | `pad` |
//! | `add` | two or more `inputs` |
//! | `concatenate` | two or more `inputs`, `axis` (the last; a sample's first is 1) |
//! | `softmax-cross-entropy`, `mean-squared-error` | none; one of them comes last |

use crate::LayerSpec;
use crate::layer::KEYS;
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// A model as written in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelFile {
    /// Version of this format.
    pub format: u32,
    /// For people; empty if the file gives none.
    #[serde(default)]
    pub name: Option<String>,
    /// The layers, in order.
    #[serde(rename = "layer")]
    pub layers: Vec<LayerSpec>,
}

const FILE_KEYS: [&str; 3] = ["format", "name", "layer"];

/// Reads a model from the text of a file; `path` is for messages.
pub fn parse(text: &str, path: &str) -> Result<ModelFile> {
    let fail = |e: String| Error::user(format!("model file {path}: {e}"));
    let table: toml::Table =
        text.parse().map_err(|e: toml::de::Error| fail(e.to_string().trim().replace('\n', " ")))?;
    for key in table.keys() {
        if !FILE_KEYS.contains(&&key[..]) {
            return Err(fail(format!("unknown key {key}{}", did_you_mean(key, FILE_KEYS))));
        }
    }
    match table.get("format").and_then(toml::Value::as_integer) {
        Some(1) => {}
        Some(n) => return Err(fail(format!("format {n} is newer than this program reads (1); update paceline"))),
        None => return Err(fail("the line `format = 1` is missing".into())),
    }
    let layers =
        table.get("layer").and_then(toml::Value::as_array).ok_or_else(|| fail("it has no [[layer]]".into()))?;
    for (i, layer) in layers.iter().enumerate() {
        let keys = layer.as_table().ok_or_else(|| fail(format!("layer {} is not a table", i + 1)))?;
        for key in keys.keys() {
            if !KEYS.contains(&&key[..]) {
                return Err(fail(format!("layer {}: unknown key {key}{}", i + 1, did_you_mean(key, KEYS))));
            }
        }
        if !keys.contains_key("type") {
            return Err(fail(format!("layer {}: type is missing", i + 1)));
        }
        // Each value by itself, so that an error names the layer and the key.
        for (key, value) in keys {
            let mut alone = toml::Table::new();
            alone.insert("type".into(), toml::Value::String(String::new()));
            alone.insert(key.clone(), value.clone());
            if let Err(e) = toml::Value::Table(alone).try_into::<LayerSpec>() {
                let name = keys.get("name").and_then(toml::Value::as_str);
                let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
                return Err(fail(format!("layer {}{name}: {key}: {}", i + 1, e.message().trim().replace('\n', " "))));
            }
        }
    }
    toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| fail(e.to_string().trim().replace('\n', " ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Graph;

    fn check(text: &str, expected: &str) {
        let result = parse(text, "m.toml").and_then(|m| Graph::build("m", &m.layers, &[4], 3, 0.0));
        let got = result.map(|g| format!("{} parameters", g.parameter_count())).unwrap_or_else(|e| e.message().into());
        assert!(got.contains(expected), "wanted {expected:?}, got {got:?}");
    }

    #[test]
    fn files_are_read_or_refused_with_a_reason() {
        let end = "[[layer]]\ntype='dense'\nunits='classes'\n[[layer]]\ntype='softmax-cross-entropy'\n";
        check(&format!("format=1\n{end}"), "15 parameters");
        check(end, "`format = 1` is missing");
        check(&format!("format=2\n{end}"), "newer");
        check("format=1\n[[layer]]\ntype='dens'\nunits=3\n", "did you mean dense?");
        check("format=1\n[[layer]]\nname='a'\ntype='dense'\nunits=true\n", "layer 1 (a): units: ");
        check(&format!("format=1\n{end}[[layer]]\ntype='dropout'\nrate='half'\n"), "layer 3: rate: invalid type");
        check("format=1\n[[layer]]\ntype='dense'\nname=3\n", "layer 1: name: invalid type");
        check("format=1\n[[layer]]\ntype='dense'\nunit=3\n", "did you mean units?");
        check("format=1\n[[layer]]\ntype='dense'\nunits=3\n", "not a loss");
        check("format=1\n[[layer]]\ntype='dense'\nunits=5\n[[layer]]\ntype='softmax-cross-entropy'\n", "shape [3]");
        check(
            &format!(
                "format=1\n[[layer]]\nname='a'\ntype='dense'\nunits=2\n{}",
                end.replacen("type", "inputs=['b']\ntype", 1)
            ),
            "not a layer above",
        );
        check(&format!("format=1\n[[layer]]\ntype='dropout'\nrate=1.0\n{end}"), "below 1");
        check(&format!("format=1\n[[layer]]\ntype='relu'\nunits=3\n{end}"), "belongs to dense");
        check(
            &format!(
                "format=1\n[[layer]]\nname='a'\ntype='dense'\nunits=4\n[[layer]]\ntype='add'\ninputs=['a','input']\n{end}"
            ),
            "35 parameters",
        );
        check(
            &format!(
                "format=1\n[[layer]]\nname='a'\ntype='dense'\nunits=2\n[[layer]]\ntype='add'\ninputs=['a','input']\n{end}"
            ),
            "[2] and [4]",
        );
        check("format=1\nlayer=3", "no [[layer]]");
        check("format=[", "model file m.toml");
    }
}
