//! Makes `crates/data/sample` from a full Fashion-MNIST:
//!
//!     cargo run --release -p paceline-data --example make_sample -- /usr/share/datasets/fashion-mnist crates/data/sample

use paceline_data::idx::{self, Idx, Packing};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [from, to] =
        std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: make_sample FROM TO")?;
    for (name, count) in [
        ("train-images-idx3-ubyte", 8_000),
        ("train-labels-idx1-ubyte", 8_000),
        ("t10k-images-idx3-ubyte", 2_000),
        ("t10k-labels-idx1-ubyte", 2_000),
    ] {
        let full = idx::read(&Path::new(&from).join(format!("{name}.gz")))?;
        let (mut dims, mut data) = full.into_parts();
        data.truncate(data.len() / dims[0] * count);
        dims[0] = count;
        let path = Path::new(&to).join(format!("{name}.gz"));
        idx::write(&path, &Idx::new(dims, data)?, Packing::Gzip)?;
        println!("{} {} bytes", path.display(), std::fs::metadata(&path)?.len());
    }
    Ok(())
}
