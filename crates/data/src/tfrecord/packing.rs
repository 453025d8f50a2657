//! How a file is packed, and how that is found out.

use super::frame;
use serde::Serialize;

/// How the whole file is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Packing {
    /// Not at all.
    #[default]
    Plain,
    /// gzip.
    Gzip,
    /// zlib.
    Zlib,
}

impl Packing {
    /// How many bytes [`Packing::of`] wants to see.
    pub(super) const LOOK: usize = frame::HEAD;

    /// The packing of a file that begins with these (up to 12) bytes. A plain file may begin with any byte, also with
    /// those of gzip: so what counts first is whether the length of a first record has the right checksum.
    pub(crate) fn of(first: &[u8]) -> Self {
        match *first {
            _ if frame::length(first).is_some() => Self::Plain,
            [0x1f, 0x8b, 0x08, ..] => Self::Gzip,
            // Deflate with a window of up to 32 KiB, no dictionary, and the check bits right (RFC 1950).
            [a, b, ..] if a & 0x0f == 8 && a >> 4 <= 7 && b & 0x20 == 0 && u16::from_be_bytes([a, b]) % 31 == 0 => {
                Self::Zlib
            }
            _ => Self::Plain,
        }
    }

    /// Whether a plain file that begins with these 12 bytes begins with a record.
    pub(crate) fn is_record(first: &[u8]) -> bool {
        frame::length(first).is_some()
    }

    /// Its name, as in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zlib => "zlib",
        }
    }
}
