//! From places back to pixels, with bias, activation and maximum on the way out.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use crate::cpu::conv::epilogue::{Epilogue, maximum};
use crate::cpu::conv::scheme::{Scheme, WIDEST};
use crate::cpu::conv::source::Image;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use paceline_base::window::PoolDims;
use std::marker::PhantomData;

/// Turns one tile of sums back into pixels.
pub(super) struct Finish<'a, C> {
    pub m: *const f32,
    pub place: usize,
    pub sample: usize,
    pub row: usize,
    pub column: usize,
    pub output: Image,
    pub epilogue: &'a Epilogue,
    /// Pixels that read only zeros (bit `row · TILE + column`).
    pub silent: u16,
    pub scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Finish<'_, C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let Image { height, width, channels } = self.output;
        let rows = (height - self.row).min(C::TILE);
        let columns = (width - self.column).min(C::TILE);
        let mut c = 0;
        while c < channels {
            let lanes = (channels - c).min(S::LANES);
            let mask = s.head(lanes);
            let mut half = [[s.zero(); WIDEST]; WIDEST];
            // SAFETY: the block holds whole vectors at every place; pixels are checked against the image; the tail is masked.
            unsafe {
                for j in 0..C::PATCH {
                    let mut column = [s.zero(); WIDEST];
                    for i in 0..C::PATCH {
                        column[i] = s.load(self.m.add((i * C::PATCH + j) * self.place + c));
                    }
                    let column = C::output(s, column);
                    for i in 0..C::TILE {
                        half[i][j] = column[i];
                    }
                }
                let bias =
                    if self.epilogue.bias.is_null() { s.zero() } else { s.load_head(self.epilogue.bias.add(c), mask) };
                let mut pixels = [[s.zero(); WIDEST]; WIDEST];
                for i in 0..C::TILE {
                    let row = C::output(s, half[i]);
                    for j in 0..C::TILE {
                        pixels[i][j] = s.add(row[j], bias);
                    }
                }
                if self.silent != 0 {
                    for i in 0..C::TILE {
                        for j in 0..C::TILE {
                            if self.silent >> (i * C::TILE + j) & 1 != 0 {
                                pixels[i][j] = bias;
                            }
                        }
                    }
                }
                if let Some((pool, codes)) = &self.epilogue.pool {
                    self.pool(s, &pixels, pool, *codes, c, lanes);
                } else {
                    for i in 0..rows {
                        for j in 0..columns {
                            let at = ((self.sample * height + self.row + i) * width + self.column + j) * channels + c;
                            let mut value = pixels[i][j];
                            if self.epilogue.relu {
                                value = s.max(s.zero(), value);
                            }
                            if !self.epilogue.saved.is_null() {
                                let saved = s.load_head(self.epilogue.saved.add(at), mask);
                                value = s.select(s.le(saved, s.zero()), s.zero(), value);
                            }
                            let to = self.epilogue.y.add(at);
                            if lanes == S::LANES {
                                s.store(to, value);
                            } else {
                                s.store_head(to, mask, value);
                            }
                        }
                    }
                }
            }
            c += S::LANES;
        }
    }
}

impl<C: Scheme> Finish<'_, C> {
    /// # Safety
    /// As for `run`.
    #[inline(always)]
    unsafe fn pool<S: Simd>(
        &self,
        s: S,
        pixels: &[[S::V; WIDEST]; WIDEST],
        pool: &PoolDims,
        codes: *mut u8,
        c: usize,
        lanes: usize,
    ) {
        let mask = s.head(lanes);
        for i in 0..C::TILE / 2 {
            for j in 0..C::TILE / 2 {
                let (y, x) = (self.row / 2 + i, self.column / 2 + j);
                if y >= pool.out_height || x >= pool.out_width {
                    continue;
                }
                let at = ((self.sample * pool.out_height + y) * pool.out_width + x) * pool.channels + c;
                let four = [
                    pixels[2 * i][2 * j],
                    pixels[2 * i][2 * j + 1],
                    pixels[2 * i + 1][2 * j],
                    pixels[2 * i + 1][2 * j + 1],
                ];
                // SAFETY: within the pool's output.
                unsafe {
                    let (best, code) = maximum(s, four, self.epilogue.relu);
                    s.store_head(self.epilogue.y.add(at), mask, best);
                    if !codes.is_null() {
                        s.store_bytes(codes.add(at), lanes, code);
                    }
                }
            }
        }
    }
}
