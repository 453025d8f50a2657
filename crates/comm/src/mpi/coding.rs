//! How numbers of a collective travel: as they are, as 16-bit floats, or only those that are not zero.

use crate::Encoding;
use crate::bf16;
use crate::host::Element;
use crate::sum::vector;
use paceline_base::units::DType;
use std::slice::{from_raw_parts, from_raw_parts_mut};

/// What the bytes of a piece are. All but `Plain` are of 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// As they are.
    Plain,
    /// Rounded to 16 bits.
    Bf16,
    /// A count, then positions and values of what is not zero; or a mark and all values, where that is shorter.
    Sparse,
}

/// Instead of a count: all values follow.
const ALL: u32 = u32::MAX;

impl Coding {
    /// What an operation asks for. Devices of another type than `f32` send everything as it is.
    pub(super) fn of(encoding: Encoding, dtype: DType) -> Self {
        match encoding {
            Encoding::Bf16 if dtype == DType::F32 => Self::Bf16,
            Encoding::Sparse if dtype == DType::F32 => Self::Sparse,
            _ => Self::Plain,
        }
    }

    /// Kinds of slots that a peer needs: arriving summands; and leaving ones and arriving sums, where they are encoded.
    pub(super) fn slots_per_peer(self) -> usize {
        if self == Self::Plain { 1 } else { 3 }
    }

    /// Bytes that a slot needs for `len` elements, encoded or not.
    pub(super) fn largest(self, len: usize, dtype: DType) -> usize {
        len * dtype.size() + if self == Self::Sparse { 4 } else { 0 }
    }

    /// Whether `bytes` can be `len` elements.
    pub(super) fn fits(self, bytes: usize, len: usize, dtype: DType) -> bool {
        match self {
            Self::Plain => bytes == len * dtype.size(),
            Self::Bf16 => bytes == 2 * len,
            Self::Sparse => bytes <= 4 + 4 * len && bytes >= 4,
        }
    }

    /// Rounds to what can travel.
    pub(super) fn round<T: Element>(self, values: &mut [T]) {
        if self == Self::Bf16 {
            bf16::round(floats_mut(values));
        }
    }

    /// Puts values into a slot; the bytes that it takes.
    ///
    /// # Safety
    /// The slot is aligned, free, and long enough by [`largest`](Self::largest).
    pub(super) unsafe fn encode(self, values: &[f32], slot: *mut u8) -> usize {
        let n = values.len();
        match self {
            Self::Plain => unreachable!("plain values travel from where they are"),
            Self::Bf16 => {
                // SAFETY: two bytes for each value.
                bf16::narrow(values, unsafe { from_raw_parts_mut(slot.cast(), n) });
                2 * n
            }
            Self::Sparse => {
                let count = values.iter().filter(|v| **v != 0.0).count();
                // SAFETY: one word more than there are values, as promised; written before it is read.
                let words = unsafe { from_raw_parts_mut(slot.cast::<u32>(), n + 1) };
                if 2 * count >= n {
                    words[0] = ALL;
                    for (word, value) in words[1..].iter_mut().zip(values) {
                        *word = value.to_bits();
                    }
                    return 4 + 4 * n;
                }
                words[0] = count as u32;
                let (positions, numbers) = words[1..1 + 2 * count].split_at_mut(count);
                let there = values.iter().enumerate().filter(|(_, v)| **v != 0.0);
                for ((at, value), (position, number)) in there.zip(positions.iter_mut().zip(numbers)) {
                    (*position, *number) = (at as u32, value.to_bits());
                }
                4 + 8 * count
            }
        }
    }

    /// Adds what lies in a slot.
    ///
    /// # Safety
    /// The slot holds as many values as `sum`, encoded in this way.
    pub(super) unsafe fn add<T: Element>(self, sum: &mut [T], slot: *const u8) {
        let n = sum.len();
        match self {
            // SAFETY: the caller's promise.
            Self::Plain => vector::add(sum, unsafe { from_raw_parts(slot.cast::<T>(), n) }),
            // SAFETY: the caller's promise.
            Self::Bf16 => bf16::add(floats_mut(sum), unsafe { from_raw_parts(slot.cast(), n) }),
            Self::Sparse => {
                let sum = floats_mut(sum);
                // SAFETY: the caller's promise.
                unsafe { each(slot, n, |at, value| sum[at] += value) };
            }
        }
    }

