//! JPEG to pixels: baseline, extended sequential and progressive Huffman coding, 8 bits, at any scale of m/8.
//!
//! 1. `markers` walks over the segments and keeps the tables.
//! 2. A scan of all components goes block by block through `huffman` (with the tables of `lookup`) and `idct` into the
//!    strips of `planes`; any other is first collected in a `store` (`sequential`, `progressive`).
//! 3. When the blocks of a row of MCUs are in the strips, `upsample` and `colour` make pixels of them.

mod bits;
pub(crate) mod colour;
mod entropy;
mod huffman;
mod idct;
mod lookup;
mod markers;
pub(crate) mod planes;
mod progressive;
mod sequential;
mod store;
mod upsample;

use crate::error::{ImageError, Result};
use crate::exif;
use crate::simd::Simd;
use crate::{Format, Header, Limits};
use colour::Model;
use entropy::Entropy;
use markers::{Event, Frame, Tables, Walk};
use planes::{Buffers, Planes, Region};
use store::Store;

/// Blocks that the scans of any file may go over, however short it is: some twenty scans of a photo of 4,096 × 4,096 in
/// colour.
const FREE_BLOCKS: u64 = 1 << 23;
/// Blocks that scans may go over for every byte of the file beyond that. Photos have one or two; a scan of nothing but
/// runs of empty blocks has thousands, and a file may have some 900 of these for each component.
const BLOCKS_PER_BYTE: u64 = 128;

/// What is to be decoded of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecodeRequest {
    /// The scale in eighths.
    pub(crate) m: usize,
    /// The part of the scaled image, as stored (before it is turned upright).
    pub(crate) region: Region,
    /// 1 or 3.
    pub(crate) channels: usize,
}

/// Decodes JPEG files; keeps tables and memory from one to the next.
#[derive(Debug, Default)]
pub(crate) struct JpegDecoder {
    pub(crate) simd: Simd,
    tables: Tables,
    bits: bits::Bits,
    buffers: Buffers,
    blocks: [Vec<[i16; 64]>; 4],
}

/// Reads up to the frame header.
pub(crate) fn header(bytes: &[u8], limits: &Limits) -> Result<Header> {
    let mut walk = Walk::new(bytes);
    let frame = to_frame(&mut walk, limits, None)?;
    Ok(describe(&frame, &walk))
}

fn to_frame(walk: &mut Walk, limits: &Limits, tables: Option<&mut Tables>) -> Result<Frame> {
    match walk.next(limits, tables)? {
        Event::Frame(frame) => Ok(frame),
        // A scan before the frame is refused by the walk itself.
        Event::Scan(scan) => Err(ImageError::malformed("a scan before the frame header", scan.offset)),
        Event::End { .. } => {
            Err(ImageError::Truncated { what: "the segments before the frame header", offset: walk.bytes.len() })
        }
    }
}

fn describe(frame: &Frame, walk: &Walk) -> Header {
    let swapped = exif::swaps(walk.orientation);
    let (width, height) = if swapped { (frame.height, frame.width) } else { (frame.width, frame.height) };
    Header {
        format: Format::Jpeg,
        width,
        height,
        channels: frame.count,
        orientation: walk.orientation,
        progressive: frame.progressive,
    }
}

/// What the components mean, by the rules of libjpeg.
fn model(frame: &Frame, walk: &Walk) -> Model {
    let ids = [frame.components[0].id, frame.components[1].id, frame.components[2].id];
    match (frame.count, walk.adobe) {
        (1, _) => Model::Grey,
        (3, _) if walk.jfif => Model::YCbCr,
        (3, Some(0)) => Model::Rgb,
        (3, None) if ids == *b"RGB" => Model::Rgb,
        (3, _) => Model::YCbCr,
        (_, None | Some(0)) => Model::Cmyk,
        _ => Model::Ycck,
    }
}

