//! Bytes to pixels and back: JPEG (decoded straight to a smaller scale), PNG, orientation, resizing, encoding.
//!
//! What is absent: no files, no threads. Everything works on slices; scratch memory is kept in the objects, so that a
//! worker that handles thousands of images allocates only for the largest.

/// The result type of this crate.
pub type Result<T, E = ImageError> = std::result::Result<T, E>;

/// A malformed, hostile or unsupported image. Says at which byte.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Neither JPEG nor PNG.
    #[error("neither JPEG nor PNG: it begins with {found}")]
    Unknown {
        /// The first bytes, in hexadecimal.
        found: String,
    },
}

/// What an image is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JPEG.
    Jpeg,
    /// PNG.
    Png,
}

/// What the header of an image says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub kind: Kind,
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

/// Pixels in memory: rows from the top, channels interleaved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pixels {
    /// Width.
    pub width: usize,
    /// Height.
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
    /// Width.
    pub width: usize,
    /// Height.
    pub height: usize,
    /// How.
    pub fit: Fit,
    /// Decode at full scale, whatever it costs; otherwise a JPEG is decoded straight to a smaller scale that is still
    /// large enough.
    pub full: bool,
}

/// A part of an image, in pixels, with fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Left edge.
    pub left: f64,
    /// Top edge.
    pub top: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// Reads the header alone.
pub fn header(bytes: &[u8], limits: &Limits) -> Result<Header> {
    let _ = (bytes, limits);
    todo!()
}

/// Decodes images, one after another.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
}

impl Decoder {
    /// A decoder that refuses what is beyond the limits.
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// Decodes at full scale, upright.
    pub fn decode(&mut self, bytes: &[u8], colour: Colour, out: &mut Pixels) -> Result<Header> {
        let _ = (bytes, colour, out, self.limits);
        todo!()
    }

    /// Decodes for a target, upright: at full scale or smaller, at least as large as the target needs; the window is
    /// the part of the result that [`Resizer::resize`] brings to the target. What lies outside it may be undefined.
    pub fn decode_for(
        &mut self,
        bytes: &[u8],
        colour: Colour,
        target: &Target,
        out: &mut Pixels,
    ) -> Result<(Header, Window)> {
        let _ = (bytes, colour, target, out);
        todo!()
    }
}

/// Resizes images, antialiased.
#[derive(Debug, Default)]
pub struct Resizer {}

impl Resizer {
    /// Brings the window of `from` to the target (`Pad` adds the black borders).
    pub fn resize(&mut self, from: &Pixels, window: &Window, target: &Target, to: &mut Pixels) {
        let _ = (from, window, target, to);
        todo!()
    }
}

/// Colour resolution of an encoded JPEG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chroma {
    /// 4:4:4.
    Full,
    /// 4:2:0, half in both directions.
    Half,
}

/// Encodes baseline JPEG. The same pixels give the same bytes, on every machine.
#[derive(Debug)]
pub struct Encoder {
    quality: u8,
    chroma: Chroma,
}

impl Encoder {
    /// An encoder of a quality from 1 to 100 (the scale of libjpeg).
    pub fn new(quality: u8, chroma: Chroma) -> Self {
        Self { quality, chroma }
    }

    /// Appends a JPEG file to `out`.
    pub fn encode(&mut self, pixels: &Pixels, out: &mut Vec<u8>) {
        let _ = (pixels, out, self.quality, self.chroma);
        todo!()
    }
}

/// The pixels as a PNG file.
pub fn encode_png(pixels: &Pixels) -> Vec<u8> {
    let _ = pixels;
    todo!()
}
