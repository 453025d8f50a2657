//! Adding up and handing out one member's chunk of everybody's buffer.
//!
//! Every element is `((m0 + m1) + m2) + …` in rank order, whatever the vector width: plain adds, so all paths give the
//! same bits. Two members take one pass that reads two streams and writes two. More go block by block, so that the
//! running sum stays in the first-level cache and every buffer is read once and written once.

use crate::bf16::round;
use crate::host::Element;
use crate::raw;
use paceline_base::units::DType;
use std::ops::Range;

/// Elements per block: 4 KB of `f32`, 8 KB of `f64`.
const BLOCK: usize = 1024;

/// Sums `range` of all buffers and writes the sum into all of them.
///
/// # Safety `buffer(0..members)` are distinct buffers, valid and aligned for `range`, in which nobody else touches
/// `range` meanwhile.
pub(crate) unsafe fn all_reduce<T: Element>(members: usize, buffer: impl Fn(usize) -> *mut T, range: Range<usize>) {
    if members == 2 {
        // SAFETY: distinct buffers, and `range` is ours alone.
        let (a, b) = unsafe { (raw::range_mut(buffer(0), &range), raw::range_mut(buffer(1), &range)) };
        return vector::both(a, b);
    }
    for block in blocks(range) {
        let mut space = [T::default(); BLOCK];
        // SAFETY: as promised by the caller; the borrows end before the writes below.
        let sum = unsafe { sum_of(members, &buffer, &block, &mut space) };
        for m in 0..members {
            // SAFETY: `range` of every buffer is ours alone, and `sum` lies in `space`.
            unsafe { raw::range_mut(buffer(m), &block) }.copy_from_slice(sum);
        }
    }
}

/// The same with summands and sums rounded to 16 bits, if they are `f32`.
///
/// # Safety
/// As for [`all_reduce`].
pub(crate) unsafe fn all_reduce_bf16<T: Element>(
    members: usize,
    buffer: impl Fn(usize) -> *mut T,
    range: Range<usize>,
) {
    if T::DTYPE == DType::F32 {
        for m in 0..members {
            // SAFETY: `range` of every buffer is ours alone, and T is f32.
            round(unsafe { raw::range_mut(buffer(m).cast(), &range) });
        }
    }
    // SAFETY: the caller's promise.
    unsafe { all_reduce(members, &buffer, range.clone()) };
    if T::DTYPE == DType::F32 {
        for m in 0..members {
            // SAFETY: as above.
            round(unsafe { raw::range_mut(buffer(m).cast(), &range) });
        }
    }
}

/// [`reduce_scatter`] with summands and sums rounded to 16 bits, if they are `f32`.
///
/// # Safety
/// As for [`all_reduce`].
pub(crate) unsafe fn reduce_scatter_bf16<T: Element>(
    members: usize,
    me: usize,
    buffer: impl Fn(usize) -> *mut T,
    range: Range<usize>,
) {
    // SAFETY: the caller's promise; T is f32 where it is rounded.
    unsafe {
        if T::DTYPE == DType::F32 {
            (0..members).for_each(|m| round(raw::range_mut(buffer(m).cast(), &range)));
        }
        reduce_scatter(members, me, &buffer, range.clone());
        if T::DTYPE == DType::F32 {
            round(raw::range_mut(buffer(me).cast(), &range));
        }
    }
}

/// Sums `range` of all buffers and writes the sum into that of `me`.
///
/// # Safety
/// As for [`all_reduce`].
pub(crate) unsafe fn reduce_scatter<T: Element>(
    members: usize,
    me: usize,
    buffer: impl Fn(usize) -> *mut T,
    range: Range<usize>,
) {
    if members == 2 {
        // Of two summands the order does not matter, so that mine can take the other's in place.
        // SAFETY: distinct buffers, and `range` is ours alone.
        let (mine, other) = unsafe { (raw::range_mut(buffer(me), &range), raw::range(buffer(1 - me), &range)) };
        return vector::add(mine, other);
    }
    for block in blocks(range) {
        let mut space = [T::default(); BLOCK];
        // SAFETY: as promised by the caller; the borrows end before the write below.
        let sum = unsafe { sum_of(members, &buffer, &block, &mut space) };
        // SAFETY: `range` of every buffer is ours alone, and `sum` lies in `space`.
        unsafe { raw::range_mut(buffer(me), &block) }.copy_from_slice(sum);
    }
}

