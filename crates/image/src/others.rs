//! WebP, BMP and GIF, by the `image` crate: to 8-bit grey or RGB, alpha dropped as for PNG.
//!
//! Photo collections of the field hold some of each. Of an animation the first frame is taken; where it does not cover
//! the picture, or is transparent by a GIF's palette, that is black. Sizes are read by hand and checked before a decoder is
//! made, because a header may promise more than memory holds.

use crate::error::{ImageError, Result};
use crate::exif;
use crate::png::reduce;
use crate::{Colour, Format, Header, Limits, Pixels, affordable};
use image::ImageDecoder;
use image::codecs::{bmp::BmpDecoder, gif::GifDecoder, webp::WebPDecoder};
use std::io::Cursor;

/// The format, if the bytes begin like one of these.
pub(crate) fn format(bytes: &[u8]) -> Option<Format> {
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some(Format::WebP);
    }
    if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        return Some(Format::Gif);
    }
    // Two letters are little to go by: the length of the second header must be one that is in use, too.
    let second = bytes.get(14..18).map(|length| u32_at(length, 0));
    if bytes.starts_with(b"BM") && matches!(second, Some(12 | 16 | 40 | 52 | 56 | 64 | 108 | 124)) {
        return Some(Format::Bmp);
    }
    None
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Width and height as stated, and where.
fn size(format: Format, bytes: &[u8]) -> Result<(usize, usize, usize)> {
    let short = |range: std::ops::Range<usize>| {
        let truncated = ImageError::Truncated { what: "the header", offset: bytes.len() };
        bytes.get(range).ok_or(truncated)
    };
    let u16_at = |two: &[u8], at: usize| usize::from(u16::from_le_bytes([two[at], two[at + 1]]));
    match format {
        Format::Gif => short(6..10).map(|size| (u16_at(size, 0), u16_at(size, 2), 6)),
        Format::Bmp if bytes[14] == 12 => short(18..22).map(|size| (u16_at(size, 0), u16_at(size, 2), 18)),
        // Rows from the top are stated by a negative height.
        Format::Bmp => short(18..26)
            .map(|size| (u32_at(size, 0) as usize, u32_at(size, 4).cast_signed().unsigned_abs() as usize, 18)),
        _ => webp_size(short(12..30)?),
    }
}

/// The size in the first chunk of a WebP file, given its bytes 12 to 30: 8 of the chunk's head, then its content.
fn webp_size(chunk: &[u8]) -> Result<(usize, usize, usize)> {
    let u16_at = |at: usize| usize::from(u16::from_le_bytes([chunk[at], chunk[at + 1]]));
    let u24_at = |at: usize| usize::from(chunk[at + 2]) << 16 | u16_at(at);
    match &chunk[..4] {
        // Three bytes of the frame, three of a start code; the upper two bits of a side are a scale that nobody uses.
        b"VP8 " => Ok((u16_at(14) & 0x3FFF, u16_at(16) & 0x3FFF, 26)),
        // A byte 2f, then 14 bits each, less one.
        b"VP8L" => {
            let bits = u32_at(chunk, 9) as usize;
            Ok(((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, 21))
        }
        b"VP8X" => Ok((u24_at(12) + 1, u24_at(15) + 1, 24)),
        _ => Err(ImageError::malformed("a WebP file without a picture in its first chunk", 12)),
    }
}

/// The EXIF chunk of a WebP file. By hand, since the crate takes as much memory for a chunk as the file says that it has.
fn webp_exif(format: Format, bytes: &[u8]) -> Option<&[u8]> {
    let mut chunks = bytes.get(12..).filter(|_| format == Format::WebP)?;
    loop {
        let (head, rest) = chunks.split_at_checked(8)?;
        let length = u32_at(head, 4) as usize;
        if head.starts_with(b"EXIF") {
            return rest.get(..length);
        }
        chunks = rest.get(length.checked_next_multiple_of(2)?..)?;
    }
}

/// A decoder with its header read.
struct Open<'a> {
    decoder: Box<dyn ImageDecoder + 'a>,
    header: Header,
}

