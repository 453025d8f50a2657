//! The rows of every batch that one process reads.
//!
//! Batches are cut into rows and rows are spread over ranks; a process holds some of the ranks. What it reads repeats from
//! batch to batch, but for the last partial one of a pass, so that "how many of the positions before this one are mine" and
//! "where is the n-th of mine" have closed forms: nothing is listed, whatever the length of a run.

use std::ops::Range;

/// The rows of every batch that one process reads. A *position* counts samples over all passes; a pass is an epoch of
/// training or one evaluation.
///
/// ```
/// use paceline_base::portion::Portion;
/// // Passes of 10 samples in batches of 4; this process reads rows 2 and 3 of a full batch, row 1 of the last one.
/// let mine = Portion::new(10, 4, [2..4], [1..2]);
/// assert_eq!((0..5).map(|n| mine.at(n)).collect::<Vec<_>>(), [2, 3, 6, 7, 9]);
/// assert_eq!((mine.at(5), mine.before(12)), (12, 5), "the second pass begins at position 10");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    pass: u64,
    batch: u64,
    full: Vec<Range<u64>>,
    last: Vec<Range<u64>>,
    per_batch: u64,
    per_pass: u64,
}

impl Portion {
    /// All rows of passes of so many samples.
    pub fn all(pass: usize) -> Self {
        Self::new(pass, pass, std::iter::once(0..pass), [])
    }

    /// These rows of a full batch and of the last partial one; ranges may overlap and be empty.
    pub fn new(
        pass: usize,
        batch: usize,
        full: impl IntoIterator<Item = Range<usize>>,
        last: impl IntoIterator<Item = Range<usize>>,
    ) -> Self {
        let (pass, batch) = (pass as u64, batch.max(1) as u64);
        let (full, last) = (joined(full, batch), joined(last, pass % batch));
        let count = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        let per_batch = count(&full);
        let per_pass = pass / batch * per_batch + count(&last);
        Self { pass, batch, full, last, per_batch, per_pass }
    }

    /// Samples of a pass, read by all processes together.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// Rows of a full batch.
    pub fn per_batch(&self) -> u64 {
        self.per_batch
    }

    /// Rows of a pass.
    pub fn per_pass(&self) -> u64 {
        self.per_pass
    }

    /// How many of the positions before this one it reads.
    pub fn before(&self, position: u64) -> u64 {
        if self.per_pass == self.pass {
            return position;
        }
        let (passes, rest) = (position / self.pass, position % self.pass);
        let (batches, row) = (rest / self.batch, rest % self.batch);
        let ranges = if batches < self.pass / self.batch { &self.full } else { &self.last };
        let rows: u64 = ranges.iter().map(|r| row.clamp(r.start, r.end) - r.start).sum();
        passes * self.per_pass + batches * self.per_batch + rows
    }

    /// The `n`-th position that it reads, from 0.
    ///
    /// # Panics
    /// If it reads none.
    pub fn at(&self, n: u64) -> u64 {
        if self.per_pass == self.pass {
            return n;
        }
        let (passes, rest) = (n / self.per_pass, n % self.per_pass);
        let whole = self.pass / self.batch * self.per_batch;
        let (batches, mut row, ranges) = if rest < whole {
            (rest / self.per_batch, rest % self.per_batch, &self.full)
        } else {
            (self.pass / self.batch, rest - whole, &self.last)
        };
        let mut place = 0;
        for range in ranges {
            let len = range.end - range.start;
            if row < len {
                place = range.start + row;
                break;
            }
            row -= len;
        }
        passes * self.pass + batches * self.batch + place
    }
}

/// Ascending and apart, within `0..end`.
fn joined(ranges: impl IntoIterator<Item = Range<usize>>, end: u64) -> Vec<Range<u64>> {
    let clipped = ranges.into_iter().map(|r| (r.start as u64).min(end)..(r.end as u64).min(end));
    let mut sorted: Vec<_> = clipped.filter(|r| r.start < r.end).collect();
    sorted.sort_by_key(|r| r.start);
    let mut apart: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match apart.last_mut() {
            Some(before) if range.start <= before.end => before.end = before.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn closed_forms_equal_counting(
            pass in 1usize..40,
            batch in 1usize..12,
            full in prop::collection::vec((0usize..12, 0usize..5), 0..4),
            last in prop::collection::vec((0usize..12, 0usize..5), 0..4),
        ) {
            let ranges = |list: &[(usize, usize)]| list.iter().map(|&(a, n)| a..a + n).collect::<Vec<_>>();
            let portion = Portion::new(pass, batch, ranges(&full), ranges(&last));
            let reads = |position: usize| {
                let at = position % pass;
                let partial = at / batch == pass / batch;
                ranges(if partial { &last } else { &full }).iter().any(|r| r.contains(&(at % batch)))
            };
            let mut n = 0;
            for position in 0..3 * pass {
                prop_assert_eq!(portion.before(position as u64), n);
                if reads(position) {
                    prop_assert_eq!(portion.at(n), position as u64);
                    n += 1;
                }
            }
            prop_assert_eq!(n, 3 * portion.per_pass());
        }
    }

    #[test]
    fn everything_is_a_portion_too() {
        let all = Portion::all(7);
        assert_eq!((all.at(23), all.before(23), all.per_pass()), (23, 23, 7));
    }
}
