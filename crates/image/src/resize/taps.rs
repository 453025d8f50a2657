//! The weights of the source pixels for every output pixel of a row or column.

/// Fraction bits of a weight.
pub(super) const WEIGHT_BITS: u32 = 14;

/// Taps are counted in fours; the last may have weight zero.
pub(super) const GROUP: usize = 4;

/// For each output pixel: the first source pixel, and weights that sum to one.
#[derive(Debug, Default)]
pub(super) struct Taps {
    starts: Vec<usize>,
    weights: Vec<i16>,
    /// The same for vectors: of each group, its first two weights four times, then its other two.
    spread: Vec<[i16; 4 * GROUP]>,
    /// Weights an output pixel has, those of zero at the end included: a multiple of [`GROUP`].
    count: usize,
    /// Beyond the last source pixel.
    end: usize,
    exact: Vec<f64>,
    made: Option<(f64, f64, usize, usize)>,
}

impl Taps {
    /// For bringing the part from `left`, `length` long, of `size` source pixels to `out` output pixels.
    pub(super) fn make(&mut self, left: f64, length: f64, size: usize, out: usize) {
        if self.made == Some((left, length, size, out)) {
            return;
        }
        self.made = Some((left, length, size, out));
        // The source pixels that the part touches.
        let low = (left.max(0.0).floor() as usize).min(size - 1);
        let high = ((left + length).ceil().max(0.0) as usize).clamp(low + 1, size);
        let step = length / out as f64;
        let widened = step.max(1.0);
        let support = 2.0 * widened;
        let most = (2.0 * support).ceil() as usize + 2;
        self.count = most.min(high - low).next_multiple_of(GROUP);
        self.starts.clear();
        self.weights.clear();
        self.end = low + 1;
        for i in 0..out {
            let centre = left + (i as f64 + 0.5) * step;
            let first = ((centre - support + 0.5).max(0.0) as usize).clamp(low, high - 1);
            let last = ((centre + support + 0.5).max(0.0) as usize).clamp(first + 1, high).min(first + self.count);
            self.exact.clear();
            self.exact.extend((first..last).map(|x| cubic((x as f64 + 0.5 - centre) / widened)));
            let sum: f64 = self.exact.iter().sum();
            self.starts.push(first);
            let at = self.weights.len();
            let one = f64::from(1 << WEIGHT_BITS);
            let usable = sum.abs() > 1e-9;
            self.weights.extend(
                self.exact.iter().enumerate().map(|(j, w)| {
                    if usable { (w / sum * one).round() as i16 } else { i16::from(j == 0) << WEIGHT_BITS }
                }),
            );
            // What rounding left over goes to the largest, so that an even colour stays what it is.
            let off = (1 << WEIGHT_BITS) - self.weights[at..].iter().map(|&w| i32::from(w)).sum::<i32>();
            if let Some(largest) = self.weights[at..].iter_mut().max_by_key(|w| **w) {
                *largest += off as i16;
            }
            self.weights.resize(at + self.count, 0);
            self.end = self.end.max(last);
        }
        self.spread.clear();
        self.spread.extend(
            self.weights
                .as_chunks::<GROUP>()
                .0
                .iter()
                .map(|w| std::array::from_fn(|i| if i < 2 * GROUP { w[i % 2] } else { w[2 + i % 2] })),
        );
    }

    /// Every output pixel is one source pixel: the weights are one and zeros.
    pub(super) fn copies(&self) -> bool {
        self.made.is_some_and(|(left, length, _, out)| length == out as f64 && left == left.trunc())
    }

    /// First source pixel of each output pixel.
    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// Of all output pixels, their groups of weights spread over vectors, and how many groups a pixel has.
    pub(super) fn spread(&self) -> (&[[i16; 4 * GROUP]], usize) {
        (&self.spread, self.count / GROUP)
    }

    /// The first source pixel that any output pixel looks at.
    pub(super) fn first(&self) -> usize {
        self.starts[0]
    }

    /// Beyond the last.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// Weights of each output pixel, those of zero included: how far vectors may read.
    pub(super) fn reach(&self) -> usize {
        self.count
    }

    /// First source pixel and weights of an output pixel, without those of zero at the end.
    pub(super) fn of(&self, i: usize) -> (usize, &[i16]) {
        let weights = &self.weights[i * self.count..(i + 1) * self.count];
        let count = (self.end - self.starts[i]).min(self.count);
        (self.starts[i], &weights[..count])
    }

    /// First source pixel, and weights in groups, of each output pixel.
    pub(super) fn groups(&self) -> impl Iterator<Item = (usize, &[[i16; GROUP]])> {
        self.starts
            .iter()
            .zip(self.weights.chunks_exact(self.count))
            .map(|(&start, w)| (start, w.as_chunks::<GROUP>().0))
    }
}

/// Catmull and Rom's cubic.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * A
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_one_and_stay_within_the_part() {
        for (left, length, size, out) in
            [(0.0, 10.0, 10, 5), (2.5, 5.25, 9, 7), (0.0, 3.0, 3, 50), (1.0, 700.0, 701, 3)]
        {
            let mut taps = Taps::default();
            taps.make(left, length, size, out);
            for i in 0..out {
                let (first, weights) = taps.of(i);
                assert_eq!(weights.iter().map(|&w| i32::from(w)).sum::<i32>(), 1 << WEIGHT_BITS);
                let used = weights.iter().rposition(|&w| w != 0).unwrap();
                assert!(first >= left as usize && ((first + used) as f64) < left + length);
            }
        }
    }

    #[test]
    fn nonsense_windows_give_something() {
        for (left, length) in [(f64::NAN, 1.0), (0.0, f64::NAN), (-5.0, 2.0), (100.0, 5.0), (0.0, 0.0), (3.0, -1.0)] {
            let mut taps = Taps::default();
            taps.make(left, length, 10, 4);
            for i in 0..4 {
                assert!(taps.of(i).0 < 10);
            }
            assert!(taps.end() <= 10);
        }
    }
}
