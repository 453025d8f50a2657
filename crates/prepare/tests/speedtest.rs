//! Measuring: exactly the images that a cell asks for, whatever the partitions, caches and bad images.

use paceline_data::example::{self, Value};
use paceline_data::tfrecord::{Packing, Writer};
use paceline_image::{Pixels, encode_png};
use paceline_prepare::speedtest::{ListedSource, Measurer, StudySettingNames, measure_cells, recognise};
use paceline_record::{Cell, Form, Measurement, PageCache};
use std::fs;
use std::path::{Path, PathBuf};

fn png(number: u8) -> Vec<u8> {
    let data = (0..8 * 6 * 3).map(|i| number.wrapping_mul(7).wrapping_add(i as u8)).collect();
    encode_png(&Pixels { width: 8, height: 6, channels: 3, data }).unwrap()
}

fn photos(folder: &Path, count: u8) -> PathBuf {
    let path = folder.join("photos");
    for i in 0..count {
        let class = path.join(if i % 2 == 0 { "a" } else { "b" });
        fs::create_dir_all(&class).unwrap();
        fs::write(class.join(format!("{i:02}.png")), png(i)).unwrap();
    }
    path
}

fn record(image: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    example::write(&[("class", Value::Ints(&[0])), ("image", Value::Bytes(&[image]))], &mut bytes);
    bytes
}

/// Shards with so many records each.
fn shards(folder: &Path, counts: &[u8], packing: Packing) -> PathBuf {
    let path = folder.join("shards");
    fs::create_dir_all(&path).unwrap();
    for (i, &count) in counts.iter().enumerate() {
        let mut writer = Writer::new(Vec::new(), packing);
        (0..count).for_each(|k| writer.write(&record(&png(k))).unwrap());
        fs::write(path.join(format!("part{i}.tfrec")), writer.finish().unwrap()).unwrap();
    }
    path
}

fn cell(path: &Path, batch: usize, batches: usize, partitions: usize) -> Cell {
    Cell {
        id: 0,
        source: "data".into(),
        path: path.into(),
        form: recognise(path).unwrap(),
        batch,
        batches,
        repetition: 1,
        page_cache: PageCache::Warm,
        caching: false,
        partitions,
        threads: 2,
        decode: true,
        size: 6,
        verify: true,
        seed: 1,
        skip_bad: 0,
    }
}

#[track_caller]
fn check(m: &Measurement, images: u64, from_cache: u64, partitions_used: usize) {
    assert_eq!((m.images, m.from_cache, m.partitions_used), (images, from_cache, partitions_used), "{m:?}");
    assert!(m.seconds > 0.0);
}

#[test]
fn every_cell_gets_its_images() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [photos(folder.path(), 10), shards(folder.path(), &[4, 3, 5], Packing::Plain)];
    let mut measurer = Measurer::new("local");
    for path in &sources {
        let form = recognise(path).unwrap();
        for (batch, batches, partitions) in [(1, 1, 1), (2, 3, 1), (2, 3, 6), (3, 2, 2), (1, 5, 3), (4, 7, 4)] {
            let m = measurer.measure(&cell(path, batch, batches, partitions)).unwrap();
            let most = if form == Form::Records { 3 } else { usize::MAX };
            check(&m, (batch * batches) as u64, 0, partitions.min(batches).min(most));
            assert!(m.bytes > 0);
        }
    }
}

#[test]
fn packed_shards_and_raw_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = shards(folder.path(), &[4, 4], Packing::Gzip);
    let mut measurer = Measurer::new("local");
    check(&measurer.measure(&cell(&path, 2, 4, 2)).unwrap(), 8, 0, 2);
    let m = measurer.measure(&Cell { decode: false, verify: false, ..cell(&path, 2, 4, 1) }).unwrap();
    check(&m, 8, 0, 1);
}

#[test]
fn caching_keeps_images_for_its_own_variant() {
    let folder = tempfile::tempdir().unwrap();
    for path in [photos(folder.path(), 10), shards(folder.path(), &[6, 6], Packing::Plain)] {
        let mut measurer = Measurer::new("local");
        let caching = |batches, partitions| Cell { caching: true, ..cell(&path, 2, batches, partitions) };
        check(&measurer.measure(&caching(2, 1)).unwrap(), 4, 0, 1);
        let again = measurer.measure(&caching(2, 1)).unwrap();
        check(&again, 4, 4, 1);
        assert_eq!(again.bytes, 0, "nothing is read again");
        check(&measurer.measure(&caching(4, 1)).unwrap(), 8, 4, 1);
        check(&measurer.measure(&caching(4, 1)).unwrap(), 8, 8, 1);
        // The variant with partitions has a cache of its own, and that without caching has none.
        check(&measurer.measure(&caching(4, 2)).unwrap(), 8, 0, 2);
        check(&measurer.measure(&cell(&path, 2, 4, 1)).unwrap(), 8, 0, 1);
    }
}

