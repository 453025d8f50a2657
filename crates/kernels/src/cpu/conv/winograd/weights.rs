//! The weight gradient, still transformed: transformed patches with transformed gradients.

use super::transform::Tile;
use super::{Block, Shape, padded};
use crate::cpu::conv::scheme::Scheme;
use crate::cpu::conv::source::Source;
use crate::cpu::conv::tile::{NO_OFFSET, Product, Start, most_vectors, product};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use std::marker::PhantomData;

/// The weight gradient over some tiles, still transformed: `du[place][channel][output]`, and the sums of the gradient.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Weights<C> {
    /// Of the forward pass.
    pub shape: Shape,
    pub x: Source,
    pub dy: Source,
    /// The output channels to do: the first, which begins a vector, and how many.
    pub outputs: (usize, usize),
    /// [`weights_len`](super::weights_len) elements, for all outputs.
    pub du: *mut f32,
    /// As many whole vectors as all outputs need.
    pub db: *mut f32,
    pub block: usize,
    /// At least one.
    pub tiles: (usize, usize),
    /// [`block_len`](super::block_len) elements.
    pub scratch: *mut f32,
    pub scheme: PhantomData<C>,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<C: Scheme> Arguments for Weights<C> {}

impl<C: Scheme> Body for Weights<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (channels, (first_output, outputs)) = (self.shape.input.channels, self.outputs);
        let row = padded(self.shape.output.channels, S::LANES);
        let places = C::PATCH * C::PATCH;
        let Block { first: v, second: z, patch } =
            Block::new::<C>(self.block, channels, outputs, S::LANES, self.scratch);
        let mut start = Start::Zero;
        // SAFETY: scratch has room for a block, `du` and `db` for all outputs; tiles and images are within the problem.
        unsafe {
            let (du, db) = (self.du.add(first_output), self.db.add(first_output));
            std::ptr::write_bytes(db, 0, z.wide);
            for (first, count) in Pieces::new(self.tiles.0, self.tiles.1, self.block) {
                for t in 0..count {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    let mut rectangle = self.shape.patch::<C>(sample, row, column);
                    let (source, to) = (&self.x, v.at.add(t * v.wide));
                    Tile::<false> { source, rectangle, patch, to, place: v.place }.transform::<S, C>(s);
                    (rectangle.top, rectangle.left) = (row as isize, column as isize);
                    (rectangle.rows, rectangle.columns) = (C::TILE, C::TILE);
                    rectangle.channels = self.outputs;
                    let (source, to) = (&self.dy, z.at.add(t * z.wide));
                    Tile::<true> { source, rectangle, patch, to, place: z.place }.transform::<S, C>(s);
                }
                // The second row of A is all ones: the place (1, 1) holds the sum of a tile.
                let sums = z.at.add((C::PATCH + 1) * z.place);
                for o in (0..z.wide).step_by(S::LANES) {
                    let mut sum = s.load(db.add(o));
                    for t in 0..count {
                        sum = s.add(sum, s.load(sums.add(t * z.wide + o)));
                    }
                    s.store(db.add(o), sum);
                }
                for place in 0..places {
                    for (panel, vectors) in Pieces::new(0, z.wide / S::LANES, most_vectors(S::LANES)) {
                        let p = Product {
                            a: v.at.add(place * v.place),
                            a_row: 1,
                            a_term: v.wide,
                            offsets: NO_OFFSET.as_ptr(),
                            runs: 1,
                            terms: count,
                            b: z.at.add(place * z.place + panel * S::LANES),
                            b_run: 0,
                            b_term: z.wide,
                            c: du.add(place * channels * row + panel * S::LANES),
                            c_row: row,
                            start,
                            relu: false,
                        };
                        product(s, channels, vectors * S::LANES, &p);
                    }
                }
                start = Start::Add;
            }
        }
    }
}
