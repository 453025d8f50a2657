//! Devices for tests: they wrap any other and compute the same bits, but forgive nothing.

mod checked;
mod queued;

pub use checked::Checked;
pub use queued::Queued;

use paceline_base::Staging;
use paceline_base::kernel::Values;
use paceline_base::staging::{Element, Lend, stage, values};
use paceline_base::units::DType;

/// Host memory apart from the device's: a copy of what is to be read, and nothing but NaN, or the largest index, where the content does not count.
fn copy(staging: &Staging, lend: Lend) -> Staging {
    fn apart<T: Element>(staging: &Staging, lend: Lend, poison: T) -> Staging {
        match lend {
            Lend::Overwrite => stage(&vec![poison; staging.len()]),
            _ => stage(values::<T>(staging)),
        }
    }
    let copy = match staging.dtype() {
        DType::F32 => apart(staging, lend, f32::NAN),
        DType::F64 => apart(staging, lend, f64::NAN),
        DType::U8 => apart(staging, lend, u8::MAX),
        DType::U32 => apart(staging, lend, u32::MAX),
        DType::U64 => apart(staging, lend, u64::MAX),
    };
    let copy = if staging.varies() { copy.varying() } else { copy };
    if lend.writes() { copy } else { copy.into_read_only() }
}

/// A staging's content, to be loaded.
fn content(staging: &Staging) -> Values<'_> {
    match staging.dtype() {
        DType::F32 => Values::F32(values(staging)),
        DType::F64 => Values::F64(values(staging)),
        DType::U8 => Values::Bytes(values(staging)),
        DType::U32 => Values::U32(values(staging)),
        DType::U64 => Values::U64(values(staging)),
    }
}
