//! What hostile images cost, by a counting allocator (a program of its own: the test harness allocates too), and that a
//! decoder in its stride allocates nothing.

use paceline_image::{Chroma, Colour, Decoder, Encoder, Fit, Limits, Pixels, Resizer, Target, header};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

/// The most that was in use at a time, beyond what was there before.
fn most(work: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}

fn refused(what: &str, bytes: &[u8], least: usize) {
    let used = most(|| {
        let mut pixels = Pixels::default();
        let _ = header(bytes, &Limits::default());
        assert!(Decoder::new(Limits::default()).decode(bytes, Colour::Rgb, &mut pixels).is_err(), "{what}");
    });
    assert!(used < least, "{what}: {used} bytes");
    println!("{what}: {used} bytes");
}

fn main() {
    let frame = |name: &str, marker: u8, size: [u8; 4]| {
        let mut bytes = fixture(name);
        let at = bytes.windows(2).position(|w| w == [0xFF, marker]).unwrap();
        bytes[at + 5..at + 9].copy_from_slice(&size);
        bytes
    };
    refused("65,535² baseline", &frame("420.jpg", 0xC0, [0xFF; 4]), 200_000);
    refused("65,535² progressive", &frame("progressive_420.jpg", 0xC2, [0xFF; 4]), 200_000);
    refused("8,192² baseline in a kilobyte", &frame("420.jpg", 0xC0, [0x20, 0, 0x20, 0]), 200_000);
    refused("8,192² progressive in a kilobyte", &frame("progressive_420.jpg", 0xC2, [0x20, 0, 0x20, 0]), 200_000);
    let mut png = fixture("png_rgb");
    png[16..24].copy_from_slice(&[0, 0, 0x20, 0, 0, 0, 0x20, 0]);
    refused("8,192² PNG in a kilobyte", &png, 2_000_000);
    let mut webp = fixture("lossless.webp");
    webp[21..25].copy_from_slice(&[0xFF, 0xDF, 0xFF, 0x07]);
    refused("8,192² WebP in a kilobyte", &webp, 2_000_000);
    let mut bmp = fixture("rgb.bmp");
    bmp[18..26].copy_from_slice(&[0, 0x20, 0, 0, 0, 0x20, 0, 0]);
    refused("8,192² BMP in a kilobyte", &bmp, 2_000_000);
    let mut gif = fixture("palette.gif");
    gif[6..10].copy_from_slice(&[0, 0x20, 0, 0x20]);
    refused("8,192² GIF in a kilobyte", &gif, 2_000_000);
    let mut gif = fixture("palette.gif");
    let at = gif.iter().rposition(|&b| b == b',').map_or(0, |last| {
        // The descriptor of the frame: its left and top are 0.
        gif[..=last].windows(5).rposition(|w| w == [b',', 0, 0, 0, 0]).unwrap()
    });
    gif[at + 5..at + 9].fill(0xFF);
    refused("a GIF with a frame of 65,535²", &gif, 2_000_000);
    // A PNG of 2 × 1 pixels whose compressed data goes on for 16 megabytes behind its only row.
    let large = Pixels { width: 1 << 12, height: 1 << 12, channels: 1, data: vec![0; 1 << 24] };
    let mut png = paceline_image::encode_png(&large).unwrap();
    png[16..24].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 1]);
    let crc = png[12..29].iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    });
    png[29..33].copy_from_slice(&(!crc).to_be_bytes());
    let used = most(|| {
        let mut pixels = Pixels::default();
        // Whether the rest is passed over or refused is the crate's affair; what it may cost is not.
        if Decoder::new(Limits::default()).decode(&png, Colour::Grey, &mut pixels).is_ok() {
            assert_eq!((pixels.width, pixels.height), (2, 1));
        }
    });
    assert!(used < 2_000_000, "a PNG that goes on behind its picture: {used} bytes");
    println!("a PNG that goes on behind its picture: {used} bytes");
    // A header that promises 1,000 × 1,000 and noise: no more than such an image takes.
    let noise: Vec<u8> = (0..200_000u32).map(|i| (i.wrapping_mul(2654435761) >> 24) as u8 & 0x7F).collect();
    for (name, marker) in [("420.jpg", 0xC0), ("progressive_420.jpg", 0xC2)] {
        let mut bytes = frame(name, marker, [3, 232, 3, 232]);
        let at = bytes.windows(2).position(|w| w == [0xFF, 0xDA]).unwrap();
        bytes.truncate(at + 14);
        bytes.extend(&noise);
        refused(&format!("noise in {name}"), &bytes, 12_000_000);
    }

    // Image after image, nothing is allocated but lists of four.
    let files: Vec<Vec<u8>> = ["420.jpg", "444.jpg", "restart_1.jpg", "grey.jpg"].iter().map(|n| fixture(n)).collect();
    let mut decoder = Decoder::new(Limits::default());
    let mut resizer = Resizer::default();
    let mut encoder = Encoder::new(90, Chroma::Half);
    let (mut decoded, mut small, mut out) = (Pixels::default(), Pixels::default(), Vec::new());
    let target = Target { width: 16, height: 16, fit: Fit::Crop, full: false };
    let mut calls = Vec::new();
    for _ in 0..4 {
        let before = CALLS.load(Ordering::Relaxed);
        for file in &files {
            let (_, window) = decoder.decode_for(file, Colour::Rgb, &target, &mut decoded).unwrap();
            resizer.resize(&decoded, &window, &target, &mut small);
            out.clear();
            encoder.encode(&small, &mut out).unwrap();
        }
        calls.push(CALLS.load(Ordering::Relaxed) - before);
    }
    println!("allocations per round of {} images: {calls:?}", files.len());
    assert!(calls[3] <= 4 * files.len(), "{calls:?}");
}
