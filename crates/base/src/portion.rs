//! The rows of every batch that one process reads.
//!
//! Batches are cut into rows and rows are spread over ranks; a process holds some of the ranks. What it reads repeats from batch to batch of
//! one size, so that "how many of the positions before this one are mine" and "where is the n-th of mine" have closed forms: only changes of
//! the batch are listed, whatever the length of a run.

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
    /// The first passes; all further ones are as the last.
    passes: Vec<Pass>,
    /// Whether it reads everything.
    whole: bool,
}

/// What it reads of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pass {
    /// Rows that it reads in the passes before.
    before: u64,
    rows: u64,
    /// From place 0 to the end.
    stretches: Vec<Stretch>,
}

/// Batches of one size that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    /// Place of the first in the pass.
    start: u64,
    /// Rows that it reads in the stretches before.
    before: u64,
    batch: u64,
    rows: Vec<Range<u64>>,
    per_batch: u64,
}

/// Batches of one size that follow each other, as one process reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EqualBatches {
    /// Samples of each.
    batch: usize,
    /// How many follow each other.
    count: usize,
    /// Rows of each that it reads; ranges may overlap and be empty.
    rows: Vec<Range<usize>>,
}

impl EqualBatches {
    /// So many batches of so many samples, of which it reads these rows.
    pub fn new(batch: usize, count: usize, rows: impl IntoIterator<Item = Range<usize>>) -> Self {
        Self { batch, count, rows: rows.into_iter().collect() }
    }
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
        let batch = batch.max(1);
        let full = (pass / batch > 0).then(|| EqualBatches::new(batch, pass / batch, full));
        let last = (!pass.is_multiple_of(batch)).then(|| EqualBatches::new(pass % batch, 1, last));
        Self::of_batches(pass, [full.into_iter().chain(last).collect()])
    }

    /// Passes whose batches change: of each pass its batches, in order. All passes behind the last that is given are as that one.
    ///
    /// ```
    /// use paceline_base::portion::{EqualBatches, Portion};
    /// // Passes of 7 samples. Of the first, the halves of a batch of 2 and of one of 5; of all others, everything.
    /// let first = vec![EqualBatches::new(2, 1, [0..1]), EqualBatches::new(5, 1, [0..3])];
    /// let mine = Portion::of_batches(7, [first, vec![EqualBatches::new(1, 7, [0..1])]]);
    /// assert_eq!((0..6).map(|n| mine.at(n)).collect::<Vec<_>>(), [0, 2, 3, 4, 7, 8]);
    /// ```
    ///
    /// # Panics
    /// If the batches of a pass are not as many samples as it has, or there is no pass.
    pub fn of_batches(pass: usize, passes: impl IntoIterator<Item = Vec<EqualBatches>>) -> Self {
        let mut before = 0;
        let passes = passes.into_iter().map(|batches| {
            let (mut start, mut rows, mut stretches) = (0, 0, Vec::new());
            for EqualBatches { batch, count, rows: read } in batches {
                let batch = batch as u64;
                let read = joined(read, batch);
                let per_batch = read.iter().map(|r| r.end - r.start).sum::<u64>();
                stretches.push(Stretch { start, before: rows, batch, rows: read, per_batch });
                start += batch * count as u64;
                rows += per_batch * count as u64;
            }
            assert_eq!(start, pass as u64, "the batches of a pass are all of its samples");
            before += rows;
            Pass { before: before - rows, rows, stretches }
        });
        let passes: Vec<Pass> = passes.collect();
        let whole = passes.iter().all(|p| p.rows == pass as u64);
        assert!(!passes.is_empty(), "a portion of no pass");
        Self { pass: pass as u64, passes, whole }
    }

    /// Samples of a pass, read by all processes together.
    pub fn pass(&self) -> u64 {
        self.pass
    }

    /// Rows of the batch of which it reads most.
    pub fn per_batch(&self) -> u64 {
        self.passes.iter().flat_map(|p| &p.stretches).map(|s| s.per_batch).max().unwrap_or(0)
    }

    /// Rows of a pass; if they differ, of the last one that was given.
    pub fn per_pass(&self) -> u64 {
        self.passes.last().map_or(0, |p| p.rows)
    }

    /// How many of the positions before this one it reads.
    pub fn before(&self, position: u64) -> u64 {
        if self.whole {
            return position;
        }
        let (pass, place) = (position / self.pass, position % self.pass);
        let known = (pass as usize).min(self.passes.len() - 1);
        let Pass { before, rows, stretches } = &self.passes[known];
        let before = before + (pass - known as u64) * rows;
        let Some(stretch) = stretches[..stretches.partition_point(|s| s.start <= place)].last() else { return before };
        let (batches, row) = ((place - stretch.start) / stretch.batch, (place - stretch.start) % stretch.batch);
        let rows: u64 = stretch.rows.iter().map(|r| row.clamp(r.start, r.end) - r.start).sum();
        before + stretch.before + batches * stretch.per_batch + rows
    }

    /// The `n`-th position that it reads, from 0.
    ///
    /// # Panics
    /// If it reads none.
    pub fn at(&self, n: u64) -> u64 {
        if self.whole {
            return n;
        }
        let last = self.passes.len() - 1;
        // Of passes that begin at the same number, it reads nothing of all but the last.
        let known = self.passes.partition_point(|p| p.before <= n) - 1;
        let Pass { before, rows, stretches } = &self.passes[known];
        let further = if known == last { (n - before) / rows } else { 0 };
        let mut row = n - before - further * rows;
        let stretch = &stretches[stretches.partition_point(|s| s.before <= row) - 1];
        row -= stretch.before;
        let (batches, mut row) = (row / stretch.per_batch, row % stretch.per_batch);
        let mut place = 0;
        for range in &stretch.rows {
            let len = range.end - range.start;
            if row < len {
                place = range.start + row;
                break;
            }
            row -= len;
        }
        (known as u64 + further) * self.pass + stretch.start + batches * stretch.batch + place
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

    proptest! {
        #[test]
        fn changing_batches_equal_counting(
            passes in prop::collection::vec(prop::collection::vec((1usize..6, 1usize..4, 0usize..6, 0usize..5), 1..5), 1..4),
        ) {
            // All passes as long as the longest, filled up with single samples of which every second is read.
            let len = |batches: &Vec<(usize, usize, usize, usize)>| batches.iter().map(|b| b.0 * b.1).sum::<usize>();
            let pass = passes.iter().map(len).max().unwrap_or(0);
            let made: Vec<Vec<EqualBatches>> = passes
                .iter()
                .map(|batches| {
                    let given = batches.iter().map(|&(size, count, a, n)| EqualBatches::new(size, count, std::iter::once(a..a + n)));
                    let rest = (len(batches) < pass).then(|| EqualBatches::new(1, pass - len(batches), std::iter::once(0..pass % 2)));
                    given.chain(rest).collect()
                })
                .collect();
            let portion = Portion::of_batches(pass, made.clone());
            let mut n = 0;
            let mut position = 0;
            for number in 0..made.len() + 2 {
                for EqualBatches { batch: size, count, rows } in &made[number.min(made.len() - 1)] {
                    for row in (0..*count).flat_map(|_| 0..*size) {
                        prop_assert_eq!(portion.before(position), n);
                        if rows.iter().any(|r| r.contains(&row)) {
                            prop_assert_eq!(portion.at(n), position);
                            n += 1;
                        }
                        position += 1;
                    }
                }
            }
        }
    }

    #[test]
    fn everything_is_a_portion_too() {
        let all = Portion::all(7);
        assert_eq!((all.at(23), all.before(23), all.per_pass()), (23, 23, 7));
    }
}
