//! Convolutions of stride 1 by Winograd's transforms, a block of tiles at a time: the transformed patches, their products and the
//! sums stay in the second-level cache, and only finished results go to memory.
//!
//! 1. Weights are transformed once per call ([`Pack`]): `u[place][panel][channel][output]`.
//! 2. Each thread takes blocks of tiles, from any sample ([`Forward`]): patches → `v[place][tile][channel]`, one product per place
//!    → `m[place][tile][output]`, then back to pixels with bias, activation and maximum on the way out.
//! 3. The data gradient is the same with the kernel turned round; the weight gradient ([`Weights`]) multiplies transformed
//!    patches with transformed gradients.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::scheme::{Scheme, WIDEST};
use super::source::{Columns, Content, Image, Quads, Rectangle, Source};
use super::tile::{NO_OFFSET, Product, Start, most_vectors, product};
use crate::cpu::dense::Pieces;
use crate::cpu::isa::Body;
use crate::cpu::simd::Simd;
use paceline_base::window::{DEAD, PoolDims};
use std::marker::PhantomData;

/// Elements between the ends and beginnings of places, so that they do not all fall into the same sets of a cache.
const STAGGER: usize = 16;

/// The sizes of a problem: images in, images out, and zeros before the first row and column (fewer than none if rows are left out).
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub samples: usize,
    pub input: Image,
    pub output: Image,
    pub pad: [isize; 2],
}

impl Shape {
    pub(super) fn tiles<C: Scheme>(&self) -> usize {
        self.samples * self.output.height.div_ceil(C::TILE) * self.output.width.div_ceil(C::TILE)
    }

    /// Sample, row and column of a tile's first pixel.
    #[inline(always)]
    fn place<C: Scheme>(&self, tile: usize) -> (usize, usize, usize) {
        let across = self.output.width.div_ceil(C::TILE);
        let down = self.output.height.div_ceil(C::TILE);
        (tile / (across * down), tile / across % down * C::TILE, tile % across * C::TILE)
    }
}

fn padded(channels: usize, lanes: usize) -> usize {
    channels.next_multiple_of(lanes)
}

/// Elements of the transformed weights.
pub(super) fn weights_len<C: Scheme>(terms: usize, outputs: usize, lanes: usize) -> usize {
    C::PATCH * C::PATCH * terms * padded(outputs, lanes)
}

/// Elements of scratch for a block of `tiles` tiles between images of so many channels.
pub(super) fn block_len<C: Scheme>(tiles: usize, channels: usize, outputs: usize, lanes: usize) -> usize {
    let places = C::PATCH * C::PATCH;
    let wide = padded(channels, lanes) + padded(outputs, lanes);
    places * (tiles * wide + 2 * STAGGER) + places * (channels + outputs) + 2 * STAGGER
}

/// Transforms weights: `u[place][panel][term][output]`, each panel as wide as a tile of registers.
#[derive(Clone, Copy)]
pub(super) struct Pack<C> {
    /// [outputs, channels, kernel, kernel] of the layer.
    pub w: *const f32,
    /// Channels of the layer.
    pub channels: usize,
    pub terms: usize,
    pub outputs: usize,
    /// For the data gradient: terms are the layer's outputs, outputs its channels, and the kernel is turned round.
    pub turned: bool,
    pub u: *mut f32,
    /// Vectors of outputs to do.
    pub vectors: (usize, usize),
    pub scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Pack<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let kernel = C::KERNEL;
        let size = kernel * kernel;
        let all = self.outputs.div_ceil(S::LANES);
        let place = self.terms * all * S::LANES;
        let (term_step, output_step) =
            if self.turned { (self.channels * size, size) } else { (size, self.channels * size) };
        for (panel, wide) in Pieces::new(0, all, most_vectors(S::LANES)) {
            for vector in panel.max(self.vectors.0)..(panel + wide).min(self.vectors.1) {
                let first = vector * S::LANES;
                let lanes = (self.outputs - first).min(S::LANES);
                for term in 0..self.terms {
                    let mut taps = [[0.0f32; 16]; 25];
                    // SAFETY: weights of existing terms and outputs; `u` has room for all vectors.
                    unsafe {
                        let from = self.w.add(term * term_step + first * output_step);
                        for lane in 0..lanes {
                            let from = from.add(lane * output_step);
                            for k in 0..size {
                                let tap = if self.turned { size - 1 - k } else { k };
                                taps[tap][lane] = *from.add(k);
                            }
                        }
                        let mut half = [[s.zero(); WIDEST]; WIDEST];
                        for j in 0..kernel {
                            let mut column = [s.zero(); WIDEST];
                            for i in 0..kernel {
                                column[i] = s.load(taps[i * kernel + j].as_ptr());
                            }
                            let column = C::kernel(s, column);
                            for i in 0..C::PATCH {
                                half[i][j] = column[i];
                            }
                        }
                        let to = panel * S::LANES * self.terms + term * wide * S::LANES + (vector - panel) * S::LANES;
                        for i in 0..C::PATCH {
                            let row = C::kernel(s, half[i]);
                            for j in 0..C::PATCH {
                                s.store(self.u.add((i * C::PATCH + j) * place + to), row[j]);
                            }
                        }
                    }
                }
            }
        }
    }
}

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
struct Tile<'a, const GRADIENT: bool> {
    source: &'a Source,
    rectangle: Rectangle,
    /// Room for the rectangle, if it has to be copied.
    patch: *mut f32,
    to: *mut f32,
    place: usize,
}

