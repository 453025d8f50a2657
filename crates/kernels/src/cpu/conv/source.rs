//! Where a convolution reads its image from: a tensor, or a gradient behind a maximum that is spread only as far as it is read.
//!
//! Kernels never meet the border of an image: what they read is cut out of it with zeros around.

#![allow(clippy::needless_range_loop)] // indexed loops read as the formula, and unroll into registers

use super::scheme::WIDEST;
use crate::cpu::simd::Simd;
use crate::cpu::submit::Arguments;
use paceline_base::window::PoolDims;
use std::ops::Range;

/// The size of an image, the same for all samples.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub height: usize,
    pub width: usize,
    pub channels: usize,
}

impl Image {
    pub(super) fn len(&self) -> usize {
        self.height * self.width * self.channels
    }
}

/// A batch of images.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub image: Image,
    pub content: Content,
}

// SAFETY: numbers and pointers into device memory.
unsafe impl Arguments for Source {}

#[derive(Clone, Copy)]
pub(super) enum Content {
    /// As they are.
    Plain(*const f32),
    /// The gradient of a maximum over disjoint windows, and where each maximum was.
    Pooled { dy: *const f32, codes: *const u8, pool: PoolDims },
}

/// Part of one image: where it begins, and how far rows and pixels are apart.
#[derive(Clone, Copy)]
pub(super) struct Cut {
    pub at: *const f32,
    pub row: usize,
    pub pixel: usize,
}

/// What a transform reads: the columns of a small rectangle, a vector of channels at a time.
pub(super) trait Columns: Copy {
    /// The first `rows` pixels of column `j`, `lanes` channels from `c` on.
    ///
    /// # Safety
    /// They must be readable.
    unsafe fn column<S: Simd>(&self, s: S, rows: usize, j: usize, c: usize, lanes: usize) -> [S::V; WIDEST];
}

impl Columns for Cut {
    #[inline(always)]
    unsafe fn column<S: Simd>(&self, s: S, rows: usize, j: usize, c: usize, lanes: usize) -> [S::V; WIDEST] {
        let mut column = [s.zero(); WIDEST];
        for i in 0..rows {
            // SAFETY: the caller's promise.
            unsafe {
                let from = self.at.add(i * self.row + j * self.pixel + c);
                column[i] = if lanes == S::LANES { s.load(from) } else { s.load_head(from, s.head(lanes)) };
            }
        }
        column
    }
}

/// A rectangle of a gradient behind a maximum of 2×2 windows, spread while it is read. `ODD` if it begins with a window's second row.
#[derive(Clone, Copy)]
pub(super) struct Quads<const ODD: bool> {
    pub dy: *const f32,
    pub codes: *const u8,
    pub pool: PoolDims,
    pub sample: usize,
    pub top: isize,
    pub left: isize,
    /// First channel that is read.
    pub first: usize,
}

impl<const ODD: bool> Columns for Quads<ODD> {
    #[inline(always)]
    unsafe fn column<S: Simd>(&self, s: S, rows: usize, j: usize, c: usize, lanes: usize) -> [S::V; WIDEST] {
        let PoolDims { out_height, out_width, channels, .. } = self.pool;
        let mut column = [s.zero(); WIDEST];
        let x = self.left + j as isize;
        if x < 0 || x as usize / 2 >= out_width {
            return column;
        }
        let (x, side) = (x as usize / 2, s.splat((x % 2) as f32));
        let below = s.add(side, s.splat(2.0));
        let odd = usize::from(ODD);
        for window in 0..(rows + odd).div_ceil(2) {
            let y = (self.top - odd as isize) / 2 + window as isize;
            if y < 0 || y as usize >= out_height {
                continue;
            }
            let at = ((self.sample * out_height + y as usize) * out_width + x) * channels + self.first + c;
            // SAFETY: a window of this pool; the caller vouches for its channels.
            let (dy, code) = unsafe {
                let dy = if lanes == S::LANES {
                    s.load(self.dy.add(at))
                } else {
                    s.load_head(self.dy.add(at), s.head(lanes))
                };
                (dy, s.load_bytes(self.codes.add(at), lanes))
            };
            if 2 * window >= odd {
                column[2 * window - odd] = s.select(s.eq(code, side), dy, s.zero());
            }
            if 2 * window + 1 - odd < rows {
                column[2 * window + 1 - odd] = s.select(s.eq(code, below), dy, s.zero());
            }
        }
        column
    }
}

/// A rectangle of an image; it may hang over the border.
#[derive(Clone, Copy)]
pub(super) struct Rectangle {
    pub sample: usize,
    pub top: isize,
    pub left: isize,
    pub rows: usize,
    pub columns: usize,
    /// First channel, and how many.
    pub channels: (usize, usize),
}

/// The part of `start..start + len` that lies in `0..extent`, counted from `start`.
#[inline(always)]
fn inside(start: isize, len: usize, extent: usize) -> Range<usize> {
    let first = (-start).clamp(0, len as isize) as usize;
    let end = (extent as isize - start).clamp(first as isize, len as isize) as usize;
    first..end
}

