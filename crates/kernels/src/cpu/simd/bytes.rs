//! Up to sixteen bytes at once, never touching what lies behind them: two reads or writes that overlap, as a good `memcpy` does.

/// The first `n` ≤ 16 bytes, lowest first; the others are zero.
///
/// # Safety
/// They must be readable.
#[inline(always)]
pub(super) unsafe fn read(from: *const u8, n: usize) -> u128 {
    // SAFETY: each access lies within the n bytes.
    unsafe {
        match n {
            16 => u128::from_le(from.cast::<u128>().read_unaligned()),
            8..16 => {
                let low = u64::from_le(from.cast::<u64>().read_unaligned());
                let high = u64::from_le(from.add(n - 8).cast::<u64>().read_unaligned());
                u128::from(low) | u128::from(high) << (8 * (n - 8))
            }
            4..8 => {
                let low = u32::from_le(from.cast::<u32>().read_unaligned());
                let high = u32::from_le(from.add(n - 4).cast::<u32>().read_unaligned());
                u128::from(u64::from(low) | u64::from(high) << (8 * (n - 4)))
            }
            _ => {
                let mut all = 0;
                for i in 0..n {
                    all |= u64::from(*from.add(i)) << (8 * i);
                }
                u128::from(all)
            }
        }
    }
}

/// Writes the lowest `n` ≤ 16 bytes.
///
/// # Safety
/// They must be writable.
#[inline(always)]
pub(super) unsafe fn write(to: *mut u8, n: usize, bytes: u128) {
    // SAFETY: each access lies within the n bytes.
    unsafe {
        match n {
            16 => to.cast::<u128>().write_unaligned(bytes.to_le()),
            8..16 => {
                to.cast::<u64>().write_unaligned((bytes as u64).to_le());
                to.add(n - 8).cast::<u64>().write_unaligned(((bytes >> (8 * (n - 8))) as u64).to_le());
            }
            4..8 => {
                let bytes = bytes as u64;
                to.cast::<u32>().write_unaligned((bytes as u32).to_le());
                to.add(n - 4).cast::<u32>().write_unaligned(((bytes >> (8 * (n - 4))) as u32).to_le());
            }
            _ => {
                for i in 0..n {
                    *to.add(i) = (bytes as u64 >> (8 * i)) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_bytes_goes_and_comes_back() {
        let source: Vec<u8> = (1..=16).collect();
        for n in 0..=16 {
            let mut target = [99; 18];
            // SAFETY: 16 bytes to read and 17 to write.
            unsafe { write(target.as_mut_ptr().add(1), n, read(source.as_ptr(), n)) };
            assert_eq!(target[1..=n], source[..n]);
            assert!(target[0] == 99 && target[n + 1..].iter().all(|b| *b == 99), "{n} bytes: {target:?}");
        }
    }
}