impl<const GRADIENT: bool> Tile<'_, GRADIENT> {
    /// # Safety
    /// The source must be readable, `patch` and `to` writable.
    #[inline(always)]
    unsafe fn transform<S: Simd, C: Scheme>(&self, s: S) {
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

/// What becomes of finished pixels.
#[derive(Clone, Copy)]
pub(super) struct Sink {
    /// Added to each output channel, if not null.
    pub bias: *const f32,
    pub relu: bool,
    pub y: *mut f32,
    /// Results become zero where this is not above zero, if not null: the derivative of the activation that made it.
    pub saved: *const f32,
    /// The maximum over windows of 2×2, and where it was, if not null.
    pub pool: Option<(PoolDims, *mut u8)>,
}

/// Turns one tile of sums back into pixels.
struct Finish<'a, C> {
    m: *const f32,
    place: usize,
    sample: usize,
    row: usize,
    column: usize,
    output: Image,
    sink: &'a Sink,
    scheme: PhantomData<C>,
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
                let bias = if self.sink.bias.is_null() { s.zero() } else { s.load_head(self.sink.bias.add(c), mask) };
                let mut pixels = [[s.zero(); WIDEST]; WIDEST];
                for i in 0..C::TILE {
                    let row = C::output(s, half[i]);
                    for j in 0..C::TILE {
                        pixels[i][j] = s.add(row[j], bias);
                    }
                }
                if let Some((pool, codes)) = &self.sink.pool {
                    self.pool(s, &pixels, pool, *codes, c, lanes);
                } else {
                    for i in 0..rows {
                        for j in 0..columns {
                            let at = ((self.sample * height + self.row + i) * width + self.column + j) * channels + c;
                            let mut value = pixels[i][j];
                            if self.sink.relu {
                                value = s.max(s.zero(), value);
                            }
                            if !self.sink.saved.is_null() {
                                let saved = s.load_head(self.sink.saved.add(at), mask);
                                value = s.select(s.le(saved, s.zero()), s.zero(), value);
                            }
                            let to = self.sink.y.add(at);
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
                    let (best, code) = maximum(s, four, self.sink.relu);
                    s.store_head(self.sink.y.add(at), mask, best);
                    if !codes.is_null() {
                        s.store_bytes(codes.add(at), lanes, code);
                    }
                }
            }
        }
    }
}

/// The largest of values in the order of their places, and its place; [`DEAD`] if `relu` lets nothing through.
#[inline(always)]
pub(super) fn maximum<S: Simd, const N: usize>(s: S, values: [S::V; N], relu: bool) -> (S::V, S::V) {
    let (mut best, mut code) = (values[0], s.zero());
    for k in 1..N {
        let keep = s.le(values[k], best);
        best = s.select(keep, best, values[k]);
        code = s.select(keep, code, s.splat(k as f32));
    }
    passed(s, best, code, relu)
}