    /// Puts what lies in a slot in the place of `values`.
    ///
    /// # Safety
    /// As for [`add`](Self::add).
    pub(super) unsafe fn decode<T: Element>(self, values: &mut [T], slot: *const u8) {
        let n = values.len();
        match self {
            // SAFETY: the caller's promise.
            Self::Plain => values.copy_from_slice(unsafe { from_raw_parts(slot.cast::<T>(), n) }),
            // SAFETY: the caller's promise.
            Self::Bf16 => bf16::widen(unsafe { from_raw_parts(slot.cast(), n) }, floats_mut(values)),
            Self::Sparse => {
                let values = floats_mut(values);
                values.fill(0.0);
                // SAFETY: the caller's promise.
                unsafe { each(slot, n, |at, value| values[at] = value) };
            }
        }
    }

    /// The values in a slot, to be changed: there, or in `spare`.
    ///
    /// # Safety
    /// As for [`add`](Self::add); `spare` has room for them and is free, and neither is used otherwise during `'a`.
    pub(super) unsafe fn decoded<'a, T: Element>(self, slot: *mut u8, len: usize, spare: *mut u8) -> &'a mut [T] {
        let at = if self == Self::Plain { slot } else { spare };
        // SAFETY: the caller's promise; the spare is part of an initialised vector.
        let values = unsafe { from_raw_parts_mut(at.cast::<T>(), len) };
        if self != Self::Plain {
            // SAFETY: the caller's promise.
            unsafe { self.decode(values, slot) };
        }
        values
    }
}

/// Numbers that are known to be `f32`: no other type is encoded.
fn floats_mut<T: Element>(values: &mut [T]) -> &mut [f32] {
    assert_eq!(T::DTYPE, DType::F32, "only f32 is encoded");
    // SAFETY: T is f32.
    unsafe { from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}

/// Calls `f` with place and value of each number in a sparse slot.
///
/// # Safety
/// The slot holds an encoding of `n` values; positions are checked, because they come from another process.
unsafe fn each(slot: *const u8, n: usize, mut f: impl FnMut(usize, f32)) {
    // SAFETY: there is at least the count.
    let count = unsafe { *slot.cast::<u32>() };
    if count == ALL {
        // SAFETY: `n` values follow.
        let values = unsafe { from_raw_parts(slot.add(4).cast::<f32>(), n) };
        values.iter().enumerate().for_each(|(at, &value)| f(at, value));
        return;
    }
    let count = (count as usize).min(n / 2);
    // SAFETY: as many positions, then as many values.
    let (positions, values) = unsafe {
        (from_raw_parts(slot.add(4).cast::<u32>(), count), from_raw_parts(slot.add(4 + 4 * count).cast::<f32>(), count))
    };
    for (&at, &value) in positions.iter().zip(values) {
        if (at as usize) < n {
            f(at as usize, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(coding: Coding, values: &[f32]) -> (Vec<f32>, usize) {
        let mut slot = vec![0u64; values.len() + 2];
        let slot = slot.as_mut_ptr().cast::<u8>();
        // SAFETY: long enough.
        let bytes = unsafe { coding.encode(values, slot) };
        assert!(coding.fits(bytes, values.len(), DType::F32));
        let mut out = vec![f32::NAN; values.len()];
        // SAFETY: just encoded.
        unsafe { coding.decode(&mut out, slot) };
        let mut sum = vec![1.0; values.len()];
        // SAFETY: just encoded.
        unsafe { coding.add(&mut sum, slot) };
        for (s, o) in sum.iter().zip(&out) {
            assert_eq!(*s, 1.0 + o);
        }
        (out, bytes)
    }

    #[test]
    fn what_is_sparse_travels_short_and_whole() {
        let mut values = vec![0.0; 1000];
        (values[0], values[13], values[999]) = (1.5, -2.0, f32::MIN_POSITIVE);
        assert_eq!(there_and_back(Coding::Sparse, &values), (values.clone(), 4 + 3 * 8));
        let dense: Vec<f32> = (0..1000).map(|i| i as f32 - 7.0).collect();
        assert_eq!(there_and_back(Coding::Sparse, &dense), (dense.clone(), 4 + 4000));
        assert_eq!(there_and_back(Coding::Sparse, &[]).0, Vec::<f32>::new());
    }

    #[test]
    fn sixteen_bits_are_rounded_to_the_nearest() {
        let (back, bytes) = there_and_back(Coding::Bf16, &[1.0, -0.5, 1.003, 3.0e38, 0.0]);
        assert_eq!(bytes, 10);
        assert_eq!(
            back,
            [1.0, -0.5, 1.0, 2.9975e38f32, 0.0].map(|v: f32| {
                let mut v = [v];
                bf16::round(&mut v);
                v[0]
            })
        );
    }
}
