//! Writing IDX: what the catalogue keeps of a set that it fetched.

use super::{Element, Idx};
use std::io::{self, Write};

impl Idx {
    /// Writes the array, unpacked.
    ///
    /// # Errors
    /// Those of `out`, and `InvalidInput` for an array that IDX cannot hold: more than 255 dimensions, or one above
    /// 32 bits.
    pub(crate) fn write_plain(&self, mut out: impl Write) -> io::Result<()> {
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "dimensions too large for IDX");
        let rank = u8::try_from(self.dims().len()).map_err(too_large)?;
        out.write_all(&[0, 0, Element::U8.code(), rank])?;
        for &dim in self.dims() {
            out.write_all(&u32::try_from(dim).map_err(too_large)?.to_be_bytes())?;
        }
        out.write_all(self.data())?;
        out.flush()
    }
}
