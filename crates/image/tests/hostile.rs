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
    refused(b"II*\0....", "begins with 49 49 2a 00");
    refused(b"RIFF....WAVE", "neither JPEG, PNG, WebP, BMP nor GIF");
    refused(b"BM, a text that begins so", "neither JPEG");
    refused(&[0xFF], "neither JPEG");
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
    refused(&changed(&good, FRAME, 13, &[1]), "component 2, which the frame does not have");
    refused(&changed(&good, SCAN, 4, &[0]), "a scan header of 0 components");
    refused(&changed(&good, SCAN, 5, &[77]), "component 77");
    refused(&changed(&good, SCAN, 7, &[1]), "twice");
    refused(&changed(&good, SCAN, 6, &[0x90]), "Huffman tables 9");
    // Two of one name, as some encoders write them, are taken in their order.
    let alike = changed(&changed(&good, FRAME, 13, &[1]), SCAN, 7, &[1]);
    assert_eq!(decode(&alike).unwrap().data, decode(&good).unwrap().data);
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

/// The same for the formats whose decoders are not ours; of an animation the first frame alone must be there.
#[test]
fn other_formats_cut_at_every_byte() {
    for name in OTHERS {
        let whole = fixture(name);
        let expected = decode(&whole).unwrap();
        let mut whole_enough = 0;
        for length in 0..whole.len() {
            if let Ok(pixels) = decode(&whole[..length]) {
                assert!(pixels == expected, "{name}: {length} of {} bytes", whole.len());
                whole_enough += 1;
            }
        }
        let end = if name.starts_with("animated") { whole.len() } else { 4 };
        assert!(whole_enough <= end, "{name}: {whole_enough} lengths are enough");
    }
}

const OTHERS: [&str; 9] = [
    "lossy.webp",
    "lossless.webp",
    "lossy_alpha.webp",
    "animated.webp",
    "rgb.bmp",
    "palette.bmp",
    "palette.gif",
    "interlaced.gif",
    "animated.gif",
];

#[test]
fn sizes_of_other_formats() {
    let mut gif = fixture("palette.gif");
    gif[6..10].fill(0xFF);
    refused(&gif, "65535×65535 pixels");
    gif[6..10].fill(0);
    refused(&gif, "0×0 pixels");
    let mut bmp = fixture("rgb.bmp");
    bmp[18..26].copy_from_slice(&[0, 0, 0, 0x40, 0, 0, 0, 0x80]);
    refused(&bmp, "1073741824×2147483648 pixels");
    // Within the limit, but the bytes cannot hold it.
    bmp[18..26].copy_from_slice(&[0, 0x20, 0, 0, 0, 0x10, 0, 0]);
    refused(&bmp, "for that length");
    let mut lossless = fixture("lossless.webp");
    lossless[21..25].fill(0xFF);
    refused(&lossless, "16384×16384 pixels");
    let mut extended = fixture("animated.webp");
    assert_eq!(&extended[12..16], b"VP8X");
    extended[24..30].fill(0xFF);
    refused(&extended, "16777216×16777216 pixels");
    let tight = Limits { pixels: 100 };
    for name in OTHERS {
        assert!(matches!(header(&fixture(name), &tight), Err(ImageError::TooLarge { limit: 100, .. })), "{name}");
    }
}

/// Small files that unpack to large pictures: refused by a limit that goes with their length.
#[test]
fn pictures_that_are_far_larger_than_their_files() {
    let mut bits = Vec::new();
    let mut encoder = png::Encoder::new(&mut bits, 8192, 8192);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    encoder.write_header().unwrap().write_image_data(&vec![0; 8192 * 1024]).unwrap();
    let mut webp = Vec::new();
    let encoder = image::codecs::webp::WebPEncoder::new_lossless(&mut webp);
    encoder.encode(&vec![7; 3 * 5000 * 5000], 5000, 5000, image::ExtendedColorType::Rgb8).unwrap();
    for (bytes, size) in [(bits, 8192), (webp, 5000)] {
        assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
        assert_eq!(header(&bytes, &Limits::default()).unwrap().width, size);
        let error = decode(&bytes).unwrap_err();
        assert!(matches!(error, ImageError::TooDense { width, .. } if width == size), "{error}");
    }
}

