//! Embeddings: sums over rows of a table that lists of indices name, and their gradient.
//!
//! Every element of a result is one sum, in the order of lists and of the indices in them, whichever thread computes it.

use super::Cpu;
use super::isa::Body;
use super::simd::{Simd, vectors};
use super::submit::{Arguments, Shared};
use crate::lists::{Index, Lists, share};
use paceline_base::Result;
use paceline_base::kernel::{BufferId, EmbeddingDims};
use paceline_base::sample::IndexWidth;

/// Some rows of `y`.
#[derive(Clone, Copy)]
struct Gather<'a, I> {
    lists: Lists<'a, I>,
    dims: EmbeddingDims,
    table: *const f32,
    y: *mut f32,
    rows: (usize, usize),
}

// SAFETY: numbers, pointers into device memory, and references to numbers.
unsafe impl<I: Index> Arguments for Gather<'_, I> {}

impl<I: Index> Body for Gather<'_, I> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let EmbeddingDims { first, table_rows, columns, mean, .. } = self.dims;
        // SAFETY: the caller vouches for the buffers; only rows of the part's own table are read.
        unsafe {
            for row in self.rows.0..self.rows.1 {
                let list = self.lists.list(row);
                let y = self.y.add(row * columns);
                let factor = s.splat(share(mean, list.len()) as f32);
                vectors!(s, S, columns, |i, n, mask| {
                    let mut sum = s.zero();
                    for index in list {
                        let at = index.place().wrapping_sub(first);
                        if at < table_rows {
                            sum = s.add(sum, s.take(self.table.add(at * columns + i), mask));
                        }
                    }
                    s.put(y.add(i), mask, s.mul(sum, factor));
                });
            }
        }
    }
}

/// The rows of `dw` whose number, divided by `threads`, leaves `thread`: popular rows are then spread over the threads.
#[derive(Clone, Copy)]
struct Scatter<'a, I> {
    lists: Lists<'a, I>,
    dims: EmbeddingDims,
    dy: *const f32,
    table: *mut f32,
    thread: usize,
    threads: usize,
}

// SAFETY: numbers, pointers into device memory, and references to numbers.
unsafe impl<I: Index> Arguments for Scatter<'_, I> {}

impl<I: Index> Body for Scatter<'_, I> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let EmbeddingDims { first, table_rows, columns, mean, rows, .. } = self.dims;
        // SAFETY: the caller vouches for the buffers; only rows of the part's own table, and of this thread, are written.
        unsafe {
            let mut mine = self.thread;
            while mine < table_rows {
                std::ptr::write_bytes(self.table.add(mine * columns), 0, columns);
                mine += self.threads;
            }
            for row in 0..rows {
                let list = self.lists.list(row);
                let dy = self.dy.add(row * columns);
                let factor = s.splat(share(mean, list.len()) as f32);
                for index in list {
                    let at = index.place().wrapping_sub(first);
                    if at >= table_rows || at % self.threads != self.thread {
                        continue;
                    }
                    let to = self.table.add(at * columns);
                    vectors!(s, S, columns, |i, n, mask| {
                        let sum = s.add(s.take(to.add(i), mask), s.mul(s.take(dy.add(i), mask), factor));
                        s.put(to.add(i), mask, sum);
                    });
                }
            }
        }
    }
}

impl Cpu {
    pub(super) fn embedding_forward(&mut self, dims: &EmbeddingDims, a: &[BufferId]) -> Result<()> {
        match dims.width {
            IndexWidth::Bits32 => self.gather::<u32>(dims, a),
            IndexWidth::Bits64 => self.gather::<u64>(dims, a),
        }
    }

    pub(super) fn embedding_backward(&mut self, dims: &EmbeddingDims, a: &[BufferId]) -> Result<()> {
        match dims.width {
            IndexWidth::Bits32 => self.scatter::<u32>(dims, a),
            IndexWidth::Bits64 => self.scatter::<u64>(dims, a),
        }
    }

    /// The lists in a buffer.
    fn lists<'a, I: Index>(&self, buffer: BufferId, dims: &EmbeddingDims) -> Result<Lists<'a, I>> {
        let len = self.lengths[buffer.0 as usize].min(dims.lists_len());
        // SAFETY: so many elements of this type, which the contract has checked, lie within the memory. No kernel writes them while the one
        // that asked runs, which is the only one that keeps the result.
        Lists::new(unsafe { std::slice::from_raw_parts(self.at(buffer).cast::<I>(), len) }, dims)
    }

    fn gather<I: Index>(&mut self, dims: &EmbeddingDims, a: &[BufferId]) -> Result<()> {
        let lists = self.lists::<I>(a[0], dims)?;
        let whole = Shared(Gather { lists, dims: *dims, table: self.at(a[1]), y: self.at(a[2]), rows: (0, 0) });
        let (worth, isa) = (lists.entries() * dims.columns >= self.tuning.parallel_elements, self.isa);
        self.divide(worth, dims.rows, |_, first, end| {
            // SAFETY: the contract was checked; parts have their own rows.
            unsafe { isa.run(Gather { rows: (first, end), ..whole.get() }) }
        });
        Ok(())
    }

    fn scatter<I: Index>(&mut self, dims: &EmbeddingDims, a: &[BufferId]) -> Result<()> {
        let lists = self.lists::<I>(a[1], dims)?;
        let work = (lists.entries() + dims.table_rows) * dims.columns;
        let worth = work >= self.tuning.parallel_elements;
        let threads = if worth { self.pool.threads() } else { 1 };
        let whole = Shared(Scatter { lists, dims: *dims, dy: self.at(a[0]), table: self.at(a[2]), thread: 0, threads });
        let isa = self.isa;
        self.divide(worth, threads, |_, first, end| {
            for thread in first..end {
                // SAFETY: the contract was checked; each thread has rows of its own.
                unsafe { isa.run(Scatter { thread, ..whole.get() }) }
            }
        });
        Ok(())
    }
}
