//! Embeddings, by their definition.

use super::Reference;
use crate::lists::{Index, Lists, share};
use bytemuck::Pod;
use paceline_base::Result;
use paceline_base::kernel::{BufferId, EmbeddingDims};
use paceline_base::sample::IndexWidth;

impl Reference {
    pub(super) fn embedding_forward(&mut self, dims: &EmbeddingDims, args: &[BufferId]) -> Result<()> {
        let w = self.input(args[1], dims.table_rows * dims.columns);
        let mut y = vec![0.0; dims.rows * dims.columns];
        self.each_entry(args[0], dims, |row, at, factor| {
            for c in 0..dims.columns {
                y[row * dims.columns + c] += w[at * dims.columns + c] * factor;
            }
        })?;
        self.output(args[2], &y);
        Ok(())
    }

    pub(super) fn embedding_backward(&mut self, dims: &EmbeddingDims, args: &[BufferId]) -> Result<()> {
        let dy = self.input(args[0], dims.rows * dims.columns);
        let mut dw = vec![0.0; dims.table_rows * dims.columns];
        self.each_entry(args[1], dims, |row, at, factor| {
            for c in 0..dims.columns {
                dw[at * dims.columns + c] += dy[row * dims.columns + c] * factor;
            }
        })?;
        self.output(args[2], &dw);
        Ok(())
    }

    /// Calls `each` with list, row of the part's table, and factor, for every index in the part's table.
    fn each_entry(&self, lists: BufferId, dims: &EmbeddingDims, each: impl FnMut(usize, usize, f64)) -> Result<()> {
        match dims.width {
            IndexWidth::Bits32 => self.each_entry_of::<u32>(lists, dims, each),
            IndexWidth::Bits64 => self.each_entry_of::<u64>(lists, dims, each),
        }
    }

    fn each_entry_of<I: Index + Pod>(
        &self,
        lists: BufferId,
        dims: &EmbeddingDims,
        mut each: impl FnMut(usize, usize, f64),
    ) -> Result<()> {
        let lists = Lists::new(self.typed::<I>(lists), dims)?;
        for row in 0..dims.rows {
            let list = lists.list(row);
            for index in list {
                if let Some(at) = index.place().checked_sub(dims.first).filter(|at| *at < dims.table_rows) {
                    each(row, at, share(dims.mean, list.len()));
                }
            }
        }
        Ok(())
    }
}
