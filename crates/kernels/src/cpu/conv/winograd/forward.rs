//! The forward pass, and the data gradient, which is the same with the kernel turned round.

use super::finish::Finish;
use super::transform::Tile;
use super::zeros::Zeros;
use super::{Block, MOST_TILES, Shape};
use crate::cpu::conv::epilogue::Epilogue;
use crate::cpu::conv::scheme::Scheme;
use crate::cpu::conv::source::{Content, Source};
use crate::cpu::conv::tile::{NO_OFFSET, Product, Start, most_vectors, product};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use std::marker::PhantomData;

/// Some tiles of a convolution.
#[derive(Clone, Copy)]
pub(in crate::cpu::conv) struct Forward<C> {
    pub shape: Shape,
    pub source: Source,
    pub u: *const f32,
    pub epilogue: Epilogue,
    /// Whether pixels that read only zeros must be exactly zero before their bias: what is behind them may ask for the sign.
    pub zeros: bool,
    /// Tiles of a block, at most [`MOST_TILES`].
    pub block: usize,
    /// Tiles to do.
    pub tiles: (usize, usize),
    /// [`block_len`](super::block_len) elements.
    pub scratch: *mut f32,
    pub scheme: PhantomData<C>,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl<C: Scheme> Arguments for Forward<C> {}

impl<C: Scheme> Body for Forward<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (channels, outputs) = (self.shape.input.channels, self.shape.output.channels);
        let places = C::PATCH * C::PATCH;
        let Block { first: v, second: m, patch } =
            Block::new::<C>(self.block, channels, outputs, S::LANES, self.scratch);
        let zeros = match self.source.content {
            Content::Plain(image) if self.zeros => Some(Zeros::new::<C>(image, &self.shape)),
            _ => None,
        };
        let mut silent = [0u16; MOST_TILES];
        for (first, count) in Pieces::new(self.tiles.0, self.tiles.1, self.block) {
            // SAFETY: scratch has room for a block; tiles and images are within the problem.
            unsafe {
                for (t, silent) in silent[..count].iter_mut().enumerate() {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    let rectangle = self.shape.patch::<C>(sample, row, column);
                    let (source, to) = (&self.source, v.at.add(t * v.wide));
                    Tile::<false> { source, rectangle, patch, to, place: v.place }.transform::<S, C>(s);
                    if let Some(zeros) = &zeros {
                        *silent = zeros.of_tile::<S, C>(s, sample, row, column);
                    }
                }
                for place in 0..places {
                    for (panel, vectors) in Pieces::new(0, m.wide / S::LANES, most_vectors(S::LANES)) {
                        let columns = vectors * S::LANES;
                        let p = Product {
                            a: v.at.add(place * v.place),
                            a_row: v.wide,
                            a_term: 1,
                            offsets: NO_OFFSET.as_ptr(),
                            runs: 1,
                            terms: channels,
                            b: self.u.add((place * m.wide + panel * S::LANES) * channels),
                            b_run: 0,
                            b_term: columns,
                            c: m.at.add(place * m.place + panel * S::LANES),
                            c_row: m.wide,
                            start: Start::Zero,
                            relu: false,
                        };
                        product(s, count, columns, &p);
                    }
                }
                for (t, &silent) in silent[..count].iter().enumerate() {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    s.apart(Finish::<C> {
                        m: m.at.add(t * m.wide),
                        place: m.place,
                        sample,
                        row,
                        column,
                        output: self.shape.output,
                        epilogue: &self.epilogue,
                        silent,
                        scheme: PhantomData,
                    });
                }
            }
        }
    }
}
