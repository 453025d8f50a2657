//! The frame around a record, and the walk from one to the next in bytes that are in memory.

/// Bytes of the length and its checksum.
pub(super) const HEAD: usize = 12;

/// Bytes that the frame adds to a record: length, its checksum, the checksum of the data.
pub(crate) const FRAME: usize = 16;

/// The checksum of the format: CRC-32C, rotated and offset, so that checksums of data which holds checksums are good too.
#[inline]
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[inline]
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

#[inline]
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

/// The length at the beginning of `bytes`, if all of it is there and its checksum is right.
#[inline]
pub(super) fn length(bytes: &[u8]) -> Option<u64> {
    let (length, sum) = (u64_at(bytes, 0)?, u32_at(bytes, 8)?);
    (masked_crc(&bytes[..8]) == sum).then_some(length)
}

/// What stands at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A record of this many bytes, all of it there.
    Record(usize),
    /// The end of the file.
    End,
    /// A record of this many bytes (frame included, as far as known) of which not all is there.
    Short(u64),
    /// A length with a wrong checksum.
    BadLength,
    /// A record of this many bytes whose data has a wrong checksum.
    BadData(usize),
}

/// What stands at the byte `at` of `bytes`.
#[inline]
pub(super) fn look(bytes: &[u8], at: usize, verify: bool) -> Found {
    let rest = &bytes[at..];
    if rest.is_empty() {
        return Found::End;
    }
    if rest.len() < HEAD {
        return Found::Short(FRAME as u64);
    }
    let Some(length) = length(rest) else { return Found::BadLength };
    // In u64: a hostile length may overflow neither this sum nor a usize.
    let whole = length.saturating_add(FRAME as u64);
    if whole > rest.len() as u64 {
        return Found::Short(whole);
    }
    let length = length as usize;
    if verify {
        let data = &rest[HEAD..HEAD + length];
        if u32_at(rest, HEAD + length) != Some(masked_crc(data)) {
            return Found::BadData(length);
        }
    }
    Found::Record(length)
}

/// The next place after `at` where a length with a right checksum stands and the record fits: where reading can go on
/// behind damage. (By chance that happens once in 2³² places.)
pub(super) fn resume(bytes: &[u8], at: usize) -> usize {
    (at + 1..bytes.len())
        .find(|&at| match length(&bytes[at..]) {
            Some(length) => length.saturating_add(FRAME as u64) <= (bytes.len() - at) as u64,
            None => false,
        })
        .unwrap_or(bytes.len())
}