#[test]
fn bad_files_are_left_out_up_to_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = photos(folder.path(), 6);
    fs::write(path.join("a/00.png"), b"").unwrap();
    fs::write(path.join("b/01.png"), b"no image").unwrap();
    let all = Cell { skip_bad: 1, ..cell(&path, 2, 3, 3) };
    let error = Measurer::new("local").measure(&all).unwrap_err();
    assert!(error.message().contains(".png") && error.message().contains("left out with skip_bad N"), "{error}");
    let mut measurer = Measurer::new("local");
    let m = measurer.measure(&Cell { skip_bad: 2, ..all.clone() }).unwrap();
    check(&m, 6, 0, 3);
    assert_eq!(m.skipped.len(), 2, "{:?}", m.skipped);
    let m = measurer.measure(&Cell { skip_bad: 2, batches: 1, ..all }).unwrap();
    assert_eq!(m.skipped.len(), 2, "they stay left out");
}

#[test]
fn bad_records_are_left_out_and_a_torn_shard_ends_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = shards(folder.path(), &[4, 4], Packing::Plain);
    let file = path.join("part0.tfrec");
    let whole = fs::read(&file).unwrap();
    // A flipped bit in the data of the first record.
    let mut bytes = whole.clone();
    bytes[20] ^= 1;
    fs::write(&file, &bytes).unwrap();
    assert!(Measurer::new("local").measure(&cell(&path, 1, 7, 1)).is_err());
    let m = Measurer::new("local").measure(&Cell { skip_bad: 1, ..cell(&path, 1, 7, 1) }).unwrap();
    check(&m, 7, 0, 1);
    assert!(m.skipped.len() == 1 && m.skipped[0].contains("part0.tfrec"), "{:?}", m.skipped);
    // The end is missing: the rest comes from the other shard, and then again from the first.
    fs::write(&file, &whole[..whole.len() - 5]).unwrap();
    let m = Measurer::new("local").measure(&Cell { skip_bad: 1, ..cell(&path, 1, 9, 1) }).unwrap();
    check(&m, 9, 0, 1);
    assert_eq!(m.skipped.len(), 1, "{:?}", m.skipped);
}

#[test]
fn nothing_readable_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = shards(folder.path(), &[0, 0], Packing::Plain);
    let source = ListedSource::open(&path, Form::Records, 1, 0).unwrap();
    assert!(source.count(10).unwrap_err().message().contains("no records"));
    assert!(Measurer::new("local").measure(&cell(&path, 1, 1, 1)).unwrap_err().message().contains("no images"));
    // Records without an image.
    let mut writer = Writer::new(Vec::new(), Packing::Plain);
    let mut bytes = Vec::new();
    example::write(&[("x", Value::Floats(&[1.0]))], &mut bytes);
    writer.write(&bytes).unwrap();
    fs::write(path.join("part0.tfrec"), writer.finish().unwrap()).unwrap();
    let error = Measurer::new("local").measure(&cell(&path, 1, 1, 1)).unwrap_err();
    assert!(error.message().contains("record 0: it has no image"), "{error}");
    assert!(recognise(&folder.path().join("shrds")).unwrap_err().message().contains("did you mean shards?"));
}

#[test]
fn a_list_of_cells_ends_when_it_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = photos(folder.path(), 4);
    let cells: Vec<Cell> = (0..5).map(|id| Cell { id, ..cell(&path, 1, 2, 1) }).collect();
    let seen = std::cell::Cell::new(0);
    let mut take = |m: Measurement| {
        assert_eq!((m.cell.id, m.engine.as_str()), (seen.get(), "spark"));
        seen.set(seen.get() + 1);
        Ok(())
    };
    measure_cells(cells, "spark", StudySettingNames::default(), &|| seen.get() == 3, &mut take).unwrap();
    assert_eq!(seen.get(), 3);
}

#[test]
fn a_cell_of_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = photos(folder.path(), 4);
    for wrong in
        [cell(&path, 0, 1, 1), cell(&path, 1, 0, 1), cell(&path, 1, 1, 0), Cell { size: 0, ..cell(&path, 1, 1, 1) }]
    {
        assert!(Measurer::new("local").measure(&wrong).unwrap_err().message().contains("at least 1"));
    }
}