impl Source {
    /// The rectangle: in place if it can be, otherwise copied to `to` with zeros where it hangs over.
    ///
    /// # Safety
    /// The images must be readable, and `to` writable for the rectangle.
    #[inline(always)]
    pub(super) unsafe fn cut<S: Simd>(&self, s: S, r: &Rectangle, to: *mut f32) -> Cut {
        let Image { height, width, channels } = self.image;
        let rows = inside(r.top, r.rows, height);
        let columns = inside(r.left, r.columns, width);
        if let Content::Plain(x) = self.content
            && rows.len() == r.rows
            && columns.len() == r.columns
        {
            let first = ((r.sample * height + r.top as usize) * width + r.left as usize) * channels + r.channels.0;
            return Cut { at: x.wrapping_add(first), row: width * channels, pixel: channels };
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy(s, r, rows, columns, to) };
        Cut { at: to, row: r.columns * r.channels.1, pixel: r.channels.1 }
    }

    /// Copies the rectangle, of which `rows` and `columns` lie in the image.
    ///
    /// # Safety
    /// As for `cut`.
    #[inline(always)]
    pub(super) unsafe fn copy<S: Simd>(
        &self,
        s: S,
        r: &Rectangle,
        rows: Range<usize>,
        columns: Range<usize>,
        to: *mut f32,
    ) {
        let Image { height, width, channels } = self.image;
        let (first, count) = r.channels;
        let row = r.columns * count;
        match self.content {
            Content::Plain(x) => {
                for i in 0..r.rows {
                    // SAFETY: within the rectangle, and within the image where it is read.
                    unsafe {
                        let to = to.add(i * row);
                        if !rows.contains(&i) || columns.is_empty() {
                            std::ptr::write_bytes(to, 0, row);
                            continue;
                        }
                        std::ptr::write_bytes(to, 0, columns.start * count);
                        let y = (r.top + i as isize) as usize;
                        let left = (r.left + columns.start as isize) as usize;
                        let from = x.add(((r.sample * height + y) * width + left) * channels + first);
                        let to_first = to.add(columns.start * count);
                        if count == channels {
                            std::ptr::copy_nonoverlapping(from, to_first, columns.len() * count);
                        } else {
                            for j in 0..columns.len() {
                                std::ptr::copy_nonoverlapping(from.add(j * channels), to_first.add(j * count), count);
                            }
                        }
                        std::ptr::write_bytes(to.add(columns.end * count), 0, (r.columns - columns.end) * count);
                    }
                }
            }
            Content::Pooled { dy, codes, pool } => {
                // SAFETY: as above.
                unsafe {
                    std::ptr::write_bytes(to, 0, r.rows * row);
                    if rows.is_empty() || columns.is_empty() {
                        return;
                    }
                    spread(s, r, &rows, &columns, &Spread { dy, codes, pool, to });
                }
            }
        }
    }
}

struct Spread {
    dy: *const f32,
    codes: *const u8,
    pool: PoolDims,
    to: *mut f32,
}

/// Puts the gradients of all windows that touch the rectangle where their maxima were; `to` holds zeros.
///
/// # Safety
/// As for [`Source::cut`].
#[inline(always)]
unsafe fn spread<S: Simd>(s: S, r: &Rectangle, rows: &Range<usize>, columns: &Range<usize>, of: &Spread) {
    let pool = of.pool;
    let (first, count) = r.channels;
    let windows = |inside: &Range<usize>, start: isize, stride: usize, extent: usize| {
        let low = (start + inside.start as isize) as usize / stride;
        let high = ((start + inside.end as isize - 1) as usize / stride + 1).min(extent);
        low..high.max(low)
    };
    for py in windows(rows, r.top, pool.stride[0], pool.out_height) {
        for px in windows(columns, r.left, pool.stride[1], pool.out_width) {
            let at = ((r.sample * pool.out_height + py) * pool.out_width + px) * pool.channels + first;
            let (top, left) = ((py * pool.stride[0]) as isize - r.top, (px * pool.stride[1]) as isize - r.left);
            let mut c = 0;
            while c < count {
                let lanes = (count - c).min(S::LANES);
                let mask = s.head(lanes);
                // SAFETY: the window and its codes are within the pool; places are checked against the rectangle.
                unsafe {
                    let dy = s.load_head(of.dy.add(at + c), mask);
                    let code = s.load_bytes(of.codes.add(at + c), lanes);
                    for i in 0..pool.window[0] {
                        for j in 0..pool.window[1] {
                            let (y, x) = (top + i as isize, left + j as isize);
                            if y < 0 || x < 0 || y as usize >= r.rows || x as usize >= r.columns {
                                continue;
                            }
                            let here = s.eq(code, s.splat((i * pool.window[1] + j) as f32));
                            let value = s.select(here, dy, s.zero());
                            s.store_head(of.to.add((y as usize * r.columns + x as usize) * count + c), mask, value);
                        }
                    }
                }
                c += S::LANES;
            }
        }
    }
}
