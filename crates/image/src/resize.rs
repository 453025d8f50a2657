//! Antialiased resizing of a window, separable, in fixed point.
//!
//! The filter is the bicubic of Catmull and Rom, widened by the factor of shrinking (so every source pixel counts), the
//! same that Pillow and TensorFlow call antialiased bicubic. Its weights come from the four basic operations on doubles
//! alone, and everything after that is integers: the same bits on every machine.
//!
//! Each output row is made at once: first down the columns into one row of 16-bit samples, then along it. Nothing of
//! the size of an image is kept in between.

mod passes;
mod taps;

use crate::simd::Simd;
use crate::{Fit, Pixels, Target, Window};
use taps::Taps;

/// Resizes images, antialiased.
#[derive(Debug, Default)]
pub struct Resizer {
    pub(crate) simd: Simd,
    across: Taps,
    down: Taps,
    row: Vec<i16>,
}

impl Resizer {
    /// Brings the window of `from` to the target (`Pad` adds the black borders). Nothing outside the window's pixels is
    /// looked at.
    pub fn resize(&mut self, from: &Pixels, window: &Window, target: &Target, to: &mut Pixels) {
        let channels = from.channels;
        (to.width, to.height, to.channels) = (target.width, target.height, channels);
        to.data.resize(target.width * target.height * channels, 0);
        let whole = from.data.len() >= from.width * from.height * channels;
        let nothing = from.width == 0 || from.height == 0 || channels == 0 || !whole;
        if nothing || target.width == 0 || target.height == 0 {
            to.data.fill(0);
            return;
        }
        let (width, height) = match target.fit {
            Fit::Crop | Fit::Stretch => (target.width, target.height),
            Fit::Pad => inside(window, target),
        };
        let (left, top) = ((target.width - width) / 2, (target.height - height) / 2);
        self.across.make(window.left, window.width, from.width, width);
        self.down.make(window.top, window.height, from.height, height);

        // Only the columns that some output pixel looks at.
        let columns = self.across.first()..self.across.end();
        let length = columns.len() * channels;
        // Vectors read beyond the last tap.
        self.row.clear();
        self.row.resize(length + self.across.reach() * channels + 16, 0);
        let line = target.width * channels;
        if (width, height) != (target.width, target.height) {
            to.data.fill(0);
        }
        if self.across.copies() && self.down.copies() {
            let (x, y) = (window.left as usize, window.top as usize);
            let rows = from.data.chunks_exact(from.width * channels).skip(y);
            for (out, row) in to.data.chunks_exact_mut(line).skip(top).take(height).zip(rows) {
                out[left * channels..][..width * channels].copy_from_slice(&row[x * channels..][..width * channels]);
            }
            return;
        }
        for (y, out) in to.data.chunks_exact_mut(line).skip(top).take(height).enumerate() {
            let (first, weights) = self.down.of(y);
            let rows = &from.data[(first * from.width + columns.start) * channels..];
            passes::down(self.simd, rows, from.width * channels, weights, &mut self.row[..length]);
            let out = &mut out[left * channels..(left + width) * channels];
            passes::across(self.simd, &self.row, &self.across, channels, out);
        }
    }
}

/// The largest size with the window's shape that fits into the target.
fn inside(window: &Window, target: &Target) -> (usize, usize) {
    let (tw, th) = (target.width as f64, target.height as f64);
    let by = (tw / window.width).min(th / window.height);
    let side = |length: f64, most: usize| ((length * by).round() as usize).clamp(1, most);
    (side(window.width, target.width), side(window.height, target.height))
}
