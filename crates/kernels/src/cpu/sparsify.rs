//! Keeping the largest elements, and the rest for the next time: two passes and a histogram, no sorting.
//!
//! The histogram is over the first 16 bits of the magnitude (exponent and seven bits of the fraction), so that its 32,768
//! counts stay in the cache. Of those in the bin on the border the first are kept, so that exactly as many are kept as asked.

const BINS: usize = 1 << 15;

fn bin(value: f32) -> usize {
    (value.abs().to_bits() >> 16) as usize
}

/// `x + left` is divided: its `keep` largest stay in `x`, the others go to `left`; zeros take their places.
pub(super) fn sparsify(x: &mut [f32], left: &mut [f32], keep: usize) {
    let mut counts = [0u32; BINS];
    for (x, left) in x.iter_mut().zip(left.iter()) {
        *x += left;
        counts[bin(*x)] += 1;
    }
    let (mut border, mut above) = (BINS, 0);
    while border > 0 && above + counts[border - 1] as usize <= keep {
        border -= 1;
        above += counts[border] as usize;
    }
    // All bins from `border` on are kept whole; of the one below as many as there is room for.
    let mut room = keep - above;
    for (x, left) in x.iter_mut().zip(left) {
        let at = bin(*x);
        let last = at + 1 == border && room > 0;
        room -= usize::from(last);
        if at >= border || last {
            *left = 0.0;
        } else {
            (*left, *x) = (*x, 0.0);
        }
    }
}
