//! What has to hold for every image: round trips, scales, orientations, fits, and that any bytes at all are survived.

use paceline_image::*;
use proptest::prelude::*;
use std::path::PathBuf;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// Soft shapes and an edge.
fn picture(width: usize, height: usize, channels: usize) -> Pixels {
    let mut data = Vec::new();
    for y in 0..height {
        for x in 0..width {
            let (fx, fy) = (x as f64, y as f64);
            let round = (fx - width as f64 / 2.0).hypot(fy - height as f64 / 2.0) < height as f64 / 3.0;
            let colour = [
                128.0 + 90.0 * (fx / 9.0).sin() * (fy / 13.0).cos(),
                255.0 * fx / width as f64,
                if round { 200.0 } else { 60.0 },
            ];
            data.extend(colour[..channels].iter().map(|c| *c as u8));
        }
    }
    Pixels { width, height, channels, data }
}

fn jpeg(pixels: &Pixels, quality: u8, chroma: Chroma) -> Vec<u8> {
    let mut out = Vec::new();
    Encoder::new(quality, chroma).encode(pixels, &mut out).unwrap();
    out
}

fn decode(bytes: &[u8], colour: Colour) -> Pixels {
    let mut pixels = Pixels::default();
    Decoder::default().decode(bytes, colour, &mut pixels).unwrap();
    pixels
}

/// Decodes and resizes.
fn bring(bytes: &[u8], target: &Target) -> Pixels {
    let (mut decoded, mut out) = (Pixels::default(), Pixels::default());
    let (_, window) = Decoder::default().decode_for(bytes, Colour::Stored, target, &mut decoded).unwrap();
    Resizer::default().resize(&decoded, &window, target, &mut out);
    out
}

fn psnr(a: &Pixels, b: &Pixels) -> f64 {
    assert_eq!((a.width, a.height, a.channels), (b.width, b.height, b.channels));
    let sum: f64 = a.data.iter().zip(&b.data).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
    10.0 * (255.0 * 255.0 * a.data.len() as f64 / sum.max(1e-9)).log10()
}

#[test]
fn round_trips() {
    for channels in [1, 3] {
        let pixels = picture(61, 45, channels);
        assert_eq!(decode(&encode_png(&pixels).unwrap(), Colour::Stored), pixels);
        assert!(psnr(&decode(&jpeg(&pixels, 95, Chroma::Full), Colour::Stored), &pixels) > 38.0);
        let (half, low) = (jpeg(&pixels, 95, Chroma::Half), jpeg(&pixels, 20, Chroma::Half));
        assert!(psnr(&decode(&half, Colour::Stored), &pixels) > 28.0);
        assert!(low.len() < half.len());
    }
}

#[test]
fn colours_as_asked_for() {
    let file = jpeg(&picture(40, 30, 3), 90, Chroma::Half);
    let (rgb, grey) = (decode(&file, Colour::Rgb), decode(&file, Colour::Grey));
    assert_eq!((rgb.channels, grey.channels), (3, 1));
    for (pixel, grey) in rgb.data.chunks(3).zip(&grey.data) {
        let luma = 0.299 * f64::from(pixel[0]) + 0.587 * f64::from(pixel[1]) + 0.114 * f64::from(pixel[2]);
        // Colours that were cut off at 0 or 255 have lost some.
        if pixel.iter().all(|&c| c > 0 && c < 255) {
            assert!((luma - f64::from(*grey)).abs() < 2.0);
        }
    }
    let file = jpeg(&picture(40, 30, 1), 90, Chroma::Half);
    assert_eq!(decode(&file, Colour::Stored).channels, 1);
    assert!(decode(&file, Colour::Rgb).data.chunks(3).all(|p| p[0] == p[1] && p[1] == p[2]));
    assert_eq!(decode(&fixture("cmyk.jpg"), Colour::Grey).channels, 1);
    assert_eq!(decode(&fixture("png_rgba"), Colour::Grey).channels, 1);
}

