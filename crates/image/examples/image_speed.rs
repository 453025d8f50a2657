//! How fast images are decoded, shrunk and encoded here, on one thread: microseconds per image and megabytes per second
//! of each step, over all JPEG and PNG files below a folder (or the JPEGs inside TFRecord files).
//!
//! Beside it, on the same files in the same rounds, zune-jpeg decodes them, if all are JPEG.
//!
//!     cargo run --release -p paceline-image --example image_speed -- FOLDER [SIZE [ROUNDS]]

use paceline_image::{Chroma, Colour, Decoder, Encoder, Fit, Limits, Pixels, Resizer, Target};
use std::path::Path;
use std::time::{Duration, Instant};
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

fn main() {
    let mut args = std::env::args().skip(1);
    let Some(folder) = args.next() else {
        eprintln!("name a folder of images, and, if it is not to be 192, the size to shrink to");
        std::process::exit(2);
    };
    let size = args.next().map_or(192, |s| s.parse().expect("the size is a number"));
    let rounds = args.next().map_or(5, |s| s.parse().expect("the rounds are a number"));
    let mut images = Vec::new();
    collect(Path::new(&folder), &mut images);
    let (mut good, mut bad) = (Vec::new(), 0);
    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Pixels::default();
    let mut area = 0;
    for image in images {
        match decoder.decode(&image, Colour::Rgb, &mut pixels) {
            Ok(header) => {
                area += header.width * header.height;
                good.push(image);
            }
            Err(e) => {
                bad += 1;
                println!("passed over: {e}");
            }
        }
    }
    if good.is_empty() {
        eprintln!("no images in {folder}");
        std::process::exit(2);
    }
    let bytes: usize = good.iter().map(Vec::len).sum();
    let n = good.len();
    println!("{n} images ({bad} passed over), {} kpixels and {} KB each", area / n / 1000, bytes / n / 1000);

    // Of each step and image the fastest of several rounds: what it costs when nothing disturbs it.
    let target = Target { width: size, height: size, fit: Fit::Crop, full: false };
    let mut resizer = Resizer::default();
    let mut encoder = Encoder::new(90, Chroma::Half);
    let (mut small, mut out, mut other) = (Pixels::default(), Vec::new(), Vec::new());
    let all_jpeg = good.iter().all(|image| image.starts_with(&[0xFF, 0xD8]));
    let mut fastest = vec![[Duration::MAX; 5]; n];
    for _ in 0..rounds {
        for (image, times) in good.iter().zip(&mut fastest) {
            let start = Instant::now();
            decoder.decode(image, Colour::Rgb, &mut pixels).expect("decoded before");
            times[0] = times[0].min(start.elapsed());
        }
        for (image, times) in good.iter().zip(&mut fastest).filter(|_| all_jpeg) {
            let start = Instant::now();
            let options = DecoderOptions::default().jpeg_set_out_colorspace(ColorSpace::RGB);
            let mut zune = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(image), options);
            // Into memory that is there, as above.
            zune.decode_headers().expect("decoded before");
            other.resize(zune.output_buffer_size().expect("headers were read"), 0);
            zune.decode_into(&mut other).expect("decoded before");
            times[4] = times[4].min(start.elapsed());
        }
        for (image, times) in good.iter().zip(&mut fastest) {
            let mut start = Instant::now();
            let mut lap = |time: &mut Duration| {
                let now = Instant::now();
                *time = (now - start).min(*time);
                start = now;
            };
            let (_, window) = decoder.decode_for(image, Colour::Rgb, &target, &mut pixels).expect("decoded before");
            lap(&mut times[1]);
            resizer.resize(&pixels, &window, &target, &mut small);
            lap(&mut times[2]);
            out.clear();
            encoder.encode(&small, &mut out).expect("a size that fits");
            lap(&mut times[3]);
        }
    }
    let best: [Duration; 5] = std::array::from_fn(|step| {
        fastest.iter().map(|times| if times[step] == Duration::MAX { Duration::ZERO } else { times[step] }).sum()
    });
    let line = |what: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        println!("{what:<28} {:>8.1} µs/image {:>8.1} MB/s", seconds / n as f64 * 1e6, bytes as f64 / seconds / 1e6);
    };
    line("decode", best[0]);
    if all_jpeg {
        line("decode by zune-jpeg", best[4]);
    }
    line(&format!("decode for {size}×{size}"), best[1]);
    line("resize", best[2]);
    line("encode", best[3]);
    line("the last three together", best[1] + best[2] + best[3]);
}

fn collect(path: &Path, images: &mut Vec<Vec<u8>>) {
    if let Ok(entries) = std::fs::read_dir(path) {
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            collect(&path, images);
        }
        return;
    }
    let Ok(bytes) = std::fs::read(path) else { return };
    if path.extension().is_some_and(|e| e == "tfrec" || e == "tfrecord") {
        records(&bytes, images);
    } else if path.extension().is_some_and(|e| ["jpg", "jpeg", "png"].iter().any(|known| e.eq_ignore_ascii_case(known)))
    {
        images.push(bytes);
    }
}

/// The JPEG in each record, found by its first bytes: enough for a measurement, no reader of the format.
fn records(mut bytes: &[u8], images: &mut Vec<Vec<u8>>) {
    while let Some(head) = bytes.get(..12) {
        let length = u64::from_le_bytes(head[..8].try_into().expect("eight bytes")) as usize;
        let Some(record) = bytes.get(12..12 + length) else { return };
        if let Some(start) = record.windows(3).position(|w| w == [0xFF, 0xD8, 0xFF]) {
            images.push(record[start..].to_vec());
        }
        bytes = bytes.get(16 + length..).unwrap_or_default();
    }
}
