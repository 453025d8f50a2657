//! Files that another program wrote, and the pixels it decodes them to: `fixtures/make.py` makes both with libjpeg-turbo.

use paceline_image::{Chroma, Colour, Decoder, Encoder, Format, Limits, Pixels, header};
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn decode(bytes: &[u8], colour: Colour) -> Pixels {
    let mut pixels = Pixels::default();
    let header = Decoder::new(Limits::default()).decode(bytes, colour, &mut pixels).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((header.width, header.height), (pixels.width, pixels.height));
    assert_eq!(pixels.data.len(), pixels.width * pixels.height * pixels.channels);
    pixels
}

/// The decoder does libjpeg's arithmetic, so that even the last bit is to agree.
fn check(name: &str) {
    let bytes = fixture(name);
    let expected = decode(&fixture(&format!("{name}.png")), Colour::Stored);
    let found = decode(&bytes, Colour::Stored);
    assert_eq!(
        (found.width, found.height, found.channels),
        (expected.width, expected.height, expected.channels),
        "{name}"
    );
    let off: Vec<u8> = found.data.iter().zip(&expected.data).map(|(a, b)| a.abs_diff(*b)).collect();
    let (worst, wrong) = (off.iter().max().unwrap(), off.iter().filter(|&&d| d > 0).count());
    assert_eq!(*worst, 0, "{name}: {wrong} of {} samples differ, at most by {worst}", off.len());
}

#[test]
fn sequential_of_every_sampling() {
    for name in ["444", "422", "420", "422_square", "440", "411", "114", "q100", "q5"] {
        check(&format!("{name}.jpg"));
    }
}

#[test]
fn tiny_and_odd_sizes() {
    for name in ["420_17x13", "420_1x1", "420_5x3", "420_3x9"] {
        check(&format!("{name}.jpg"));
    }
}

#[test]
fn progressive() {
    for name in ["progressive_444", "progressive_420", "progressive_440", "grey_progressive"] {
        check(&format!("{name}.jpg"));
        assert!(header(&fixture(&format!("{name}.jpg")), &Limits::default()).unwrap().progressive);
    }
}

#[test]
fn restart_markers() {
    for name in ["restart_1", "restart_row", "restart_progressive"] {
        check(&format!("{name}.jpg"));
    }
}

#[test]
fn colour_models() {
    for (name, channels) in [("grey", 1), ("rgb", 3), ("cmyk", 4), ("cmyk_plain", 4), ("ycck", 4)] {
        check(&format!("{name}.jpg"));
        let header = header(&fixture(&format!("{name}.jpg")), &Limits::default()).unwrap();
        assert_eq!((header.format, header.channels, header.orientation), (Format::Jpeg, channels, 1), "{name}");
    }
}

#[test]
fn png_of_every_kind() {
    for name in ["grey", "grey_alpha", "bits", "palette", "rgb", "rgba", "deep"] {
        check(&format!("png_{name}"));
    }
}

#[test]
fn webp_of_every_kind() {
    for name in ["lossless", "lossless_1x1", "lossless_alpha", "lossy", "lossy_even", "lossy_alpha", "animated"] {
        check(&format!("{name}.webp"));
        assert_eq!(header(&fixture(&format!("{name}.webp")), &Limits::default()).unwrap().format, Format::WebP);
    }
    assert_eq!(header(&fixture("lossless_alpha.webp"), &Limits::default()).unwrap().channels, 4);
}

/// Pillow leaves turning to its callers, we do not: turned by a quarter to the right.
#[test]
fn webp_orientation() {
    let found = decode(&fixture("turned.webp"), Colour::Rgb);
    let stored = decode(&fixture("turned.webp.png"), Colour::Rgb);
    assert_eq!((found.width, found.height), (stored.height, stored.width));
    for y in 0..found.height {
        for x in 0..found.width {
            let at = |p: &Pixels, x: usize, y: usize| p.data[3 * (y * p.width + x)..][..3].to_vec();
            assert_eq!(at(&found, x, y), at(&stored, y, stored.height - 1 - x), "{x}, {y}");
        }
    }
}

#[test]
fn bmp_of_every_kind() {
    for name in ["rgb", "rgba", "palette", "grey", "bits"] {
        check(&format!("{name}.bmp"));
    }
    assert_eq!(header(&fixture("grey.bmp"), &Limits::default()).unwrap().channels, 1);
}

#[test]
fn gif_and_the_first_frame_of_animations() {
    for name in ["palette", "interlaced", "animated"] {
        check(&format!("{name}.gif"));
    }
}

/// The encoder writes what libjpeg writes, to the last byte.
#[test]
fn encoded_bytes() {
    for (name, quality, chroma) in [
        ("encoded_420", 90, Chroma::Half),
        ("encoded_444", 75, Chroma::Full),
        ("encoded_420_even", 30, Chroma::Half),
        ("encoded_grey", 90, Chroma::Half),
    ] {
        let pixels = decode(&fixture(&format!("{name}.source.png")), Colour::Stored);
        let mut found = Vec::new();
        Encoder::new(quality, chroma).encode(&pixels, &mut found).unwrap();
        let expected = fixture(&format!("{name}.jpeg"));
        let first = found.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(
            found == expected,
            "{name}: {} bytes, not {}; first difference: {first:?}",
            found.len(),
            expected.len()
        );
    }
}
