//! Keeping the largest: sorted, the obvious way.

use super::Reference;
use paceline_base::kernel::BufferId;

impl Reference {
    pub(super) fn sparsify(&mut self, len: usize, keep: usize, a: &[BufferId]) {
        let (x, left) = (self.input(a[0], len), self.input(a[1], len));
        let sum: Vec<f64> = x.iter().zip(&left).map(|(x, left)| x + left).collect();
        let mut places: Vec<usize> = (0..len).collect();
        places.sort_by_key(|&i| std::cmp::Reverse((sum[i] as f32).abs().to_bits() >> 16)); // stable: the first of equals
        let (mut kept, mut rest) = (vec![0.0; len], sum.clone());
        for &i in &places[..keep] {
            (kept[i], rest[i]) = (sum[i], 0.0);
        }
        self.output(a[0], &kept);
        self.output(a[1], &rest);
    }
}
