//! The segments of a JPEG file: sizes, tables and what the components mean. No length is trusted.

use super::huffman::Huffman;
use crate::Limits;
use crate::cosine::ORDER;
use crate::error::{ImageError, Result};
use crate::exif;

/// One component as the frame header states it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Component {
    pub(super) id: u8,
    /// Sampling factors.
    pub(super) h: usize,
    pub(super) v: usize,
    /// Which quantisation table.
    pub(super) quantisation: usize,
}

/// The frame header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) progressive: bool,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) components: [Component; 4],
    pub(super) count: usize,
    /// Where the header stands.
    pub(super) offset: usize,
}

impl Frame {
    pub(super) fn components(&self) -> &[Component] {
        &self.components[..self.count]
    }
}

/// A component's part in a scan.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScanComponent {
    pub(super) index: usize,
    pub(super) dc: usize,
    pub(super) ac: usize,
}

/// A scan header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) components: [ScanComponent; 4],
    pub(super) count: usize,
    /// First and last coefficient.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Successive approximation: bits before and after.
    pub(super) high: u32,
    pub(super) low: u32,
    /// Where the header stands, and where the entropy-coded data begins.
    pub(super) offset: usize,
    pub(super) data: usize,
}

impl Scan {
    pub(super) fn components(&self) -> &[ScanComponent] {
        &self.components[..self.count]
    }
}

/// Huffman tables that an image may define. Each of at most a hundred scans needs a few; building one takes as long as
/// decoding some thousand bytes, and stating one takes twenty.
const MOST_TABLES: u64 = 1024;

/// Tables that segments define. Kept from image to image: most state the same ones, which need not be built again.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// In the order of [`ORDER`]; 16-bit values wrap, which products of 16 bits do as well.
    pub(super) quantisation: [Option<[i16; 64]>; 4],
    huffman: [[Option<Huffman>; 4]; 2],
    defined: [[Defined; 4]; 2],
    /// How many this image has made us build.
    built: u64,
}

/// What this image has said of a Huffman table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Defined {
    #[default]
    No,
    Yes,
    /// It cannot be one, which matters only to a scan that uses it; the offset is where it stands.
    Wrong(usize),
}

impl Tables {
    /// Forgets what an earlier image defined.
    pub(super) fn reset(&mut self) {
        self.quantisation = [None; 4];
        self.defined = [[Defined::No; 4]; 2];
        self.built = 0;
    }

    pub(super) fn dc(&self, index: usize, offset: usize) -> Result<&Huffman> {
        self.huffman(0, index, offset)
    }

    pub(super) fn ac(&self, index: usize, offset: usize) -> Result<&Huffman> {
        self.huffman(1, index, offset)
    }

    fn huffman(&self, class: usize, index: usize, offset: usize) -> Result<&Huffman> {
        match (&self.huffman[class][index], self.defined[class][index]) {
            (Some(table), Defined::Yes) => Ok(table),
            (_, Defined::Wrong(at)) => Err(ImageError::malformed(
                format!("a scan uses {} Huffman table {index}, which has more codes than bits,", ["DC", "AC"][class]),
                at,
            )),
            _ => Err(ImageError::malformed(
                format!("a scan uses {} Huffman table {index}, which is not defined,", ["DC", "AC"][class]),
                offset,
            )),
        }
    }
}

/// What came next.
pub(super) enum Event {
    Frame(Frame),
    Scan(Scan),
    /// The end: as marked, or of the bytes.
    End {
        marked: bool,
    },
}

/// Walks over the segments.
pub(super) struct Walk<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    frame: Option<Frame>,
    pub(super) orientation: u8,
    pub(super) restart_interval: usize,
    pub(super) jfif: bool,
    /// The colour transform that an Adobe segment states.
    pub(super) adobe: Option<u8>,
}

