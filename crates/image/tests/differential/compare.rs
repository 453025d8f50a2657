//! What two decoders made of the same file, put into a class. Every class but [`Class::Finding`] is a difference (or none)
//! that is meant, with its reason.

use crate::libjpeg::{self, Decoded};
use paceline_image::{Colour, Decoder, ImageError, Pixels};

/// Larger files are not looked at.
pub(crate) const PIXELS: usize = 64 * 64;

/// Samples of a block that stay within this of the middle grey are transformed to the same bits by all of libjpeg's
/// code: beyond it the C code wraps at ten bits (`RANGE_MASK`), while its vector code, and ours, saturate.
const IN_RANGE: f64 = 500.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Both decode it, to the same bits.
    Same,
    /// Both refuse it.
    BothRefuse,
    /// More pixels than are looked at here.
    TooLarge,
    /// Both decode it; a block has coefficients that no picture has, and is beyond what either defines.
    OutOfRange,
    /// libjpeg says that the data is damaged and fills in grey; ours refuses, since it would be trained on.
    Damaged,
    /// A kind of JPEG that ours does not read, and says so.
    Unsupported,
    /// Ours stops where the picture is complete; libjpeg reads on to the end of the file, and refuses what it
    /// finds there, or lets a scan that comes again overwrite the picture.
    AfterThePicture,
    /// A fill byte before a stuffed one (FF FF 00), which the standard forbids, and both take for one byte FF. In libjpeg
    /// its fast path stops there, and leaves in the block what it had read beyond.
    Filled,
    /// A kind of JPEG that libjpeg does not read: see [`MORE`].
    More,
    /// Damage that ours refuses and libjpeg does not notice: see [`UNNOTICED`].
    Unnoticed,
    /// A difference that is not meant.
    Finding,
}

/// What ours says of files that libjpeg decodes without a word, and why that is meant.
const UNNOTICED: &[(&str, &str)] = &[
    ("a coefficient beyond the last of its block", "libjpeg drops it; the rest of the scan is noise"),
    ("a bit pattern that is no Huffman code", "libjpeg's fast path takes it for 0; the rest of the scan is noise"),
    ("which is not defined,", "libjpeg assumes the tables that the standard prints, as Motion-JPEG does"),
    ("out of turn,", "libjpeg reads scans that come again, each for some bytes, as often as a file has them"),
    ("a segment of length", "no segment is shorter than its own length; libjpeg takes it for an empty one"),
    ("ends too early, with a marker", "one of the faults above, in the last two bytes"),
    ("within the scans of the picture", "libjpeg fills in grey for components whose scans never come"),
    ("before its means", "forbidden by the standard (G.1.1.1.1)"),
];

/// Why libjpeg refuses files that ours decodes, and why that is meant.
const MORE: &[(&str, &str)] = &[
    ("Fractional sampling not implemented yet", "ours takes the nearest sample where factors do not divide"),
    ("Invalid component ID %d in SOS", "components in another order than the frame's, which changes nothing"),
    (
        "Sampling factors too large for interleaved scan",
        "a limit of libjpeg's memory for an MCU, which ours does not have",
    ),
];

