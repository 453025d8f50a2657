//! Files made to harm: each gets its own error that says where, without panic and without memory for what it claims.

use paceline_image::{Colour, Decoder, Fit, ImageError, Limits, Pixels, Target, header};
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

fn decode(bytes: &[u8]) -> Result<Pixels, ImageError> {
    let mut pixels = Pixels::default();
    Decoder::new(Limits::default()).decode(bytes, Colour::Rgb, &mut pixels).map(|_| pixels)
}

/// Refused with a message that has `part` in it, and that names a byte.
#[track_caller]
fn refused(bytes: &[u8], part: &str) {
    let error = decode(bytes).expect_err("to be refused").to_string();
    assert!(error.contains(part), "`{error}` does not say `{part}`");
    assert!(error.contains("byte "), "`{error}` names no byte");
}

/// Where a marker's segment begins (at its 0xFF).
fn find(bytes: &[u8], marker: u8) -> usize {
    bytes.windows(2).position(|w| w == [0xFF, marker]).expect("the marker")
}

fn changed(bytes: &[u8], marker: u8, offset: usize, value: &[u8]) -> Vec<u8> {
    let at = find(bytes, marker) + offset;
    let mut bytes = bytes.to_vec();
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

fn without(bytes: &[u8], marker: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = bytes.windows(2).position(|w| w == [0xFF, marker]) {
        let length = usize::from(u16::from_be_bytes([bytes[at + 2], bytes[at + 3]]));
        bytes.drain(at..at + 2 + length);
    }
    bytes
}

const FRAME: u8 = 0xC0;
const SCAN: u8 = 0xDA;

#[test]
fn not_an_image() {
    refused(b"", "begins with nothing");
    refused(b"GIF89a..", "begins with 47 49 46 38 39 61");
    refused(&[0xFF], "neither JPEG nor PNG");
    refused(&[0xFF, 0xD8], "before the frame header");
}

#[test]
fn sizes() {
    let good = fixture("420.jpg");
    refused(&changed(&good, FRAME, 5, &[0xFF; 4]), "65535×65535 pixels");
    refused(&changed(&good, FRAME, 5, &[0; 4]), "a frame of 0×0 pixels");
    refused(&changed(&good, FRAME, 5, &[0, 0, 0, 9]), "a frame of 9×0 pixels");
    // Within the limit, but the bytes cannot hold it.
    refused(&changed(&good, FRAME, 5, &[0x20, 0, 0x20, 0]), "within the coded picture");
    let tight = Limits { pixels: 100 };
    assert!(matches!(header(&good, &tight), Err(ImageError::TooLarge { limit: 100, .. })));
    let mut png = fixture("png_rgb");
    png[16..24].fill(0x7F);
    refused(&png, "more than the limit");
    let mut png = fixture("png_rgb");
    png[16..24].copy_from_slice(&[0, 0, 0x20, 0, 0, 0, 0x20, 0]);
    assert!(decode(&png).is_err());
}

#[test]
fn components() {
    let good = fixture("420.jpg");
    refused(&changed(&good, FRAME, 9, &[0]), "0 components");
    refused(&changed(&good, FRAME, 9, &[255]), "255 components");
    for factors in [0x00, 0x10, 0x01, 0x51, 0x15, 0xFF] {
        refused(&changed(&good, FRAME, 11, &[factors]), "sampling factors");
    }
    refused(&changed(&good, FRAME, 12, &[4]), "quantisation table 4");
    refused(&changed(&good, FRAME, 13, &[1]), "two components named 1");
    refused(&changed(&good, SCAN, 4, &[0]), "a scan header of 0 components");
    refused(&changed(&good, SCAN, 5, &[77]), "component 77");
    refused(&changed(&good, SCAN, 7, &[1]), "twice");
    refused(&changed(&good, SCAN, 6, &[0x90]), "Huffman tables 9");
}

#[test]
fn tables() {
    let good = fixture("420.jpg");
    refused(&without(&good, 0xC4), "Huffman table 0, which is not defined");
    refused(&without(&good, 0xDB), "quantisation table 0, which is not defined");
    refused(&without(&good, FRAME), "a scan before the frame header");
    refused(&without(&good, SCAN), "before the first scan");
    refused(&changed(&good, 0xC4, 5, &[3, 0, 5, 1, 1, 1, 1, 0, 0]), "more codes than bits");
    refused(&changed(&good, 0xC4, 5, &[255; 16]), "symbols");
    refused(&changed(&good, 0xC4, 4, &[0x25]), "class 2");
    refused(&changed(&good, 0xDB, 4, &[0x20]), "precision 2");
    refused(&changed(&good, 0xDB, 2, &[0, 1]), "a segment of length 1");
    refused(&changed(&good, 0xDB, 2, &[0xFF, 0xFF]), "within a quantisation table");
}

#[test]
fn kinds_that_are_not_read() {
    let good = fixture("420.jpg");
    refused(&changed(&good, FRAME, 1, &[0xC3]), "lossless JPEG");
    refused(&changed(&good, FRAME, 1, &[0xC5]), "hierarchical JPEG");
    refused(&changed(&good, FRAME, 1, &[0xC9]), "arithmetic coding");
    refused(&changed(&good, FRAME, 4, &[12]), "12 bits a sample");
    let mut with_lines = good.clone();
    let at = find(&good, SCAN);
    with_lines.splice(at..at, [0xFF, 0xDC, 0, 4, 0, 9]);
    refused(&with_lines, "DNL");
}

#[test]
fn restarts_that_do_not_fit() {
    let good = fixture("restart_1.jpg");
    refused(&changed(&good, 0xDD, 4, &[0, 2]), "ends too early");
    refused(&changed(&good, 0xD0, 1, &[0xD5]), "in place of restart marker D0");
    refused(&changed(&good, 0xDD, 4, &[0, 0]), "ends too early");
    let plain = fixture("420.jpg");
    let mut asking = plain.clone();
    let at = find(&plain, SCAN);
    asking.splice(at..at, [0xFF, 0xDD, 0, 4, 0, 1]);
    refused(&asking, "in place of restart marker D0");
}

#[test]
fn bombs_of_scans() {
    let good = fixture("progressive_444.jpg");
    let at = find(&good, SCAN);
    // The scan of means again and again: each bit may come but once.
    let end = at + 2 + good[at + 2..].windows(2).position(|w| w[0] == 0xFF && w[1] != 0 && w[1] != 0xFF).unwrap();
    let scan = &good[at..end];
    let mut bomb = good[..end].to_vec();
    for _ in 0..10_000 {
        bomb.extend_from_slice(scan);
    }
    refused(&bomb, "out of turn");
    // Scans without data.
    let empty = [0xFF, SCAN, 0, 8, 1, 1, 0, 1, 63, 0];
    let mut bomb = good[..end].to_vec();
    for _ in 0..10_000 {
        bomb.extend_from_slice(&empty);
    }
    assert!(decode(&bomb).is_err());
    let mut second = fixture("420.jpg");
    let frame = find(&second, FRAME);
    let copy = second[frame..frame + 19].to_vec();
    second.splice(frame..frame, copy);
    refused(&second, "a second frame header");
}

/// Cut anywhere, an image is an error: no grey rest. (Without its end marker alone it is whole.)
#[test]
fn cut_at_every_byte() {
    for name in
        ["420.jpg", "444.jpg", "grey.jpg", "progressive_420.jpg", "restart_1.jpg", "cmyk.jpg", "png_rgb", "png_palette"]
    {
        let whole = fixture(name);
        let expected = decode(&whole).unwrap();
        for length in 0..whole.len() {
            match decode(&whole[..length]) {
                Ok(pixels) => {
                    let end = if name.starts_with("png") { 16 } else { 2 };
                    assert!(length >= whole.len() - end, "{name}: {length} of {} bytes are enough", whole.len());
                    assert!(pixels == expected, "{name}: {length}");
                }
                Err(ImageError::Truncated { offset, .. }) => assert_eq!(offset, length, "{name}"),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn every_flipped_byte_gives_pixels_or_an_error() {
    let target = Target { width: 5, height: 7, fit: Fit::Crop, full: false };
    let mut decoder = Decoder::new(Limits { pixels: 1 << 20 });
    let mut pixels = Pixels::default();
    for name in ["420.jpg", "progressive_420.jpg", "restart_progressive.jpg", "411.jpg", "ycck.jpg", "png_grey_alpha"] {
        let whole = fixture(name);
        for at in 0..whole.len() {
            for flip in [0x01, 0x10, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                if decoder.decode(&bytes, Colour::Stored, &mut pixels).is_ok() {
                    assert_eq!(pixels.data.len(), pixels.width * pixels.height * pixels.channels);
                }
                if let Ok((_, window)) = decoder.decode_for(&bytes, Colour::Grey, &target, &mut pixels) {
                    assert!(window.left + window.width <= pixels.width as f64 + 1e-9);
                    assert!(window.top + window.height <= pixels.height as f64 + 1e-9);
                }
            }
        }
    }
}