impl<'a> Walk<'a> {
    /// After the two bytes that every JPEG begins with.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 2, frame: None, orientation: 1, restart_interval: 0, jfif: false, adobe: None }
    }

    /// The next marker; `None` at the end of the bytes. Bytes between segments that belong to nothing are passed over,
    /// as other decoders do.
    pub(super) fn marker(&mut self) -> Option<u8> {
        loop {
            let skip = self.bytes.get(self.at..)?.iter().position(|&b| b == 0xFF)?;
            self.at += skip;
            while *self.bytes.get(self.at)? == 0xFF {
                self.at += 1;
            }
            self.at += 1;
            match self.bytes[self.at - 1] {
                0 => {}
                marker => return Some(marker),
            }
        }
    }

    /// The body of the segment whose marker was just read.
    fn segment(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let truncated = ImageError::Truncated { what, offset: self.bytes.len() };
        let length = match self.bytes.get(self.at..self.at + 2) {
            Some(two) => usize::from(u16::from_be_bytes([two[0], two[1]])),
            None => return Err(truncated),
        };
        if length < 2 {
            return Err(ImageError::malformed(format!("a segment of length {length}"), self.at));
        }
        let body = self.bytes.get(self.at + 2..self.at + length).ok_or(truncated)?;
        self.at += length;
        Ok(body)
    }

    /// Goes on to the next frame or scan header, or to the end; tables on the way are put into `tables` (if given).
    pub(super) fn next(&mut self, limits: &Limits, mut tables: Option<&mut Tables>) -> Result<Event> {
        loop {
            let Some(marker) = self.marker() else {
                return Ok(Event::End { marked: false });
            };
            let offset = self.at - 2;
            match marker {
                0xD9 => return Ok(Event::End { marked: true }),
                0xD8 => return Err(ImageError::malformed("a second start of image", offset)),
                0x01 | 0xD0..=0xD7 => {}
                0xC0..=0xC2 => {
                    let body = self.segment("the frame header")?;
                    if self.frame.is_some() {
                        return Err(ImageError::malformed("a second frame header", offset));
                    }
                    let frame = frame(body, marker == 0xC2, offset, limits)?;
                    self.frame = Some(frame);
                    return Ok(Event::Frame(frame));
                }
                0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF => {
                    let what = match marker {
                        0xC3 => "lossless JPEG",
                        0xC5..=0xC7 => "hierarchical JPEG",
                        _ => "arithmetic coding",
                    };
                    return Err(ImageError::unsupported(what, offset));
                }
                0xCC => return Err(ImageError::unsupported("arithmetic coding", offset)),
                // Reserved, or of kinds that nobody uses: bytes like these are damage, whatever length they state.
                0x02..=0xBF | 0xC8 | 0xDE | 0xDF | 0xF0..=0xFD => {
                    return Err(ImageError::malformed(
                        format!("marker {marker:02X}, which stands for nothing,"),
                        offset,
                    ));
                }
                0xDC => return Err(ImageError::unsupported("a number of lines after the first scan (DNL)", offset)),
                0xC4 => {
                    let body = self.segment("a Huffman table")?;
                    if let Some(tables) = tables.as_deref_mut() {
                        huffman(body, offset, tables)?;
                    }
                }
                0xDB => {
                    let body = self.segment("a quantisation table")?;
                    if let Some(tables) = tables.as_deref_mut() {
                        quantisation(body, offset, tables)?;
                    }
                }
                0xDD => match self.segment("the restart interval")? {
                    &[a, b] => self.restart_interval = usize::from(u16::from_be_bytes([a, b])),
                    _ => return Err(ImageError::malformed("a restart interval that is not two bytes", offset)),
                },
                0xDA => {
                    let body = self.segment("a scan header")?;
                    let Some(frame) = &self.frame else {
                        return Err(ImageError::malformed("a scan before the frame header", offset));
                    };
                    return Ok(Event::Scan(scan(body, frame, offset, self.at)?));
                }
                0xE0 => self.jfif |= self.segment("an application segment")?.starts_with(b"JFIF\0"),
                0xE1 => {
                    if let Some(tiff) = self.segment("an application segment")?.strip_prefix(b"Exif\0\0") {
                        self.orientation = exif::orientation(tiff).unwrap_or(self.orientation);
                    }
                }
                0xEE => {
                    let body = self.segment("an application segment")?;
                    if body.starts_with(b"Adobe") && body.len() >= 12 {
                        self.adobe = Some(body[11]);
                    }
                }
                _ => {
                    self.segment("a segment")?;
                }
            }
        }
    }
}

fn frame(body: &[u8], progressive: bool, offset: usize, limits: &Limits) -> Result<Frame> {
    let malformed = |what: String| Err(ImageError::malformed(what, offset));
    let &[precision, h1, h0, w1, w0, count, ref rest @ ..] = body else {
        return malformed("a frame header that is too short".into());
    };
    if precision != 8 {
        return Err(ImageError::unsupported(format!("a JPEG of {precision} bits a sample"), offset));
    }
    let (width, height) = (usize::from(u16::from_be_bytes([w1, w0])), usize::from(u16::from_be_bytes([h1, h0])));
    if width == 0 || height == 0 {
        return malformed(format!("a frame of {width}×{height} pixels"));
    }
    if width as u64 * height as u64 > limits.pixels {
        return Err(ImageError::TooLarge { width, height, limit: limits.pixels, offset });
    }
    let count = usize::from(count);
    if count == 0 || rest.len() != 3 * count {
        return malformed(format!("a frame header of {count} components in {} bytes", rest.len()));
    }
    if !matches!(count, 1 | 3 | 4) {
        return Err(ImageError::unsupported(format!("a JPEG of {count} components"), offset));
    }
    let mut components = [Component::default(); 4];
    for (i, three) in rest.chunks_exact(3).enumerate() {
        let (h, v) = (usize::from(three[1] >> 4), usize::from(three[1] & 15));
        if !(1..=4).contains(&h) || !(1..=4).contains(&v) {
            return malformed(format!("sampling factors {h}×{v} of component {i}"));
        }
        if three[2] > 3 {
            return malformed(format!("quantisation table {} of component {i}", three[2]));
        }
        components[i] = Component { id: three[0], h, v, quantisation: usize::from(three[2]) };
    }
    if count == 1 {
        // Alone, a component is not interleaved, whatever its factors.
        (components[0].h, components[0].v) = (1, 1);
    }
    Ok(Frame { progressive, width, height, components, count, offset })
}