#[test]
fn nothing_to_store_is_an_error() {
    let mut out = vec![7];
    let mut encoder = Encoder::new(90, Chroma::Half);
    for (width, height, channels, bytes) in [(0, 5, 3, 0), (70_000, 1, 1, 70_000), (2, 2, 2, 8), (2, 2, 3, 11)] {
        let pixels = Pixels { width, height, channels, data: vec![0; bytes] };
        assert!(matches!(encoder.encode(&pixels, &mut out), Err(ImageError::Unstorable { .. })));
    }
    assert_eq!(out, [7]);
    assert!(encode_png(&Pixels { width: 2, height: 2, channels: 3, data: vec![0; 11] }).is_err());
}

/// Means over the source pixels (and parts of them) that each pixel covers.
fn area(from: &Pixels, m: usize) -> Pixels {
    let (width, height) = ((from.width * m).div_ceil(8), (from.height * m).div_ceil(8));
    let step = 8.0 / m as f64;
    let mut data = Vec::new();
    let spans = |i: usize, size: usize| -> Vec<(usize, f64)> {
        let (a, b) = (i as f64 * step, ((i + 1) as f64 * step).min(size as f64));
        (a as usize..(b.ceil() as usize).min(size)).map(|x| (x, (x as f64 + 1.0).min(b) - (x as f64).max(a))).collect()
    };
    for y in 0..height {
        for x in 0..width {
            for c in 0..from.channels {
                let (mut sum, mut weight) = (0.0, 0.0);
                for (sy, wy) in spans(y, from.height) {
                    for (sx, wx) in spans(x, from.width) {
                        sum += wy * wx * f64::from(from.data[(sy * from.width + sx) * from.channels + c]);
                        weight += wy * wx;
                    }
                }
                data.push((sum / weight).round() as u8);
            }
        }
    }
    Pixels { width, height, channels: from.channels, data }
}

/// Every scale, every sampling: the smaller image is what the whole one looks like from afar.
#[test]
fn scales_agree_with_means_of_the_whole() {
    for (channels, chroma) in [(3, Chroma::Full), (3, Chroma::Half), (1, Chroma::Full)] {
        let file = jpeg(&picture(168, 120, channels), 95, chroma);
        let whole = decode(&file, Colour::Stored);
        for m in 1..=8 {
            // Small enough that m/8 leaves the margin, too large for the scale below.
            let target = Target { width: 21 * m * 4 / 5, height: 15 * m * 3 / 4, fit: Fit::Stretch, full: false };
            let mut scaled = Pixels::default();
            let (_, window) = Decoder::default().decode_for(&file, Colour::Stored, &target, &mut scaled).unwrap();
            assert_eq!((scaled.width, scaled.height), (21 * m, 15 * m));
            assert_eq!((window.width, window.height), (21.0 * m as f64, 15.0 * m as f64));
            let found = psnr(&scaled, &area(&whole, m));
            assert!(found > 27.0, "{chroma:?} {channels} {m}: {found}");
        }
    }
}

#[test]
fn the_smaller_decode_is_close_to_the_whole_one() {
    for (width, height) in [(320, 240), (213, 320), (500, 333)] {
        let file = jpeg(&picture(width, height, 3), 92, Chroma::Half);
        for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
            for size in [20, 64, 111, 192] {
                let target = Target { width: size, height: size * 3 / 4, fit, full: false };
                let small = bring(&file, &target);
                let found = psnr(&small, &bring(&file, &Target { full: true, ..target }));
                assert!(found > 30.0, "{width}×{height} {fit:?} {size}: {found}");
            }
        }
    }
}

/// Decoding a part gives the same pixels as decoding everything and cutting the part out.
#[test]
fn parts_are_parts_of_the_whole() {
    for name in ["420.jpg", "422_square.jpg", "440.jpg", "411.jpg", "444.jpg", "progressive_420.jpg", "grey.jpg"] {
        let file = fixture(name);
        let whole = decode(&file, Colour::Stored);
        for (tw, th) in [(10, 64), (64, 10), (64, 25), (40, 64)] {
            let target = Target { width: tw, height: th, fit: Fit::Crop, full: true };
            let mut part = Pixels::default();
            let (_, window) = Decoder::default().decode_for(&file, Colour::Stored, &target, &mut part).unwrap();
            // The window's middle is the image's.
            let left = (whole.width as f64 / 2.0 - (window.left + window.width / 2.0)).round() as usize;
            let top = (whole.height as f64 / 2.0 - (window.top + window.height / 2.0)).round() as usize;
            for y in 0..part.height {
                let row = part.width * part.channels;
                let at = ((top + y) * whole.width + left) * whole.channels;
                assert_eq!(part.data[y * row..(y + 1) * row], whole.data[at..at + row], "{name} {tw}×{th} row {y}");
            }
        }
    }
}

