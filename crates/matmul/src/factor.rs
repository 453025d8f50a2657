//! Where the elements of a factor come from: a function of their coordinates, or a file. Any rank can make any block.

use crate::blocks::Blocks;
use crate::npy::Npy;
use paceline_base::random::{Stream, Use};
use paceline_base::{Error, Result};
use std::path::Path;

/// A factor of a product.
pub(crate) enum Factor {
    /// Uniform numbers in [−1, 1): functions of (seed, matrix, row, column) alone.
    Made {
        /// Decides all elements.
        seed: u64,
        /// 0 for A, 1 for B.
        matrix: u32,
    },
    /// Read from a file.
    Read(Npy),
}

impl Factor {
    /// A square matrix in a file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let npy = Npy::open(path)?;
        let (rows, columns) = npy.shape;
        if rows != columns {
            return Err(Error::user(format!(
                "{} is a matrix of {rows}×{columns}; only square ones are multiplied",
                path.display()
            )));
        }
        if rows == 0 {
            return Err(Error::user(format!("{} is a matrix without elements", path.display())));
        }
        Ok(Factor::Read(npy))
    }

    /// Rows and columns, if they are given.
    pub(crate) fn n(&self) -> Option<usize> {
        match self {
            Factor::Made { .. } => None,
            Factor::Read(npy) => Some(npy.shape.0),
        }
    }

    /// Makes or reads a block.
    pub(crate) fn fill(&self, blocks: &Blocks, (i, j): (usize, usize), out: &mut [f32]) -> Result<()> {
        let (row, column) = (blocks.start(i), blocks.start(j));
        let [rows, columns] = [i, j].map(|at| blocks.extent(at));
        match self {
            Factor::Read(npy) => npy.read((row, column), [rows, columns], out),
            Factor::Made { seed, matrix } => {
                for (r, out) in out.chunks_mut(columns).enumerate() {
                    let stream = Stream::new(*seed, Use::Matrix, *matrix, (row + r) as u64);
                    uniform(&stream, column, out);
                }
                Ok(())
            }
        }
    }
}

/// The numbers in [−1, 1) at `column` and what follows, with 24 bits.
fn uniform(stream: &Stream, column: usize, out: &mut [f32]) {
    let number = |bits: u32| (bits >> 8) as f32 * (2.0 / 16_777_216.0) - 1.0;
    let mut at = column;
    let head = (column.next_multiple_of(4) - column).min(out.len());
    let (first, rest) = out.split_at_mut(head);
    for out in first {
        *out = number(stream.bits(at as u64));
        at += 1;
    }
    for out in rest.chunks_mut(4) {
        let four = stream.block((at / 4) as u64);
        for (out, bits) in out.iter_mut().zip(four) {
            *out = number(bits);
        }
        at += 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_do_not_depend_on_the_blocks() {
        let factor = Factor::Made { seed: 7, matrix: 1 };
        let n = 13;
        let mut whole = vec![0.0; n * n];
        factor.fill(&Blocks { n, block: n }, (0, 0), &mut whole).unwrap();
        for block in 1..n {
            let blocks = Blocks { n, block };
            for (i, j) in (0..blocks.count()).flat_map(|i| (0..blocks.count()).map(move |j| (i, j))) {
                let mut part = vec![0.0; blocks.len((i, j))];
                factor.fill(&blocks, (i, j), &mut part).unwrap();
                for (at, value) in part.iter().enumerate() {
                    let (r, c) = (at / blocks.extent(j), at % blocks.extent(j));
                    assert_eq!(*value, whole[(blocks.start(i) + r) * n + blocks.start(j) + c]);
                }
            }
        }
        assert!(whole.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = whole.iter().sum::<f32>() / whole.len() as f32;
        assert!(mean.abs() < 0.2, "{mean}");
        assert!(whole.iter().any(|x| *x > 0.5) && whole.iter().any(|x| *x < -0.5));
    }
}