/// What passes a relu: the value, and [`DEAD`] in place of the code where nothing does.
#[inline(always)]
pub(super) fn passed<S: Simd>(s: S, best: S::V, code: S::V, relu: bool) -> (S::V, S::V) {
    if relu {
        let code = s.select(s.le(best, s.zero()), s.splat(f32::from(DEAD)), code);
        (s.max(s.zero(), best), code)
    } else {
        (best, code)
    }
}

/// Some tiles of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Forward<C> {
    pub shape: Shape,
    pub source: Source,
    pub u: *const f32,
    pub sink: Sink,
    /// Tiles of a block.
    pub block: usize,
    /// Tiles to do.
    pub tiles: (usize, usize),
    /// [`block_len`] elements.
    pub scratch: *mut f32,
    pub scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Forward<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (channels, outputs) = (self.shape.input.channels, self.shape.output.channels);
        let (wide_in, wide_out) = (padded(channels, S::LANES), padded(outputs, S::LANES));
        let (v_place, m_place) = (self.block * wide_in + STAGGER, self.block * wide_out + STAGGER);
        let places = C::PATCH * C::PATCH;
        let v = self.scratch;
        let m = v.wrapping_add(places * v_place);
        let patch = m.wrapping_add(places * m_place);
        for (first, count) in Pieces::new(self.tiles.0, self.tiles.1, self.block) {
            // SAFETY: scratch has room for a block; tiles and images are within the problem.
            unsafe {
                for t in 0..count {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    let rectangle = Rectangle {
                        sample,
                        top: row as isize - self.shape.pad[0],
                        left: column as isize - self.shape.pad[1],
                        rows: C::PATCH,
                        columns: C::PATCH,
                        channels: (0, channels),
                    };
                    let (source, to) = (&self.source, v.add(t * wide_in));
                    Tile::<false> { source, rectangle, patch, to, place: v_place }.transform::<S, C>(s);
                }
                for place in 0..places {
                    for (panel, vectors) in Pieces::new(0, wide_out / S::LANES, most_vectors(S::LANES)) {
                        let columns = vectors * S::LANES;
                        let p = Product {
                            a: v.add(place * v_place),
                            a_row: wide_in,
                            a_term: 1,
                            offsets: NO_OFFSET.as_ptr(),
                            runs: 1,
                            terms: channels,
                            b: self.u.add((place * wide_out + panel * S::LANES) * channels),
                            b_run: 0,
                            b_term: columns,
                            c: m.add(place * m_place + panel * S::LANES),
                            c_row: wide_out,
                            start: Start::Zero,
                            relu: false,
                        };
                        product(s, count, columns, &p);
                    }
                }
                for t in 0..count {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    s.apart(Finish::<C> {
                        m: m.add(t * wide_out),
                        place: m_place,
                        sample,
                        row,
                        column,
                        output: self.shape.output,
                        sink: &self.sink,
                        scheme: PhantomData,
                    });
                }
            }
        }
    }
}