/// Decodes with both and compares. The text says what was found.
pub(crate) fn compare(decoder: &mut Decoder, pixels: &mut Pixels, bytes: &[u8]) -> (Class, String) {
    let ours = decoder.decode(bytes, Colour::Stored, pixels);
    let theirs = libjpeg::decode(bytes, PIXELS);
    match (ours, theirs) {
        (Err(ImageError::TooLarge { .. }), _) | (_, Ok(None)) => (Class::TooLarge, String::new()),
        (Err(_), Err(_)) => (Class::BothRefuse, String::new()),
        (Err(error), Ok(Some(theirs))) => refused(&error, &theirs),
        (Ok(_), Err(error)) if MORE.iter().any(|(words, _)| error == *words) => (Class::More, error.into()),
        (Ok(_), Err(error)) => {
            match cut(bytes).find_map(|cut| libjpeg::decode(&cut, PIXELS).ok().flatten().map(|d| (cut, d))) {
                Some((cut, theirs)) => match same(pixels, &theirs, &cut) {
                    Class::Finding => (Class::Finding, format!("pixels differ before the damage; libjpeg: {error}")),
                    Class::Same => (Class::AfterThePicture, error.into()),
                    class => (class, error.into()),
                },
                None => (Class::Finding, format!("ours decodes it; libjpeg: {error}")),
            }
        }
        (Ok(header), Ok(Some(theirs))) => {
            let words = format!("libjpeg warns {:?}", theirs.warnings);
            if header.orientation != 1 {
                return (Class::Finding, "a seed has an orientation; libjpeg does not turn".into());
            }
            let class = same(pixels, &theirs, bytes);
            (class, format!("pixels differ by up to {}; {words}", difference(pixels, &theirs)))
        }
    }
}

/// Whether two decoders made the same of a file.
fn same(pixels: &Pixels, theirs: &Decoded, bytes: &[u8]) -> Class {
    if difference(pixels, theirs) == 0 {
        return Class::Same;
    }
    // Coefficients are read to the end of the file; what is wrong there is none of their business.
    let amplitude =
        libjpeg::amplitude(bytes).or_else(|e| cut(bytes).find_map(|cut| libjpeg::amplitude(&cut).ok()).ok_or(e));
    if amplitude.is_ok_and(|most| most > IN_RANGE) {
        return Class::OutOfRange;
    }
    // A scan that comes again overwrites the picture in libjpeg.
    let before = cut(bytes)
        .any(|cut| libjpeg::decode(&cut, PIXELS).ok().flatten().is_some_and(|theirs| difference(pixels, &theirs) == 0));
    if before {
        return Class::AfterThePicture;
    }
    if bytes.windows(3).any(|three| three == [0xFF, 0xFF, 0]) { Class::Filled } else { Class::Finding }
}

/// The file, ended at each of the markers behind its first scan, the longest first.
fn cut(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let scan = bytes.windows(2).position(|two| two == [0xFF, 0xDA]).unwrap_or(bytes.len());
    let marker = |at: &usize| bytes[*at] == 0xFF && !matches!(bytes[at + 1], 0 | 0xD0..=0xD7 | 0xFF);
    let ends: Vec<usize> = (scan + 2..bytes.len().saturating_sub(1)).filter(marker).collect();
    ends.into_iter().rev().map(|end| [&bytes[..end], &[0xFF, 0xD9]].concat())
}

/// Ours refuses what libjpeg decodes.
fn refused(error: &ImageError, theirs: &Decoded) -> (Class, String) {
    let text = format!("ours: {error}; libjpeg decodes it, warning {:?}", theirs.warnings);
    match error {
        ImageError::Unsupported { .. } => (Class::Unsupported, text),
        _ if !theirs.warnings.is_empty() => (Class::Damaged, text),
        _ if UNNOTICED.iter().any(|(words, _)| text.contains(words)) => (Class::Unnoticed, text),
        _ => (Class::Finding, text),
    }
}

/// The largest difference of two samples; ink is turned to light as Pillow does (and ours after it).
fn difference(pixels: &Pixels, theirs: &Decoded) -> u8 {
    if (pixels.width, pixels.height) != (theirs.width, theirs.height) {
        return u8::MAX;
    }
    let far = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    match (pixels.channels, theirs.channels) {
        (a, b) if a == b => far(&pixels.data, &theirs.data),
        (3, 4) => {
            let light = |ink: &[u8]| {
                let white = f64::from(ink[3]);
                [0, 1, 2].map(|i| (white - (f64::from(255 - ink[i]) * white / 255.0).round()) as u8)
            };
            let light: Vec<u8> = theirs.data.chunks_exact(4).flat_map(light).collect();
            far(&pixels.data, &light)
        }
        _ => u8::MAX,
    }
}