/// Copies every other member's chunk out of its buffer into that of `me`.
///
/// Each takes in, instead of handing out: a cache line then crosses once, to where it will be read, and not twice.
///
/// # Safety
/// `buffer(0..members)` are distinct buffers, valid and aligned for all chunks; nobody writes to chunk `m` of buffer `m`, and nobody else
/// touches the other chunks of buffer `me` meanwhile.
pub(crate) unsafe fn all_gather<T: Element>(
    members: usize,
    me: usize,
    buffer: impl Fn(usize) -> *mut T,
    chunk: impl Fn(usize) -> Range<usize>,
) {
    for m in (0..members).filter(|&m| m != me) {
        let range = chunk(m);
        // SAFETY: distinct buffers; the source is only read, and the target is ours alone.
        unsafe { raw::range_mut(buffer(me), &range).copy_from_slice(raw::range(buffer(m), &range)) };
    }
}

fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK).map(move |at| at..end.min(at + BLOCK))
}

/// The sum over one block, in `space`.
///
/// # Safety
/// As for [`all_reduce`].
unsafe fn sum_of<'a, T: Element>(
    members: usize,
    buffer: &impl Fn(usize) -> *mut T,
    block: &Range<usize>,
    space: &'a mut [T; BLOCK],
) -> &'a [T] {
    let sum = &mut space[..block.len()];
    // SAFETY: valid, and nobody else touches `block`.
    sum.copy_from_slice(unsafe { raw::range(buffer(0), block) });
    for m in 1..members {
        // SAFETY: as above.
        vector::add(sum, unsafe { raw::range(buffer(m), block) });
    }
    sum
}

/// The two loops, compiled for each vector width and chosen at run time.
pub(crate) mod vector {
    use super::Element;

    #[inline(always)]
    fn add_body<T: Element>(sum: &mut [T], x: &[T]) {
        for (s, &x) in sum.iter_mut().zip(x) {
            *s = *s + x;
        }
    }

    #[inline(always)]
    fn both_body<T: Element>(a: &mut [T], b: &mut [T]) {
        for (a, b) in a.iter_mut().zip(b) {
            let sum = *a + *b;
            *a = sum;
            *b = sum;
        }
    }

    macro_rules! widths {
        ($name:ident, $body:ident, $wide:ident, $wider:ident, $second:ty, $doc:literal) => {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn $wide<T: Element>(a: &mut [T], b: $second) {
                $body(a, b);
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn $wider<T: Element>(a: &mut [T], b: $second) {
                $body(a, b);
            }

            #[doc = $doc]
            pub(crate) fn $name<T: Element>(a: &mut [T], b: $second) {
                #[cfg(target_arch = "x86_64")]
                {
                    if a.len() >= 16 && is_x86_feature_detected!("avx512f") {
                        // SAFETY: the processor has it.
                        return unsafe { $wider(a, b) };
                    }
                    if a.len() >= 16 && is_x86_feature_detected!("avx2") {
                        // SAFETY: the processor has it.
                        return unsafe { $wide(a, b) };
                    }
                }
                $body(a, b);
            }
        };
    }

    widths!(add, add_body, add_avx2, add_avx512, &[T], "`a += b`.");
    widths!(both, both_body, both_avx2, both_avx512, &mut [T], "`a + b` into both.");

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Values whose sum depends on rounding, with signed zeros and infinities among them.
        fn numbers(n: usize, salt: u32) -> Vec<f32> {
            let mut x = salt;
            (0..n)
                .map(|i| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    match i % 97 {
                        5 => -0.0,
                        11 => f32::MIN_POSITIVE / 4.0,
                        _ => (x as f32 / 7.0e7).exp2() * if x & 1 == 0 { 1.0 } else { -1.0 },
                    }
                })
                .collect()
        }

        #[test]
        fn every_width_gives_the_portable_bits() {
            for n in [0, 1, 15, 16, 17, 63, 1024, 1031] {
                let (a, b) = (numbers(n, 1), numbers(n, 2));
                let mut plain = a.clone();
                add_body(&mut plain, &b);
                let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();

                let mut fast = a.clone();
                add(&mut fast, &b);
                assert_eq!(bits(&fast), bits(&plain));
                let (mut left, mut right) = (a.clone(), b.clone());
                both(&mut left, &mut right);
                assert_eq!((bits(&left), bits(&right)), (bits(&plain), bits(&plain)));
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") {
                    let mut fast = a.clone();
                    // SAFETY: the processor has it.
                    unsafe { add_avx2(&mut fast, &b) };
                    assert_eq!(bits(&fast), bits(&plain));
                }
            }
        }
    }
}
