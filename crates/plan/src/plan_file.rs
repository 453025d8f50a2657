//! The plan file: a hybrid parallelisation written by hand.
//!
//! ```toml
//! format = 1
//! ranks = 2
//! shares = [3, 1]              # optional: three samples of four are for rank 0
//!
//! [operators.hidden1]          # model parallel: each rank holds half of the outputs
//! split = { out = 2 }
//!
//! [operators.logits]           # input parallel: partial sums, added in part order
//! split = { in = 2 }
//! ranks = [1, 0]               # optional: the rank of each part
//!
//! # operators that are not named: element-wise ones, pools and normalisations follow the operator before them where they
//! # can be split so; others split `sample` over all ranks
//! ```

use crate::plan::{Compression, OpPlan, Plan, Store, UpdateMode};
use paceline_base::text::did_you_mean;
use paceline_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    ranks: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<UpdateMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bucket: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Compression>,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<OpPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shares: Option<Vec<u64>>,
    #[serde(default)]
    operators: BTreeMap<String, OpPlan>,
}

const KEYS: [&str; 8] = ["format", "ranks", "update", "bucket", "compression", "shares", "default", "operators"];

/// Reads a plan from the text of a file; `path` is for messages.
pub fn parse(text: &str, path: &str) -> Result<Plan> {
    let fail = |e: String| Error::user(format!("plan file {path}: {}", e.trim().replace('\n', " ")));
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| fail(e.to_string()))?;
    for key in table.keys() {
        if !KEYS.contains(&&key[..]) {
            return Err(fail(format!("unknown key {key}{}", did_you_mean(key, KEYS))));
        }
    }
    match table.get("format").and_then(toml::Value::as_integer) {
        Some(1) => {}
        Some(n) => return Err(fail(format!("format {n} is newer than this program reads (1); update paceline"))),
        None => return Err(fail("the line `format = 1` is missing".into())),
    }
    let file: File = toml::Value::Table(table).try_into().map_err(|e: toml::de::Error| fail(e.to_string()))?;
    let store = Store::default();
    if file.bucket == Some(0) {
        return Err(fail("bucket is 0; give the number of elements per bucket, such as 65536".into()));
    }
    Ok(Plan {
        ranks: file.ranks,
        operators: file.operators,
        default: file.default,
        store: Store {
            update: file.update.unwrap_or(store.update),
            bucket: file.bucket.unwrap_or(store.bucket),
            compression: file.compression.unwrap_or_default(),
        },
        shares: file.shares,
    })
}

/// Writes a plan so that [`parse`] reads it back.
pub fn to_toml(plan: &Plan) -> Result<String> {
    let file = File {
        format: 1,
        ranks: plan.ranks,
        update: Some(plan.store.update),
        bucket: Some(plan.store.bucket),
        compression: Some(plan.store.compression).filter(|c| *c != Compression::None),
        shares: plan.shares.clone(),
        default: plan.default.clone(),
        operators: plan.operators.clone(),
    };
    toml::to_string(&file).map_err(|e| Error::internal(format!("a plan cannot be written: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_graph::{Graph, presets};

    fn check(text: &str, expected: &str) {
        let layers = presets::mlp(&[8], paceline_base::op::Activation::Relu, 0.0);
        let graph = Graph::build("mlp", &layers, &[4], 3, 0.0).unwrap();
        let result = parse(text, "p.toml").and_then(|p| p.check(&graph).map(|()| p));
        let got = match result {
            Ok(plan) => {
                assert_eq!(parse(&to_toml(&plan).unwrap(), "again").unwrap(), plan);
                "fits".to_string()
            }
            Err(e) => e.message().to_string(),
        };
        assert!(got.contains(expected), "wanted {expected:?}, got {got:?}");
    }

    #[test]
    fn plans_fit_or_say_why_not() {
        check("format=1\nranks=2", "fits");
        check(
            "format=1\nranks=2\n[operators.hidden1]\nsplit={out=2}\n[operators.logits]\nsplit={in=2}\nranks=[1,0]",
            "fits",
        );
        check("format=1\nranks=2\nshares=[3,1]", "fits");
        check("format=1\nranks=2\nshares=[0,1]\n[operators.hidden1]\nsplit={out=2}", "fits");
        check("format=1\nranks=2\nshares=[3]", "1 weights for 2 ranks");
        check("format=1\nranks=2\nshares=[0,0]", "all 0");
        check("format=1\nranks=2\nshares=[-1,2]", "shares");
        check("format=1\nranks=2\nshares=[0,1]\n[operators.hidden1]\nsplit={}\nranks=[0]", "whose shares are 0");
        check("format=1\nranks=2\ncompression=\"bf16\"", "fits");
        check("format=1\nranks=2\n[compression.top-k]\nper_million=1000", "fits");
        check("ranks=2", "`format = 1` is missing");
        check("format=9\nranks=2", "newer");
        check("format=1\nrank=2", "did you mean ranks?");
        check("format=1\nranks=0", "at least 1");
        check("format=1\nranks=1000000", "ranks is 1000000; give at most 4096");
        check("format=1\nranks=2\n[operators.hidden]\nsplit={out=2}", "did you mean hidden1?");
        check("format=1\nranks=2\n[operators.hidden1]\nsplit={outs=2}", "did you mean out?");
        check("format=1\nranks=2\n[operators.hidden1]\nsplit={out=3}", "a part is on rank 2");
        check("format=1\nranks=16\n[operators.hidden1]\nsplit={out=9}", "give 1 to 8");
        check("format=1\nranks=2\n[operators.hidden1]\nsplit={out=2}\nranks=[0]", "split into 2 parts");
        check("format=1\nranks=2\n[operators.loss]\nsplit={out=2}", "cannot be split along out");
        check("format=1\nranks=2\n[operators.flat]\nsplit={sample=2}", "is the data itself");
        check("format=1\nranks=2\n[operators.hidden1]\nsplt={out=2}", "unknown field");
    }
}
