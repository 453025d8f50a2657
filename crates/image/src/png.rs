//! PNG, by the `png` crate: all kinds to 8-bit grey or RGB, alpha dropped (as TensorFlow and Pillow do), and back.

use crate::error::{ImageError, Result};
use crate::exif;
use crate::jpeg::colour::luma;
use crate::{Colour, Format, Header, Limits, Pixels, affordable};
use std::io::Cursor;

/// Where the header states the size.
const SIZE_OFFSET: usize = 16;

type Reader<'a> = png::Reader<Cursor<&'a [u8]>>;

/// Checks the size by hand before anything is built for it.
fn open<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(Reader<'a>, Header)> {
    let truncated = ImageError::Truncated { what: "the header", offset: bytes.len() };
    let size = bytes.get(SIZE_OFFSET..SIZE_OFFSET + 8).ok_or(truncated)?;
    let side = |at: usize| u32::from_be_bytes(size[at..at + 4].try_into().expect("four bytes")) as usize;
    let (width, height) = (side(0), side(4));
    if (width as u64).saturating_mul(height as u64) > limits.pixels {
        return Err(ImageError::TooLarge { width, height, limit: limits.pixels, offset: SIZE_OFFSET });
    }
    // Rows of at most 8 bytes a pixel, and what text chunks may take.
    let memory = (width as u64).saturating_mul(16).saturating_add(1 << 20);
    let mut decoder = png::Decoder::new_with_limits(
        Cursor::new(bytes),
        png::Limits { bytes: usize::try_from(memory).unwrap_or(usize::MAX) },
    );
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let reader = decoder.read_info().map_err(|e| wrong(e, bytes, bytes.len()))?;
    let info = reader.info();
    let orientation = info.exif_metadata.as_deref().and_then(exif::orientation).unwrap_or(1);
    let channels = match info.color_type {
        png::ColorType::Grayscale => 1,
        png::ColorType::GrayscaleAlpha => 2,
        png::ColorType::Rgb | png::ColorType::Indexed => 3,
        png::ColorType::Rgba => 4,
    };
    let swapped = exif::swaps(orientation);
    let (width, height) = if swapped { (height, width) } else { (width, height) };
    let header = Header { format: Format::Png, width, height, channels, orientation, progressive: info.interlaced };
    Ok((reader, header))
}

/// The crate's errors do not say where; the position it had come to does.
fn wrong(error: png::DecodingError, bytes: &[u8], at: usize) -> ImageError {
    let offset = at.min(bytes.len());
    match error {
        png::DecodingError::IoError(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => {
            ImageError::Truncated { what: "the PNG", offset: bytes.len() }
        }
        png::DecodingError::LimitsExceeded => {
            ImageError::unsupported("a PNG whose chunks need more memory than its size", offset)
        }
        other => ImageError::malformed(format!("PNG: {other}, before or"), offset),
    }
}

pub(crate) fn header(bytes: &[u8], limits: &Limits) -> Result<Header> {
    open(bytes, limits).map(|(_, header)| header)
}

/// Decodes at full scale, as stored (not yet turned upright).
pub(crate) fn decode(
    bytes: &[u8],
    limits: &Limits,
    colour: Colour,
    scratch: &mut Vec<u8>,
    out: &mut Pixels,
) -> Result<Header> {
    let (mut reader, header) = open(bytes, limits)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let stored = match reader.output_color_type().0 {
        png::ColorType::Grayscale => 1,
        png::ColorType::GrayscaleAlpha => 2,
        png::ColorType::Rgba => 4,
        _ => 3,
    };
    // Deflate makes at most 1,032 bytes of one. A file that is too short for its size is refused before memory is taken.
    let least = width as u64 * height as u64 * reader.info().bits_per_pixel() as u64 / 8 / 1032;
    if (bytes.len() as u64) < least {
        return Err(ImageError::Truncated { what: "the compressed picture", offset: bytes.len() });
    }
    affordable(width, height, bytes.len())?;
    let length = reader.output_buffer_size().ok_or(ImageError::TooLarge {
        width,
        height,
        limit: limits.pixels,
        offset: SIZE_OFFSET,
    })?;
    scratch.clear();
    scratch.resize(length, 0);
    reader.next_frame(scratch).map_err(|e| wrong(e, bytes, bytes.len()))?;
    let pixels = width * height;
    let wanted = match colour {
        Colour::Rgb => 3,
        Colour::Grey => 1,
        Colour::Stored if stored <= 2 => 1,
        Colour::Stored => 3,
    };
    reduce(scratch, pixels, stored, wanted, &mut out.data);
    (out.width, out.height, out.channels) = (width, height, wanted);
    Ok(header)
}

/// Pixels of `stored` channels (grey, grey and alpha, RGB, RGB and alpha) as `wanted` ones (1 or 3); alpha is dropped.
pub(crate) fn reduce(from: &[u8], pixels: usize, stored: usize, wanted: usize, out: &mut Vec<u8>) {
    out.clear();
    out.resize(pixels * wanted, 0);
    let each = from[..pixels * stored].chunks_exact(stored);
    match (stored, wanted) {
        (1, 1) | (3, 3) => out.copy_from_slice(&from[..pixels * stored]),
        (2, 1) => out.iter_mut().zip(each).for_each(|(to, from)| *to = from[0]),
        (1 | 2, _) => out.chunks_exact_mut(3).zip(each).for_each(|(to, from)| to.fill(from[0])),
        (_, 1) => each.zip(out).for_each(|(from, to)| luma(&from[..3], std::slice::from_mut(to))),
        _ => out.chunks_exact_mut(3).zip(each).for_each(|(to, from)| to.copy_from_slice(&from[..3])),
    }
}

/// The pixels as a PNG file.
pub fn encode_png(pixels: &Pixels) -> Result<Vec<u8>> {
    let unstorable = |_: png::EncodingError| ImageError::Unstorable {
        width: pixels.width,
        height: pixels.height,
        channels: pixels.channels,
        bytes: pixels.data.len(),
        format: "PNG",
    };
    let side = |side: usize| u32::try_from(side).unwrap_or(0);
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, side(pixels.width), side(pixels.height));
    encoder.set_color(if pixels.channels == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgb });
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(unstorable)?;
    writer.write_image_data(&pixels.data).map_err(unstorable)?;
    writer.finish().map_err(unstorable)?;
    Ok(out)
}