fn with_orientation(file: &[u8], orientation: u16, big: bool) -> Vec<u8> {
    let mut tiff = if big { b"MM\0*".to_vec() } else { b"II*\0".to_vec() };
    let two = |v: u16| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    let four = |v: u32| if big { v.to_be_bytes() } else { v.to_le_bytes() };
    tiff.extend(four(8));
    tiff.extend(two(1));
    tiff.extend(two(0x0112));
    tiff.extend(two(3));
    tiff.extend(four(1));
    tiff.extend(two(orientation));
    tiff.extend([0; 6]);
    let mut out = file[..2].to_vec();
    out.extend([0xFF, 0xE1]);
    out.extend(((tiff.len() + 8) as u16).to_be_bytes());
    out.extend(b"Exif\0\0");
    out.extend(tiff);
    out.extend(&file[2..]);
    out
}

/// Where the stored pixel (x, y) is to be seen, by the wording of the EXIF standard.
fn seen(orientation: u16, x: usize, y: usize, w: usize, h: usize) -> (usize, usize) {
    match orientation {
        1 => (x, y),                 // row 0 is the top, column 0 the left
        2 => (w - 1 - x, y),         // top, right
        3 => (w - 1 - x, h - 1 - y), // bottom, right
        4 => (x, h - 1 - y),         // bottom, left
        5 => (y, x),                 // left, top
        6 => (h - 1 - y, x),         // right, top
        7 => (h - 1 - y, w - 1 - x), // right, bottom
        _ => (y, w - 1 - x),         // left, bottom
    }
}

#[test]
fn turned_photos_are_not_shifted_when_they_are_scaled() {
    // Sides that no scale divides: the last pixel of a row is a part of one, and after turning it is the first.
    let file = jpeg(&picture(251, 167, 3), 95, Chroma::Full);
    for orientation in 1..=8 {
        let turned = with_orientation(&file, orientation, false);
        for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
            let target = Target { width: 64, height: 48, fit, full: false };
            let near = psnr(&bring(&turned, &target), &bring(&turned, &Target { full: true, ..target }));
            assert!(near > 36.0, "orientation {orientation}, {fit:?}: {near:.1} dB");
        }
    }
}

#[test]
fn orientations() {
    let file = fixture("420.jpg");
    let plain = decode(&file, Colour::Rgb);
    for orientation in 1..=8 {
        let turned = with_orientation(&file, orientation, orientation % 2 == 0);
        let stated = header(&turned, &Limits::default()).unwrap();
        assert_eq!(u16::from(stated.orientation), orientation);
        let found = decode(&turned, Colour::Rgb);
        assert_eq!((found.width, found.height), (stated.width, stated.height));
        for y in 0..plain.height {
            for x in 0..plain.width {
                let (sx, sy) = seen(orientation, x, y, plain.width, plain.height);
                let (a, b) = ((sy * found.width + sx) * 3, (y * plain.width + x) * 3);
                assert_eq!(found.data[a..a + 3], plain.data[b..b + 3], "orientation {orientation}");
            }
        }
        // Upright first or shrunk first: the same picture.
        for (width, height) in [(12, 8), (8, 12), (9, 9)] {
            let target = Target { width, height, fit: Fit::Crop, full: true };
            let upright = encode_png(&found).unwrap();
            assert!(psnr(&bring(&turned, &target), &bring(&upright, &target)) > 99.0, "{orientation}");
        }
    }
}

