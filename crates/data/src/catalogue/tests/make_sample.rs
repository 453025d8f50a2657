//! Makes `crates/data/sample` from the full Fashion-MNIST of the system:
//!
//!     cargo test --release -p paceline-data --lib make_sample -- --ignored --nocapture

use super::SYSTEM;
use crate::idx::{self, Idx, Packing};
use std::path::Path;

#[test]
#[ignore = "writes the sample that is part of the program"]
fn make_sample() -> Result<(), Box<dyn std::error::Error>> {
    let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("sample");
    for (name, count) in [
        ("train-images-idx3-ubyte", 8_000),
        ("train-labels-idx1-ubyte", 8_000),
        ("t10k-images-idx3-ubyte", 2_000),
        ("t10k-labels-idx1-ubyte", 2_000),
    ] {
        let full = idx::read(&Path::new(SYSTEM).join(format!("{name}.gz")))?;
        let (mut dims, mut data) = full.into_parts();
        data.truncate(data.len() / dims[0] * count);
        dims[0] = count;
        let path = to.join(format!("{name}.gz"));
        idx::write(&path, &Idx::new(dims, data)?, Packing::Gzip)?;
        println!("{} {} bytes", path.display(), std::fs::metadata(&path)?.len());
    }
    Ok(())
}
