//! The three forms of the same few pictures are the same set; whatever is wrong is named.

use super::*;
use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write;

/// Two pictures for each batch, as records of the binary version.
pub(crate) fn batch(number: usize) -> Vec<u8> {
    let label = |k: usize| ((number * 2 + k) % 10) as u8;
    (0..2)
        .flat_map(|k| {
            std::iter::once(label(k)).chain((0..PICTURE).map(move |i| ((i * 7 + number * 31 + k * 5) % 251) as u8))
        })
        .collect()
}

/// Writes the binary version into a folder.
pub(crate) fn write_bin(folder: &Path) {
    for (number, name) in BATCHES.iter().enumerate() {
        fs::write(folder.join(format!("{name}.bin")), batch(number)).unwrap();
    }
}

fn write_png_form(folder: &Path) {
    let mut labels = [Vec::new(), Vec::new()];
    for (number, name) in BATCHES.iter().enumerate() {
        let part = Pictures::from_records(&batch(number), folder).unwrap();
        labels[usize::from(number >= TRAINING)].extend(part.labels);
        let pixels = Pixels { width: PLANE, height: 2, channels: 3, data: part.pixels };
        fs::write(folder.join(format!("{name}.png")), paceline_image::encode_png(&pixels).unwrap()).unwrap();
    }
    for (labels, name) in labels.iter().zip(["train_lables.json", "test_lables.json"]) {
        fs::write(folder.join(name), serde_json::to_string(labels).unwrap()).unwrap();
    }
}

/// The archive, as tar writes it.
pub(crate) fn archive_bytes() -> Vec<u8> {
    let mut tar = Vec::new();
    let mut add = |name: &str, content: &[u8]| {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        tar.extend(header);
        tar.extend(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    };
    add("cifar-10-batches-bin/", b"");
    add("cifar-10-batches-bin/readme.html", b"<p>");
    for (number, name) in BATCHES.iter().enumerate() {
        add(&format!("cifar-10-batches-bin/{name}.bin"), &batch(number));
    }
    tar.extend([0; 1024]);
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&tar).unwrap();
    gz.finish().unwrap()
}

#[test]
fn all_forms_are_the_same_pictures() {
    let [bin, png, archive] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    write_bin(bin.path());
    write_png_form(png.path());
    fs::write(archive.path().join(ARCHIVE), archive_bytes()).unwrap();
    let wanted = read(bin.path()).unwrap();
    assert_eq!((wanted[0].labels.len(), wanted[1].labels.len()), (10, 2));
    // Channels last: the first pixel is the first byte of each plane.
    let first = batch(0);
    assert_eq!(wanted[0].pixels[..3], [first[1], first[1 + PLANE], first[1 + 2 * PLANE]]);
    assert_eq!(read(png.path()).unwrap(), wanted);
    assert_eq!(read(archive.path()).unwrap(), wanted);
    assert!(is_cifar(bin.path()) && is_cifar(png.path()) && !is_cifar(archive.path()));
}

fn check(damage: impl Fn(&Path), expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    write_bin(dir.path());
    damage(dir.path());
    let error = read(dir.path()).map(|both| both.map(|part| part.into_set("x").map(drop)));
    let text = match error {
        Ok(parts) => parts.into_iter().find_map(|p| p.err()).map_or("read".into(), |e| e.to_string()),
        Err(e) => e.to_string(),
    };
    assert!(text.contains(expected), "wanted {expected:?}, got {text:?}");
}

#[test]
fn what_is_wrong_is_named() {
    let cut = |name: &'static str, len: usize| move |dir: &Path| fs::write(dir.join(name), &batch(0)[..len]).unwrap();
    check(|_| {}, "read");
    check(cut("data_batch_3.bin", 3000), "data_batch_3.bin: not CIFAR-10: 3000 bytes, which is not a multiple of 3073");
    check(cut("test_batch.bin", 0), "0 bytes");
    check(|dir| fs::remove_file(dir.join("data_batch_4.bin")).unwrap(), "cannot read");
    check(|dir| fs::remove_file(dir.join("data_batch_1.bin")).unwrap(), "neither data_batch_1.bin");
    check(
        |dir| {
            let mut bytes = batch(0);
            bytes[0] = 10;
            fs::write(dir.join("data_batch_1.bin"), bytes).unwrap();
        },
        "label",
    );
    let short = archive_bytes();
    for len in [0, 10, short.len() / 2, short.len() - 9] {
        let error = read_archive(&short[..len], Path::new("a.tar.gz")).map(|_| len).unwrap_err().to_string();
        assert!(error.contains("a.tar.gz"), "{error}");
    }
}

/// An archive that unpacks to a gigabyte of nothing: refused at the limit, whatever its files are called.
#[test]
fn archives_have_a_limit_in_all() {
    use std::io::Write;
    let archive = |name: &dyn Fn(usize) -> String, files: usize| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let content = vec![0; BATCH_LIMIT];
        for number in 0..files {
            let mut header = [0; 512];
            let name = name(number);
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{BATCH_LIMIT:011o}").as_bytes());
            gzip.write_all(&header).unwrap();
            gzip.write_all(&content).unwrap();
        }
        gzip.write_all(&[0; 1024]).unwrap();
        gzip.finish().unwrap()
    };
    let read = |bytes: &[u8]| read_archive(bytes, Path::new("a.tar.gz")).map(|_| ()).unwrap_err();
    let bomb = archive(&|number| format!("c/other_{number}.bin"), 5);
    assert!(bomb.len() < 4 << 20, "{}", bomb.len());
    assert!(matches!(read(&bomb), DataError::ArchiveTooLarge { .. }), "{}", read(&bomb));
    let twice = archive(&|_| "data_batch_1.bin".into(), 2);
    assert!(read(&twice).to_string().contains("twice"), "{}", read(&twice));
    let mut large = archive(&|_| "data_batch_1.bin".into(), 0);
    large.clear();
    let mut gzip = flate2::write::GzEncoder::new(large, flate2::Compression::fast());
    let mut header = [0; 512];
    header[..16].copy_from_slice(b"data_batch_1.bin");
    header[124..135].copy_from_slice(format!("{:011o}", BATCH_LIMIT + 1).as_bytes());
    gzip.write_all(&header).unwrap();
    assert!(read(&gzip.finish().unwrap()).to_string().contains("small files"));
}
