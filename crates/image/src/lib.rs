//! Bytes to pixels and back: JPEG (decoded straight to a smaller scale), PNG, WebP, BMP, GIF (its first frame),
//! orientation, resizing, encoding.
//!
//! What is absent: no files, no threads. Everything works on slices; scratch memory is kept in the objects, so that a
//! worker that handles thousands of images allocates only for the largest.
//!
//! A JPEG shrinks while it is decoded: where the target is smaller than the image, only the lowest m × m of the 8 × 8
//! frequencies of each block become pixels, and only in the blocks that the target shows.
//!
//! ```
//! use paceline_image::{Chroma, Colour, Decoder, Encoder, Fit, Limits, Pixels, Resizer, Target, header};
//! # fn main() -> paceline_image::Result<()> {
//! // A photo of 640 × 480, with a gradient on it.
//! let data = (0..640 * 480).flat_map(|i| [(i % 640 / 3) as u8, (i / 640 / 2) as u8, 99]).collect();
//! let photo = Pixels { width: 640, height: 480, channels: 3, data };
//! let mut encoder = Encoder::new(90, Chroma::Half);
//! let mut bytes = Vec::new();
//! encoder.encode(&photo, &mut bytes)?;
//! assert_eq!(header(&bytes, &Limits::default())?.width, 640);
//!
//! // Its middle, at 192 × 192: decoded at half its size, then resized.
//! let target = Target { width: 192, height: 192, fit: Fit::Crop, full: false };
//! let (mut decoded, mut small) = (Pixels::default(), Pixels::default());
//! let (_, window) = Decoder::new(Limits::default()).decode_for(&bytes, Colour::Rgb, &target, &mut decoded)?;
//! assert_eq!(decoded.height, 240);
//! Resizer::default().resize(&decoded, &window, &target, &mut small);
//! assert_eq!((small.width, small.height, small.data.len()), (192, 192, 192 * 192 * 3));
//! # Ok(())
//! # }
//! ```

mod cosine;
mod decode;
mod encode;
mod error;
mod exif;
mod interleave;
mod jpeg;
mod others;
mod png;
mod resize;
mod simd;

pub use decode::{Decoder, header};
pub use encode::Encoder;
pub use error::{ImageError, Result};
pub use png::encode_png;
pub use resize::Resizer;

/// What an image is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JPEG: baseline or progressive, 8 bits.
    Jpeg,
    /// PNG.
    Png,
    /// WebP, with or without loss; the first frame of an animation.
    WebP,
    /// Windows bitmap.
    Bmp,
    /// GIF, the first frame.
    Gif,
}

impl Format {
    /// The format that bytes begin like, if it is one that is read.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&[0xFF, 0xD8]) {
            return Some(Self::Jpeg);
        }
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        others::format(bytes)
    }

    /// Bytes that [`Format::of`] needs to see.
    pub const LOOK: usize = 18;

    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "JPEG",
            Self::Png => "PNG",
            Self::WebP => "WebP",
            Self::Bmp => "BMP",
            Self::Gif => "GIF",
        }
    }
}

/// What the header of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// As the first bytes tell, not the name of the file.
    pub format: Format,
    /// Width as it is to be seen (after the EXIF orientation).
    pub width: usize,
    /// Height as it is to be seen.
    pub height: usize,
    /// Stored components: 1 grey, 3 colour, 4 CMYK or colour with alpha, 2 grey with alpha.
    pub channels: usize,
    /// The EXIF orientation, 1 to 8; 1 where none is stated.
    pub orientation: u8,
    /// A progressive JPEG (or an interlaced PNG).
    pub progressive: bool,
}

/// What is refused before memory is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest width × height.
    pub pixels: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pixels: 1 << 27 }
    }
}

/// Pixels that any file may unpack to, however short it is: a photo of 4,096 × 4,096.
pub(crate) const FREE_PIXELS: u64 = 1 << 24;
/// Pixels that every byte of a PNG, WebP, BMP or GIF file may stand for beyond these. Photos have some twenty pixels in a
/// byte at most; only an empty picture, or one that was made to take memory and time, has hundreds. (A JPEG cannot: each
/// block of 64 pixels takes at least a bit, which is checked.)
pub(crate) const PIXELS_PER_BYTE: u64 = 256;

/// Refuses a picture that costs far more than its file.
pub(crate) fn affordable(width: usize, height: usize, bytes: usize) -> Result<()> {
    let limit = FREE_PIXELS.max(bytes as u64 * PIXELS_PER_BYTE);
    if (width as u64).saturating_mul(height as u64) > limit {
        return Err(ImageError::TooDense { width, height, bytes, limit });
    }
    Ok(())
}

/// Pixels in memory: rows from the top, channels interleaved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pixels {
    /// Pixels in a row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// 1 (grey) or 3 (RGB).
    pub channels: usize,
    /// `width · height · channels` bytes.
    pub data: Vec<u8>,
}

/// Which channels are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// Three channels, whatever is stored.
    Rgb,
    /// One channel (luma), whatever is stored.
    Grey,
    /// One channel for grey images, three for all others.
    Stored,
}

/// How an image is brought to a given width and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Scale to cover, cut off what hangs over, the centre kept.
    Crop,
    /// Scale to fit inside, black around it.
    Pad,
    /// Scale each side on its own.
    Stretch,
}