#[test]
fn fits() {
    let even = Pixels { width: 40, height: 20, channels: 3, data: vec![200; 2400] };
    let file = encode_png(&even).unwrap();
    for fit in [Fit::Crop, Fit::Pad, Fit::Stretch] {
        for (width, height) in [(16, 16), (100, 70), (7, 31), (1, 1)] {
            let out = bring(&file, &Target { width, height, fit, full: false });
            assert_eq!((out.width, out.height, out.data.len()), (width, height, width * height * 3));
            let black = out.data.iter().filter(|&&v| v == 0).count();
            let rest = out.data.iter().filter(|&&v| v == 200).count();
            assert_eq!(black + rest, out.data.len());
            assert_eq!(black > 0, fit == Fit::Pad && width != 2 * height && width > 1);
        }
    }
    // The centre is kept, and what is kept is not distorted.
    let mut marked = Pixels { width: 40, height: 20, channels: 3, data: vec![0; 2400] };
    for y in 0..20 {
        for x in 10..30 {
            marked.data[(y * 40 + x) * 3] = 255;
        }
    }
    let out = bring(&encode_png(&marked).unwrap(), &Target { width: 20, height: 20, fit: Fit::Crop, full: false });
    assert!(out.data.chunks(3).all(|p| p == [255, 0, 0]));
}

/// 16-bit quantisation tables and fill bytes change nothing.
#[test]
fn other_ways_to_write_the_same() {
    let file = fixture("444.jpg");
    let expected = decode(&file, Colour::Rgb);
    let mut wide = file[..2].to_vec();
    let mut at = 2;
    while file[at + 1] != 0xDA {
        let length = usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        let segment = &file[at..at + 2 + length];
        if segment[1] == 0xDB {
            wide.extend([0xFF, 0xDB, 0, 131, 0x10 | segment[4]]);
            wide.extend(segment[5..69].iter().flat_map(|&v| [0, v]));
        } else {
            wide.extend(segment);
        }
        at += 2 + length;
    }
    wide.extend(&file[at..]);
    assert_eq!(decode(&wide, Colour::Rgb), expected);
    // Between segments: fill bytes, and what belongs to nothing.
    let mut filled = file[..2].to_vec();
    filled.extend([0xFF, 0xFF, 0xFF]);
    filled.extend(&file[2..]);
    assert_eq!(decode(&filled, Colour::Rgb), expected);
}

/// A file of red, green and blue, each in a scan of its own, with any sampling factors.
fn in_scans_of_their_own(width: usize, height: usize, factors: [(usize, usize); 3]) -> (Vec<u8>, Vec<Pixels>) {
    let hmax = factors.iter().map(|f| f.0).max().unwrap();
    let vmax = factors.iter().map(|f| f.1).max().unwrap();
    let segment = |file: &[u8], marker: u8| {
        let at = file.windows(2).position(|w| w == [0xFF, marker]).unwrap();
        let length = usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]]));
        (at, at + 2 + length)
    };
    let (mut out, mut planes) = (vec![0xFF, 0xD8], Vec::new());
    out.extend([0xFF, 0xEE, 0, 14]);
    out.extend(b"Adobe\0\x64\0\0\0\0\0");
    for (i, (h, v)) in factors.into_iter().enumerate() {
        let plane = picture((width * h).div_ceil(hmax), (height * v).div_ceil(vmax), 1);
        let file = jpeg(&plane, 90, Chroma::Full);
        if i == 0 {
            let (frame, _) = segment(&file, 0xC0);
            out.extend(&file[segment(&file, 0xDB).0..frame]);
            out.extend([0xFF, 0xC0, 0, 17, 8]);
            out.extend((height as u16).to_be_bytes());
            out.extend((width as u16).to_be_bytes());
            out.push(3);
            for (id, (h, v)) in factors.into_iter().enumerate() {
                out.extend([id as u8, (h << 4 | v) as u8, 0]);
            }
            out.extend(&file[segment(&file, 0xC4).0..segment(&file, 0xDA).0]);
        }
        out.extend([0xFF, 0xDA, 0, 8, 1, i as u8, 0, 0, 63, 0]);
        out.extend(&file[segment(&file, 0xDA).1..file.len() - 2]);
        planes.push(decode(&file, Colour::Stored));
    }
    out.extend([0xFF, 0xD9]);
    (out, planes)
}

