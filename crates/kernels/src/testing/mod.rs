//! Devices for tests: they wrap any other and compute the same bits, but forgive nothing.

mod checked;
mod queued;

pub use checked::Checked;
pub use queued::Queued;

use paceline_base::Staging;
use paceline_base::kernel::Values;
use paceline_base::staging::{Lend, stage, values};
use paceline_base::units::DType;

/// Host memory apart from the device's: a copy of what is to be read, and nothing but NaN where the content does not count.
fn copy(staging: &Staging, lend: Lend) -> Staging {
    let copy = match (staging.dtype(), lend) {
        (DType::F32, Lend::Overwrite) => stage(&vec![f32::NAN; staging.len()]),
        (DType::F64, Lend::Overwrite) => stage(&vec![f64::NAN; staging.len()]),
        (DType::F32, _) => stage(values::<f32>(staging)),
        (DType::F64, _) => stage(values::<f64>(staging)),
    };
    if lend.writes() { copy } else { copy.into_read_only() }
}

/// A staging's content, to be loaded.
fn content(staging: &Staging) -> Values<'_> {
    match staging.dtype() {
        DType::F32 => Values::F32(values(staging)),
        DType::F64 => Values::F64(values(staging)),
    }
}