/// The weight gradient over some tiles, still transformed: `du[place][channel][output]`, and the sums of the gradient.
#[derive(Clone, Copy)]
pub(super) struct Weights<C> {
    /// Of the forward pass.
    pub shape: Shape,
    pub x: Source,
    pub dy: Source,
    /// The output channels to do: the first, and how many.
    pub outputs: (usize, usize),
    /// [`weights_len`] elements for these outputs.
    pub du: *mut f32,
    /// As many whole vectors as outputs need.
    pub db: *mut f32,
    pub block: usize,
    pub tiles: (usize, usize),
    /// [`block_len`] elements.
    pub scratch: *mut f32,
    pub scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Weights<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (channels, outputs) = (self.shape.input.channels, self.outputs.1);
        let (wide_in, wide_out) = (padded(channels, S::LANES), padded(outputs, S::LANES));
        let (v_place, z_place) = (self.block * wide_in + STAGGER, self.block * wide_out + STAGGER);
        let places = C::PATCH * C::PATCH;
        let v = self.scratch;
        let z = v.wrapping_add(places * v_place);
        let patch = z.wrapping_add(places * z_place);
        let mut start = Start::Zero;
        // SAFETY: scratch has room for a block, `du` and `db` for these outputs; tiles and images are within the problem.
        unsafe {
            std::ptr::write_bytes(self.db, 0, wide_out);
            if self.tiles.0 == self.tiles.1 {
                std::ptr::write_bytes(self.du, 0, places * channels * wide_out);
            }
            for (first, count) in Pieces::new(self.tiles.0, self.tiles.1, self.block) {
                for t in 0..count {
                    let (sample, row, column) = self.shape.place::<C>(first + t);
                    let mut rectangle = Rectangle {
                        sample,
                        top: row as isize - self.shape.pad[0],
                        left: column as isize - self.shape.pad[1],
                        rows: C::PATCH,
                        columns: C::PATCH,
                        channels: (0, channels),
                    };
                    let (source, to) = (&self.x, v.add(t * wide_in));
                    Tile::<false> { source, rectangle, patch, to, place: v_place }.transform::<S, C>(s);
                    (rectangle.top, rectangle.left) = (row as isize, column as isize);
                    (rectangle.rows, rectangle.columns) = (C::TILE, C::TILE);
                    rectangle.channels = self.outputs;
                    let (source, to) = (&self.dy, z.add(t * wide_out));
                    Tile::<true> { source, rectangle, patch, to, place: z_place }.transform::<S, C>(s);
                }
                // The second row of A is all ones: the place (1, 1) holds the sum of a tile.
                let sums = z.add((C::PATCH + 1) * z_place);
                for o in (0..wide_out).step_by(S::LANES) {
                    let mut sum = s.load(self.db.add(o));
                    for t in 0..count {
                        sum = s.add(sum, s.load(sums.add(t * wide_out + o)));
                    }
                    s.store(self.db.add(o), sum);
                }
                for place in 0..places {
                    for (panel, vectors) in Pieces::new(0, wide_out / S::LANES, most_vectors(S::LANES)) {
                        let p = Product {
                            a: v.add(place * v_place),
                            a_row: 1,
                            a_term: wide_in,
                            offsets: NO_OFFSET.as_ptr(),
                            runs: 1,
                            terms: count,
                            b: z.add(place * z_place + panel * S::LANES),
                            b_run: 0,
                            b_term: wide_out,
                            c: self.du.add(place * channels * wide_out + panel * S::LANES),
                            c_row: wide_out,
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

/// Adds up the threads' transformed gradients, turns them back and puts them in their order.
#[derive(Clone, Copy)]
pub(super) struct Gather<C> {
    /// The first part's gradient, and how far parts are apart.
    pub du: *const f32,
    pub parts: usize,
    pub stride: usize,
    /// Channels of the layer.
    pub channels: usize,
    /// The output channels in `du`: the first, and how many.
    pub outputs: (usize, usize),
    pub dw: *mut f32,
    /// Channels to do.
    pub range: (usize, usize),
    pub scheme: PhantomData<C>,
}

impl<C: Scheme> Body for Gather<C> {
    type Out = ();
    #[inline(always)]
    unsafe fn run<S: Simd>(self, s: S) {
        let (first, count) = self.outputs;
        let wide = padded(count, S::LANES);
        let place = self.channels * wide;
        let size = C::KERNEL * C::KERNEL;
        for o in (0..count).step_by(S::LANES) {
            let lanes = (count - o).min(S::LANES);
            for c in self.range.0..self.range.1 {
                // SAFETY: within the gradients of these channels and outputs.
                unsafe {
                    let from = self.du.add(c * wide + o);
                    let mut half = [[s.zero(); WIDEST]; WIDEST];
                    for j in 0..C::PATCH {
                        let mut column = [s.zero(); WIDEST];
                        for i in 0..C::PATCH {
                            let from = from.add((i * C::PATCH + j) * place);
                            column[i] = s.load(from);
                            for part in 1..self.parts {
                                column[i] = s.add(column[i], s.load(from.add(part * self.stride)));
                            }
                        }
                        let column = C::gather(s, column);
                        for i in 0..C::KERNEL {
                            half[i][j] = column[i];
                        }
                    }
                    let mut taps = [[0.0f32; 16]; 25];
                    for i in 0..C::KERNEL {
                        let row = C::gather(s, half[i]);
                        for j in 0..C::KERNEL {
                            s.store(taps[i * C::KERNEL + j].as_mut_ptr(), row[j]);
                        }
                    }
                    for lane in 0..lanes {
                        let to = self.dw.add(((first + o + lane) * self.channels + c) * size);
                        for k in 0..size {
                            *to.add(k) = taps[k][lane];
                        }
                    }
                }
            }
        }
    }
}