/// Samples are repeated where the factors are neither equal nor one half, also where they do not divide each other.
#[test]
fn odd_sampling_factors_in_scans_of_their_own() {
    for factors in [
        [(1, 1), (1, 1), (1, 1)],
        [(3, 1), (1, 1), (2, 1)],
        [(3, 2), (3, 2), (1, 2)],
        [(4, 4), (1, 1), (3, 4)],
        [(1, 3), (4, 2), (4, 1)],
        [(1, 1), (4, 4), (3, 3)],
    ] {
        for (width, height) in [(37, 29), (8, 8), (1, 1), (50, 9)] {
            let (file, planes) = in_scans_of_their_own(width, height, factors);
            let found = decode(&file, Colour::Rgb);
            let hmax = factors.iter().map(|f| f.0).max().unwrap();
            let vmax = factors.iter().map(|f| f.1).max().unwrap();
            for (c, (plane, (h, v))) in planes.iter().zip(factors).enumerate() {
                if h * 2 == hmax && (v == vmax || v * 2 == vmax) || v * 2 == vmax && h == hmax {
                    continue; // smoothed, not repeated
                }
                for y in 0..height {
                    for x in 0..width {
                        let sample = plane.data[y * v / vmax * plane.width + x * h / hmax];
                        assert_eq!(
                            found.data[(y * width + x) * 3 + c],
                            sample,
                            "{factors:?} {width}×{height} {c} {x},{y}"
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400), kind in 0..3) {
        let start: &[u8] = match kind { 0 => &[], 1 => &[0xFF, 0xD8, 0xFF], _ => b"\x89PNG\r\n\x1a\n\0\0\0\x0DIHDR" };
        let bytes = [start, &bytes].concat();
        let mut pixels = Pixels::default();
        let limits = Limits { pixels: 1 << 16 };
        let stated = header(&bytes, &limits);
        if Decoder::new(limits).decode(&bytes, Colour::Stored, &mut pixels).is_ok() {
            prop_assert!(stated.is_ok());
        }
    }

    #[test]
    fn damaged_scans_are_survived(
        which in 0..5usize,
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..12),
        size in 1usize..40,
    ) {
        let names = ["420.jpg", "progressive_420.jpg", "restart_1.jpg", "q100.jpg", "png_rgba"];
        let mut bytes = fixture(names[which]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let mut decoder = Decoder::new(Limits { pixels: 1 << 18 });
        let mut pixels = Pixels::default();
        let _ = decoder.decode(&bytes, Colour::Rgb, &mut pixels);
        let target = Target { width: size, height: 41 - size, fit: Fit::Pad, full: false };
        if let Ok((_, window)) = decoder.decode_for(&bytes, Colour::Rgb, &target, &mut pixels) {
            let mut out = Pixels::default();
            Resizer::default().resize(&pixels, &window, &target, &mut out);
            prop_assert_eq!(out.data.len(), size * (41 - size) * 3);
        }
    }

    #[test]
    fn every_size_comes_back(width in 1usize..70, height in 1usize..50, quality in 1u8..=100, half: bool, grey: bool) {
        let pixels = picture(width, height, if grey { 1 } else { 3 });
        let file = jpeg(&pixels, quality, if half { Chroma::Half } else { Chroma::Full });
        let back = decode(&file, Colour::Stored);
        prop_assert_eq!((back.width, back.height, back.channels), (width, height, pixels.channels));
        let mean = |p: &Pixels| p.data.iter().map(|&v| f64::from(v)).sum::<f64>() / p.data.len() as f64;
        // The tables are scaled by this many percent; all sizes of this picture stay well within the bound.
        let percent = if quality < 50 { 5000.0 / f64::from(quality) } else { 200.0 - 2.0 * f64::from(quality) };
        prop_assert!((mean(&back) - mean(&pixels)).abs() < 2.0 + percent / 10.0);
    }
}