/// The size that is wanted in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Pixels in a row of the result.
    pub width: usize,
    /// Rows of the result.
    pub height: usize,
    /// What happens where the shapes differ.
    pub fit: Fit,
    /// Decode at full scale, whatever it costs; otherwise a JPEG is decoded straight to a smaller scale that is still
    /// large enough.
    pub full: bool,
}

impl Target {
    /// The part of an upright image of this size, in its own pixels, that is brought to the target: for [`Fit::Crop`] as much of
    /// its middle as has the target's shape, otherwise all of it.
    ///
    /// ```
    /// use paceline_image::{Fit, Target, Window};
    /// let target = Target { width: 192, height: 192, fit: Fit::Crop, full: false };
    /// assert_eq!(target.window(640, 480), Window { left: 80.0, top: 0.0, width: 480.0, height: 480.0 });
    /// ```
    pub fn window(&self, width: usize, height: usize) -> Window {
        let (w, h) = (width as f64, height as f64);
        if self.fit != Fit::Crop || self.width == 0 || self.height == 0 {
            return Window { left: 0.0, top: 0.0, width: w, height: h };
        }
        let (tw, th) = (self.width as f64, self.height as f64);
        let (cw, ch) = if w * th > h * tw { (h * tw / th, h) } else { (w, w * th / tw) };
        Window { left: (w - cw) / 2.0, top: (h - ch) / 2.0, width: cw, height: ch }
    }

    /// As [`Target::window`], for stored pixels. It divides before it multiplies, so that for some sizes that are not square an
    /// edge differs in its last bit; samples of raw records, and runs resumed on them, depend on these bits.
    pub fn window_of_raw(&self, width: usize, height: usize) -> Window {
        let (w, h) = (width as f64, height as f64);
        if self.fit != Fit::Crop || self.width == 0 || self.height == 0 {
            return self.window(width, height);
        }
        let wanted = self.width as f64 / self.height as f64;
        let (cw, ch) = (w.min(h * wanted), h.min(w / wanted));
        Window { left: (w - cw) / 2.0, top: (h - ch) / 2.0, width: cw, height: ch }
    }

    /// Whether these pixels, of which the window is wanted, have the target's size already: then there is nothing to resize.
    pub fn is_met_by(&self, pixels: &Pixels, window: &Window) -> bool {
        let whole = Window { left: 0.0, top: 0.0, width: self.width as f64, height: self.height as f64 };
        (pixels.width, pixels.height) == (self.width, self.height) && *window == whole
    }
}

/// A part of an image, in pixels, with fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Pixels left of it.
    pub left: f64,
    /// Rows above it.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Colour resolution of an encoded JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chroma {
    /// 4:4:4, as the luma.
    Full,
    /// 4:2:0, half in both directions.
    Half,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Simd;

    #[test]
    fn windows_keep_their_bits() {
        let mut apart = 0;
        for (width, height) in (1..40).flat_map(|w| (1..40).map(move |h| (w, h))) {
            for (tw, th) in [(3, 7), (7, 3), (5, 5), (224, 192)] {
                let target = Target { width: tw, height: th, fit: Fit::Crop, full: false };
                let (one, raw) = (target.window(width, height), target.window_of_raw(width, height));
                for (a, b) in
                    [(one.left, raw.left), (one.top, raw.top), (one.width, raw.width), (one.height, raw.height)]
                {
                    assert!((a - b).abs() < 1e-12, "{width}×{height} to {tw}×{th}: {one:?}, {raw:?}");
                    apart += (a != b) as usize;
                    assert!(tw != th || a == b);
                }
            }
        }
        assert!(apart > 0, "if the two are equal everywhere, one is enough");
        for fit in [Fit::Pad, Fit::Stretch] {
            let target = Target { width: 7, height: 3, fit, full: false };
            assert_eq!(target.window(31, 5), target.window_of_raw(31, 5));
        }
    }

    /// Kernels are compared one by one where they are; this is all of them together.
    #[test]
    fn every_machine_gives_the_same_bytes() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let mut files = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "jpg") {
                continue;
            }
            files += 1;
            let bytes = std::fs::read(&path).unwrap();
            for (size, fit) in [(48, Fit::Crop), (13, Fit::Crop), (7, Fit::Pad), (3, Fit::Stretch)] {
                let run = |simd| {
                    let (mut decoded, mut small, mut out) = (Pixels::default(), Pixels::default(), Vec::new());
                    let (mut decoder, mut resizer) = (Decoder::default(), Resizer::default());
                    let mut encoder = Encoder::new(90, Chroma::Half);
                    (decoder.jpeg.simd, resizer.simd, encoder.simd) = (simd, simd, simd);
                    let target = Target { width: size, height: size, fit, full: false };
                    let (_, window) = decoder.decode_for(&bytes, Colour::Stored, &target, &mut decoded).unwrap();
                    resizer.resize(&decoded, &window, &target, &mut small);
                    encoder.encode(&small, &mut out).unwrap();
                    (decoded, small, out)
                };
                assert!(run(Simd::Portable) == run(Simd::detect()), "{} to {size}", path.display());
            }
        }
        assert!(files > 20);
    }
}