/// Checks the size by hand before anything is built for it.
fn open<'a>(format: Format, bytes: &'a [u8], limits: &Limits) -> Result<Open<'a>> {
    let (width, height, offset) = size(format, bytes)?;
    if width == 0 || height == 0 {
        return Err(ImageError::malformed(format!("a picture of {width}×{height} pixels"), offset));
    }
    if (width as u64).saturating_mul(height as u64) > limits.pixels {
        return Err(ImageError::TooLarge { width, height, limit: limits.pixels, offset });
    }
    let input = Cursor::new(bytes);
    let failed = |error| wrong(format, &error, bytes);
    let mut channels = None;
    let decoder: Box<dyn ImageDecoder + 'a> = match format {
        Format::Gif => Box::new(GifDecoder::new(input).map_err(failed)?),
        Format::Bmp => {
            let decoder = BmpDecoder::new(input).map_err(failed)?;
            let grey = |palette: &[[u8; 3]]| palette.iter().all(|[r, g, b]| r == g && g == b);
            channels = decoder.get_palette().is_some_and(grey).then_some(1);
            Box::new(decoder)
        }
        _ => Box::new(WebPDecoder::new(input).map_err(failed)?),
    };
    let (w, h) = decoder.dimensions();
    if (w as usize, h as usize) != (width, height) {
        let what = format!("a picture of {w}×{h} pixels in a file that states {width}×{height}");
        return Err(ImageError::malformed(what, offset));
    }
    // Some programs put the head of a JPEG's EXIF segment before it.
    let tiff = webp_exif(format, bytes).map(|exif| exif.strip_prefix(b"Exif\0\0").unwrap_or(exif));
    let orientation = tiff.and_then(exif::orientation).unwrap_or(1);
    let (width, height) = if exif::swaps(orientation) { (height, width) } else { (width, height) };
    let channels = channels.unwrap_or_else(|| usize::from(decoder.color_type().channel_count()));
    let header = Header { format, width, height, channels, orientation, progressive: false };
    Ok(Open { decoder, header })
}

/// The crate's errors do not say where: they are about what came before the end.
fn wrong(format: Format, error: &image::ImageError, bytes: &[u8]) -> ImageError {
    let offset = bytes.len();
    match error {
        image::ImageError::Limits(_) => {
            ImageError::unsupported(format!("a {} that needs more memory than its size", format.name()), offset)
        }
        image::ImageError::Unsupported(what) => {
            ImageError::unsupported(format!("{}: {what}, before or", format.name()), offset)
        }
        image::ImageError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated { what: "the picture", offset }
        }
        other => ImageError::malformed(format!("{}: {other}, before or", format.name()), offset),
    }
}

pub(crate) fn header(format: Format, bytes: &[u8], limits: &Limits) -> Result<Header> {
    open(format, bytes, limits).map(|open| open.header)
}

/// Decodes at full scale, as stored (not yet turned upright).
pub(crate) fn decode(
    format: Format,
    bytes: &[u8],
    limits: &Limits,
    colour: Colour,
    scratch: &mut Vec<u8>,
    out: &mut Pixels,
) -> Result<Header> {
    let Open { mut decoder, header } = open(format, bytes, limits)?;
    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    affordable(width, height, bytes.len())?;
    let stored = usize::from(decoder.color_type().channel_count());
    scratch.clear();
    scratch.resize(width * height * stored, 0);
    // What a decoder may take beside the picture: a frame of a GIF of another size, the planes of a WebP.
    let mut memory = image::Limits::no_limits();
    memory.max_alloc = Some(4 * scratch.len() as u64 + (1 << 20));
    let read = decoder.set_limits(memory).and_then(|()| decoder.read_image_boxed(scratch));
    read.map_err(|error| wrong(format, &error, bytes))?;
    let wanted = match colour {
        Colour::Rgb => 3,
        Colour::Grey => 1,
        Colour::Stored if header.channels <= 2 => 1,
        Colour::Stored => 3,
    };
    reduce(scratch, width * height, stored, wanted, &mut out.data);
    (out.width, out.height, out.channels) = (width, height, wanted);
    Ok(header)
}
