//! From images to places: patches of an input, tiles of a gradient.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::conv::scheme::{Scheme, WIDEST};
use crate::cpu::conv::source::{Columns, Content, Quads, Rectangle, Source};
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use std::marker::PhantomData;

/// Transforms one patch of an input (Bᵀ d B), or one tile of a gradient (A y Aᵀ), for all channels.
struct Transform<C, L, const GRADIENT: bool> {
    columns: L,
    channels: usize,
    /// Where the first place of this tile goes, and how far places are apart.
    to: *mut f32,
    place: usize,
    scheme: PhantomData<C>,
}

impl<C: Scheme, L: Columns, const GRADIENT: bool> Body for Transform<C, L, GRADIENT> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let size = if GRADIENT { C::TILE } else { C::PATCH };
        let mut c = 0;
        while c < self.channels {
            let lanes = (self.channels - c).min(S::LANES);
            let mut half = [[s.zero(); WIDEST]; WIDEST];
            for j in 0..size {
                // SAFETY: the patch is readable for all channels.
                let column = unsafe { self.columns.column(s, size, j, c, lanes) };
                let column = if GRADIENT { C::spread(s, column) } else { C::input(s, column) };
                for i in 0..C::PATCH {
                    half[i][j] = column[i];
                }
            }
            for i in 0..C::PATCH {
                let row = if GRADIENT { C::spread(s, half[i]) } else { C::input(s, half[i]) };
                for j in 0..C::PATCH {
                    // SAFETY: the block has room for whole vectors at every place.
                    unsafe { s.store(self.to.add((i * C::PATCH + j) * self.place + c), row[j]) };
                }
            }
            c += S::LANES;
        }
    }
}

/// Takes a rectangle out of a source and transforms it.
pub(super) struct Tile<'a, const GRADIENT: bool> {
    pub source: &'a Source,
    pub rectangle: Rectangle,
    /// Room for the rectangle, if it has to be copied.
    pub patch: *mut f32,
    pub to: *mut f32,
    pub place: usize,
}

impl<const GRADIENT: bool> Tile<'_, GRADIENT> {
    /// # Safety
    /// The source must be readable, `patch` and `to` writable.
    #[inline(always)]
    pub(super) unsafe fn transform<S: Simd, C: Scheme>(&self, s: S) {
        let (channels, to, place) = (self.rectangle.channels.1, self.to, self.place);
        macro_rules! apart {
            ($columns:expr) => {
                s.apart(Transform::<C, _, GRADIENT> { columns: $columns, channels, to, place, scheme: PhantomData })
            };
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.source.content {
                // Gradients behind a maximum of 2×2 are spread while they are read.
                Content::Pooled { dy, codes, pool } if pool.window == [2, 2] && pool.stride == [2, 2] => {
                    let Rectangle { sample, top, left, channels, .. } = self.rectangle;
                    if top.rem_euclid(2) == 1 {
                        apart!(Quads::<true> { dy, codes, pool, sample, top, left, first: channels.0 });
                    } else {
                        apart!(Quads::<false> { dy, codes, pool, sample, top, left, first: channels.0 });
                    }
                }
                _ => apart!(self.source.cut(s, &self.rectangle, self.patch)),
            }
        }
    }
}