fn scan(body: &[u8], frame: &Frame, offset: usize, data: usize) -> Result<Scan> {
    let malformed = |what: String| Err(ImageError::malformed(what, offset));
    let count = usize::from(*body.first().unwrap_or(&0));
    if !(1..=4).contains(&count) || body.len() != 2 * count + 4 {
        return malformed(format!("a scan header of {count} components in {} bytes", body.len()));
    }
    let mut components = [ScanComponent::default(); 4];
    for (i, two) in body[1..1 + 2 * count].chunks_exact(2).enumerate() {
        // Some encoders give two components one name, against the standard: they are meant in the frame's order.
        let mut named = frame.components().iter().enumerate().filter(|(_, c)| c.id == two[0]).map(|(index, _)| index);
        if named.clone().next().is_none() {
            return malformed(format!("a scan of component {}, which the frame does not have,", two[0]));
        }
        let Some(index) = named.find(|index| components[..i].iter().all(|c| c.index != *index)) else {
            return malformed(format!("a scan that has component {} twice", two[0]));
        };
        components[i] = ScanComponent { index, dc: usize::from(two[1] >> 4), ac: usize::from(two[1] & 15) };
    }
    let (first, last) = (usize::from(body[1 + 2 * count]), usize::from(body[2 + 2 * count]));
    let (high, low) = (u32::from(body[3 + 2 * count] >> 4), u32::from(body[3 + 2 * count] & 15));
    if frame.progressive {
        let bits = low <= 13 && (high == 0 || high == low + 1);
        let band = if first == 0 { last == 0 } else { first <= last && last < 64 && count == 1 };
        if !bits || !band {
            return malformed(format!("a progressive scan of coefficients {first} to {last}, bits {high} to {low}"));
        }
    }
    // A progressive scan has means or details, and refined means have no codes: what it does not use may be anything.
    let (means, details) = if frame.progressive { (first == 0 && high == 0, first > 0) } else { (true, true) };
    for c in &components[..count] {
        if (means && c.dc > 3) || (details && c.ac > 3) {
            return malformed(format!("a scan with Huffman tables {} and {}", c.dc, c.ac));
        }
    }
    Ok(Scan { components, count, first, last, high, low, offset, data })
}

fn huffman(mut body: &[u8], offset: usize, tables: &mut Tables) -> Result<()> {
    while !body.is_empty() {
        let Some((head, rest)) = body.split_at_checked(17) else {
            return Err(ImageError::malformed("a Huffman table that is too short", offset));
        };
        let (class, index) = (usize::from(head[0] >> 4), usize::from(head[0] & 15));
        if class > 1 || index > 3 {
            return Err(ImageError::malformed(format!("Huffman table {index} of class {class}"), offset));
        }
        let lengths: &[u8; 16] = head[1..].try_into().expect("sixteen lengths");
        let symbols = lengths.iter().map(|&n| usize::from(n)).sum::<usize>();
        if symbols > 256 || symbols > rest.len() {
            return Err(ImageError::malformed(format!("a Huffman table of {symbols} symbols"), offset));
        }
        let (symbols, rest) = rest.split_at(symbols);
        let place = &mut tables.huffman[class][index];
        if !place.as_ref().is_some_and(|table| table.is(class == 1, lengths, symbols)) {
            tables.built += 1;
            if tables.built > MOST_TABLES {
                return Err(ImageError::TooMuchWork { what: "Huffman tables", limit: MOST_TABLES, offset });
            }
            *place = Huffman::new(class == 1, lengths, symbols);
        }
        tables.defined[class][index] = if place.is_some() { Defined::Yes } else { Defined::Wrong(offset) };
        body = rest;
    }
    Ok(())
}

fn quantisation(mut body: &[u8], offset: usize, tables: &mut Tables) -> Result<()> {
    while let Some((&head, rest)) = body.split_first() {
        let (wide, index) = (head >> 4, usize::from(head & 15));
        if wide > 1 || index > 3 {
            return Err(ImageError::malformed(format!("quantisation table {index} of precision {wide}"), offset));
        }
        let Some((values, rest)) = rest.split_at_checked(if wide == 1 { 128 } else { 64 }) else {
            return Err(ImageError::malformed("a quantisation table that is too short", offset));
        };
        let mut table = [0; 64];
        for (k, &at) in ORDER.iter().enumerate() {
            table[usize::from(at)] = match wide {
                1 => i16::from_be_bytes([values[2 * k], values[2 * k + 1]]),
                _ => i16::from(values[k]),
            };
        }
        tables.quantisation[index] = Some(table);
        body = rest;
    }
    Ok(())
}
