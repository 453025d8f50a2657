//! Cutting an extent into tiles of nearly equal size, so that no thin remainder is left over.

/// The pieces of `0..extent`, each at most `most` long and as equal as can be: 128 by 6 is 18 sixes and 4 fives, not 21 sixes and a two.
#[derive(Clone, Copy)]
pub(crate) struct Pieces {
    at: usize,
    end: usize,
    long: usize,
    size: usize,
}

impl Pieces {
    #[inline(always)]
    pub(crate) fn new(start: usize, end: usize, most: usize) -> Self {
        let extent = end - start;
        let count = extent.div_ceil(most).max(1);
        Self { at: start, end, long: extent % count, size: extent / count }
    }
}

impl Pieces {
    /// The pieces as at most two runs of equal ones: (start, length, count).
    #[inline(always)]
    pub(crate) fn runs(self) -> [(usize, usize, usize); 2] {
        let longer = self.long * (self.size + 1);
        let rest = self.end - self.at - longer;
        [(self.at, self.size + 1, self.long), (self.at + longer, self.size, rest.checked_div(self.size).unwrap_or(0))]
    }
}

impl Iterator for Pieces {
    type Item = (usize, usize);

    /// (start, length)
    #[inline(always)]
    fn next(&mut self) -> Option<(usize, usize)> {
        if self.at == self.end {
            return None;
        }
        let len = self.size + usize::from(self.long > 0);
        self.long = self.long.saturating_sub(1);
        let start = self.at;
        self.at += len;
        Some((start, len))
    }
}

#[cfg(test)]
mod tests {
    use super::Pieces;

    #[test]
    fn pieces_cover_and_are_even() {
        for extent in 0..200 {
            for most in 1..9 {
                let mut runs = Vec::new();
                for (start, len, count) in Pieces::new(5, 5 + extent, most).runs() {
                    runs.extend((0..count).map(|i| (start + i * len, len)));
                }
                assert_eq!(runs, Pieces::new(5, 5 + extent, most).collect::<Vec<_>>());
                let mut next = 5;
                for (start, len) in Pieces::new(5, 5 + extent, most) {
                    assert_eq!(start, next);
                    assert!(
                        0 < len && len <= most && len >= extent / extent.div_ceil(most),
                        "{extent} by {most}: {len}"
                    );
                    next += len;
                }
                assert_eq!(next, 5 + extent);
            }
        }
    }
}