/// Chunks of no use may come by the thousand.
#[test]
fn png_with_more_than_its_picture() {
    let small = Pixels { width: 2, height: 1, channels: 1, data: vec![1, 2] };
    let plain = paceline_image::encode_png(&small).unwrap();
    let at = plain.windows(4).position(|w| w == b"IDAT").unwrap() - 4;
    let chunk = |kind: &[u8], content: &[u8]| {
        let mut chunk = (content.len() as u32).to_be_bytes().to_vec();
        chunk.extend(kind);
        chunk.extend(content);
        let crc = chunk[4..].iter().fold(!0u32, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
        });
        chunk.extend((!crc).to_be_bytes());
        chunk
    };
    let mut many = plain[..at].to_vec();
    for number in 0..20_000u32 {
        many.extend(chunk(b"tEXt", &number.to_be_bytes()));
    }
    many.extend(&plain[at..]);
    assert_eq!(decode(&many).unwrap(), decode(&plain).unwrap());
}

/// A grey progressive JPEG of `side`² pixels: the means in a bit for each block, then `scans` that say that nothing more
/// comes, 16,384 blocks in fifteen bits.
fn empty_scans(side: u16, scans: usize) -> Vec<u8> {
    let [high, low] = side.to_be_bytes();
    let mut bytes = vec![0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0];
    bytes.extend([1; 64]);
    bytes.extend([0xFF, 0xC2, 0, 11, 8, high, low, high, low, 1, 1, 0x11, 0]);
    for (class, symbol) in [(0x00, 0x00), (0x10, 0xE0)] {
        bytes.extend([0xFF, 0xC4, 0, 20, class, 1]);
        bytes.extend([0; 15]);
        bytes.push(symbol);
    }
    let blocks = usize::from(side).div_ceil(8).pow(2);
    bytes.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, 0, 0, 0]);
    bytes.extend(vec![0; blocks.div_ceil(8)]);
    let turns = (1..64u8).flat_map(|k| (0..14u8).rev().map(move |low| (k, low)));
    for (k, low) in turns.take(scans) {
        let high = if low == 13 { 0 } else { low + 1 };
        bytes.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, k, k, high << 4 | low]);
        bytes.extend(vec![0; (blocks.div_ceil(1 << 14) * 15).div_ceil(8)]);
    }
    bytes.extend([0xFF, 0xD9]);
    bytes
}

#[test]
fn scans_that_cost_more_than_their_size() {
    assert!(decode(&empty_scans(64, 880)).is_ok(), "many scans of a small image cost little");
    assert!(decode(&empty_scans(4096, 20)).is_ok());
    let bomb = empty_scans(4096, 800);
    assert!(bomb.len() < 80_000);
    assert!(matches!(decode(&bomb), Err(ImageError::TooMuchWork { what: "blocks of all scans", .. })));
}

#[test]
fn tables_that_cost_more_than_their_size() {
    let good = fixture("420.jpg");
    let at = find(&good, SCAN);
    let mut bomb = good[..at].to_vec();
    for number in 0..5_000u32 {
        bomb.extend([0xFF, 0xC4, 0, 20, 0x13, 1]);
        bomb.extend([0; 15]);
        bomb.push((number % 160) as u8);
    }
    bomb.extend(&good[at..]);
    assert!(matches!(decode(&bomb), Err(ImageError::TooMuchWork { what: "Huffman tables", .. })));
}

#[test]
fn every_flipped_byte_gives_pixels_or_an_error() {
    let target = Target { width: 5, height: 7, fit: Fit::Crop, full: false };
    let mut decoder = Decoder::new(Limits { pixels: 1 << 20 });
    let mut pixels = Pixels::default();
    let ours = ["420.jpg", "progressive_420.jpg", "restart_progressive.jpg", "411.jpg", "ycck.jpg", "png_grey_alpha"];
    for name in ours.into_iter().chain(OTHERS) {
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