impl JpegDecoder {
    /// Decodes what `plan` asks for, given the header; the region's pixels, as stored, are put into `out`.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        limits: &Limits,
        plan: impl FnOnce(&Header) -> DecodeRequest,
        out: &mut Vec<u8>,
    ) -> Result<(Header, DecodeRequest)> {
        self.tables.reset();
        let mut walk = Walk::new(bytes);
        let frame = to_frame(&mut walk, limits, Some(&mut self.tables))?;
        let Event::Scan(first) = walk.next(limits, Some(&mut self.tables))? else {
            return Err(ImageError::Truncated { what: "the segments before the first scan", offset: bytes.len() });
        };
        let header = describe(&frame, &walk);
        let plan = plan(&header);

        // Every block takes at least one bit (two, where details are in the same scan). Less cannot be the whole image;
        // said before memory is taken for it.
        let hmax = frame.components().iter().map(|c| c.h).max().unwrap_or(1);
        let vmax = frame.components().iter().map(|c| c.v).max().unwrap_or(1);
        let blocks: usize = frame
            .components()
            .iter()
            .map(|c| (frame.width * c.h).div_ceil(hmax * 8) * (frame.height * c.v).div_ceil(vmax * 8))
            .sum();
        let least = if frame.progressive { blocks } else { 2 * blocks };
        if (bytes.len() - first.data).saturating_mul(8) < least {
            return Err(ImageError::Truncated { what: "the coded picture", offset: bytes.len() });
        }

        let length = plan.region.width * plan.region.height * plan.channels;
        out.resize(length, 0);
        let Self { simd, tables, bits, buffers, blocks } = self;
        let model = model(&frame, &walk);
        let mut planes = Planes::new(*simd, &frame, model, plan.m, plan.region, plan.channels, buffers, out);
        if !frame.progressive && first.count == frame.count {
            for c in first.components() {
                planes.planes[c.index].quantisation = quantisation(tables, &frame, c.index, first.offset)?;
            }
            let mut entropy = Entropy::new(bytes, first.data, walk.restart_interval, bits);
            sequential::direct(*simd, &first, tables, &mut entropy, &mut planes)?;
            return Ok((header, plan));
        }

        let mut store = Store::new(&planes, blocks);
        let mut scan = first;
        let mut latched = [false; 4];
        let limit = FREE_BLOCKS.max(bytes.len() as u64 * BLOCKS_PER_BYTE);
        let mut work = 0;
        loop {
            store.note(&scan, frame.progressive)?;
            for c in scan.components() {
                let (across, down) = planes.planes[c.index].blocks;
                work += (across * down) as u64;
            }
            if work > limit {
                return Err(ImageError::TooMuchWork { what: "blocks of all scans", limit, offset: scan.offset });
            }
            for c in scan.components() {
                // A table may be redefined between scans; a component keeps the one of its first.
                if !std::mem::replace(&mut latched[c.index], true) {
                    planes.planes[c.index].quantisation = quantisation(tables, &frame, c.index, scan.offset)?;
                }
            }
            let mut entropy = Entropy::new(bytes, scan.data, walk.restart_interval, bits);
            if frame.progressive {
                progressive::scan(&scan, tables, &mut entropy, &mut store)?;
            } else {
                sequential::stored(&scan, tables, &mut entropy, &mut store)?;
            }
            walk.at = entropy.stop;
            if store.complete() {
                break;
            }
            match walk.next(limits, Some(tables))? {
                Event::Scan(next) => scan = next,
                Event::End { marked: true } if store.begun() => break,
                Event::End { .. } => {
                    return Err(ImageError::Truncated { what: "the scans of the picture", offset: bytes.len() });
                }
                Event::Frame(frame) => return Err(ImageError::malformed("a second frame header", frame.offset)),
            }
        }
        store.into_pixels(&mut planes);
        Ok((header, plan))
    }
}

fn quantisation(tables: &Tables, frame: &Frame, component: usize, offset: usize) -> Result<[i16; 64]> {
    let index = frame.components[component].quantisation;
    tables.quantisation[index].ok_or_else(|| {
        let what = format!("component {component} uses quantisation table {index}, which is not defined,");
        ImageError::malformed(what, offset)
    })
}
