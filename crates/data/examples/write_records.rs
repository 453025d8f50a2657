//! Writes a known set of Examples, plain and packed, for another program to read.
//!
//!     cargo run -p paceline-data --example write_records -- FOLDER
//!
//! `examples.tfrecord`, `.gz`, `.zlib` hold the same records; `expected.json` says what is in them: floats as the bits
//! they have, byte strings in hexadecimal, integers as text.

use paceline_data::example::{self, Value};
use paceline_data::tfrecord::{Packing, Writer};
use paceline_system::hex;
use serde_json::json;
use std::error::Error;
use std::path::Path;

fn shown(value: &Value<'_>) -> serde_json::Value {
    match value {
        Value::Bytes(strings) => json!({"bytes": strings.iter().map(|s| hex(s)).collect::<Vec<_>>()}),
        Value::Floats(floats) => json!({"floats": floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>()}),
        Value::Ints(ints) => json!({"ints": ints.iter().map(|i| i.to_string()).collect::<Vec<_>>()}),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: write_records FOLDER")?;
    let folder = Path::new(&folder);
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![0x5a; 100_000];
    let many: Vec<f32> = (0..70_000).map(|i| i as f32 / 7.0 - 999.0).collect();
    let names: Vec<String> = (0..300).map(|i| format!("k{i:03}")).collect();
    let wide: Vec<(&str, Value<'_>)> = names.iter().map(|name| (name.as_str(), Value::Ints(&[1 << 20]))).collect();
    let extremes =
        [0.0, -0.0, f32::MIN, f32::MAX, f32::MIN_POSITIVE, 1e-45, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    // A signalling NaN with bits of its own.
    let nan = [f32::from_bits(0x7f80_1234), f32::from_bits(0xffc0_0001)];
    let (strings, umlauts) = ([&b""[..], b"abc", &all, &long], ["Straße".as_bytes()]);
    let examples: Vec<Vec<(&str, Value<'_>)>> = vec![
        vec![],
        vec![("i", Value::Ints(&[0, 1, -1, i64::MAX, i64::MIN, 127, 128, 16_383, 16_384]))],
        vec![("f", Value::Floats(&extremes)), ("nan", Value::Floats(&nan))],
        vec![("b", Value::Bytes(&strings)), ("Größe", Value::Bytes(&umlauts))],
        vec![("b", Value::Bytes(&[])), ("f", Value::Floats(&[])), ("i", Value::Ints(&[]))],
        vec![("", Value::Ints(&[1])), ("many", Value::Floats(&many))],
        wide,
    ];

    for (name, packing) in [("", Packing::Plain), (".gz", Packing::Gzip), (".zlib", Packing::Zlib)] {
        let file = std::fs::File::create(folder.join(format!("examples.tfrecord{name}")))?;
        let mut writer = Writer::new(std::io::BufWriter::new(file), packing);
        let mut record = Vec::new();
        for features in &examples {
            record.clear();
            example::write(features, &mut record);
            writer.write(&record)?;
        }
        writer.finish()?;
    }
    let expected: Vec<serde_json::Value> = examples
        .iter()
        .map(|features| features.iter().map(|(name, value)| (name.to_string(), shown(value))).collect())
        .collect();
    std::fs::write(folder.join("expected.json"), serde_json::to_string(&expected)?)?;
    Ok(())
}
