//! `get` against folders and against a server on this machine's loopback: a set of four tiny files stands for the
//! published ones, and every way in which a download goes wrong must leave nothing behind.

use super::*;
use crate::Options;
use crate::idx::{Idx, Packing};
use paceline_system::hex;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::net::TcpListener;
use std::{fs, thread};

/// A small published set and its packed files.
fn tiny() -> (KnownSet, HashMap<String, Vec<u8>>) {
    let mut set = *known::by_name("fashion-mnist").unwrap();
    set.addresses = &[];
    let mut files = HashMap::new();
    for (i, file) in set.files.iter_mut().enumerate() {
        let count = if i < 2 { 30 } else { 10 };
        let dims = if i % 2 == 0 { vec![count, 28, 28] } else { vec![count] };
        let n = dims.iter().product();
        let array = Idx::new(dims, (0..n).map(|k| (k * 7 % 10) as u8).collect()).unwrap();
        let (mut plain, mut packed) = (Vec::new(), Vec::new());
        array.write_to(&mut plain, Packing::Plain).unwrap();
        array.write_to(&mut packed, Packing::Gzip).unwrap();
        file.bytes = plain.len() as u64;
        file.sha256 = hex(&Sha256::digest(&plain)).leak();
        files.insert(format!("{}.gz", file.name), packed);
    }
    (set, files)
}

/// Answers each request with `answer(file name)`, raw bytes, until the test ends; returns the address.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/some/where/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = io::BufReader::new(&stream).lines();
            let request = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let name = request.split(' ').nth(1).unwrap().rsplit('/').next().unwrap().to_string();
            let _ = stream.write_all(&answer(&name));
        }
    });
    address
}

fn ok(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// All names below the cache.
fn names(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache.join("data")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

fn write_all(dir: &Path, files: &HashMap<String, Vec<u8>>) {
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).unwrap());
}

/// Downloads, expects an error with `expected` in it, and nothing left.
fn check_refused(url: &str, expected: &str) {
    let cache = tempfile::tempdir().unwrap();
    let error = Catalogue::with_cache(cache.path()).get_set(&tiny().0, None, Some(url), &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(names(cache.path()), Vec::<String>::new(), "{error}");
}

#[test]
fn a_download_is_checked_unpacked_and_opened() {
    let (set, files) = tiny();
    let url = serve(move |name| ok(&files[name]));
    let cache = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::with_cache(cache.path());
    let mut last = None;
    let got = catalogue.get_set(&set, None, Some(&url), &mut |p| last = Some((p.done, p.total))).unwrap();
    assert_eq!(last, Some((got.bytes, got.bytes)));
    assert_eq!(got.from.as_deref(), Some(url.as_str()));
    assert_eq!(names(cache.path()), ["fashion-mnist"]);

    let opened = catalogue.open("fashion-mnist", &Options::default()).unwrap();
    assert_eq!((opened.train.len(), opened.test.as_ref().unwrap().len()), (30, 10));
    assert_eq!(opened.class_names[9], "Ankle boot");
    // The second time nothing is fetched: this address does not answer.
    let again = catalogue.get_set(&set, None, Some("http://127.0.0.1:1/"), &mut |_| panic!("fetched")).unwrap();
    assert_eq!(again.from, None);
}

#[test]
fn a_damaged_cache_is_replaced() {
    let (set, files) = tiny();
    let (from, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_all(from.path(), &files);
    let catalogue = Catalogue::with_cache(cache.path());
    let got = catalogue.get_set(&set, Some(from.path()), None, &mut |_| {}).unwrap();
    let labels = got.folder.join("train-labels-idx1-ubyte");
    fs::write(&labels, b"damaged").unwrap();
    let again = catalogue.get_set(&set, Some(from.path()), None, &mut |_| {}).unwrap();
    assert_eq!(again.from.unwrap(), from.path().display().to_string());
    assert_eq!(fs::metadata(&labels).unwrap().len(), 8 + 30);
    assert_eq!(names(cache.path()), ["fashion-mnist"]);
}

#[test]
fn wrong_downloads_leave_nothing() {
    let bodies = || tiny().1;
    let files = bodies();
    check_refused(&serve(move |name| ok(&files[name])[..90].to_vec()), "ended early");
    let files = bodies();
    check_refused(&serve(move |name| ok(&files[name][..40])), "ended early");
    check_refused(&serve(|_| ok(b"<html>please log in</html>")), "of a shorter file (26 bytes");
    check_refused(&serve(|_| ok(&[7; 100_000])), "of a longer file");
    let size = tiny().0.files[0].bytes as usize;
    check_refused(&serve(move |_| ok(&vec![7; size])), "wrong content: SHA-256 ");
    check_refused(
        &serve(|_| b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec()),
        "status 404",
    );
    check_refused(&serve(|_| b"not http at all\r\n\r\n".to_vec()), "cannot reach");
    check_refused("http://127.0.0.1:1/", "check the network, or fetch the files elsewhere and give their folder");
    check_refused("https://example.org/", "only http:// addresses");
    // The last of four files is wrong: the three good ones must not appear either.
    let files = bodies();
    let last = |name: &str| name.starts_with("t10k-labels");
    check_refused(&serve(move |name| if last(name) { ok(b"no") } else { ok(&files[name]) }), "t10k-labels");
}

#[test]
fn a_second_address_is_tried() {
    let (set, files) = tiny();
    let good = serve(move |name| ok(&files[name]));
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("file");
    let from = download(&["http://127.0.0.1:1/", &good], &set.files[0], &target, &mut |_| {}).unwrap();
    assert_eq!(from, good);
    // Of two failures the one that says more is told.
    let missing = serve(|_| b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_vec());
    let error = download(&[&missing, "http://127.0.0.1:1/"], &set.files[0], &target, &mut |_| {}).unwrap_err();
    assert!(matches!(error, DataError::HttpStatus { status: 410, .. }), "{error}");
}

#[test]
fn wrong_folders_leave_nothing() {
    let (set, files) = tiny();
    let (from, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let check = |folder: &Path, expected: &str| {
        let error =
            Catalogue::with_cache(cache.path()).get_set(&set, Some(folder), None, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(names(cache.path()), Vec::<String>::new(), "{error}");
    };
    check(&from.path().join("absent"), "absent");
    check(from.path(), "no file train-images-idx3-ubyte (or train-images-idx3-ubyte.gz)");
    write_all(from.path(), &files);
    let path = from.path().join("train-labels-idx1-ubyte.gz");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    check(from.path(), "damaged gzip data");
    fs::write(&path, &files["t10k-labels-idx1-ubyte.gz"]).unwrap();
    check(from.path(), "of a shorter file (18 bytes instead of 38)");
}

#[test]
fn an_unwritable_cache_is_named() {
    let (set, files) = tiny();
    let dir = tempfile::tempdir().unwrap();
    write_all(dir.path(), &files);
    let file = dir.path().join("a-file");
    fs::write(&file, b"").unwrap();
    let error = Catalogue::with_cache(&file).get_set(&set, Some(dir.path()), None, &mut |_| {}).unwrap_err();
    assert!(matches!(&error, DataError::Io { doing: "create", .. }) && error.to_string().contains("a-file"), "{error}");
    let none = Catalogue { cache: None, system: false };
    assert!(matches!(none.get_set(&set, Some(dir.path()), None, &mut |_| {}), Err(DataError::NoCache)));
}

#[test]
fn names_that_need_no_getting_say_so() {
    let catalogue = Catalogue::with_cache("/nowhere");
    for name in ["fashion-sample", "fake", "fake:28x28:10:5"] {
        assert!(matches!(catalogue.get(name, None, None, &mut |_| {}), Err(DataError::NothingToGet { .. })));
    }
    assert!(matches!(catalogue.get("mnits", None, None, &mut |_| {}), Err(DataError::UnknownSet { .. })));
}

/// CIFAR-10 of twelve pictures, by the binary version in a folder and by its archive on a server.
#[test]
fn cifar_is_made_of_its_batches_and_checked() {
    let (from, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    cifar::tests::write_bin(from.path());
    let mut set = *known::by_name("cifar10").unwrap();
    let refused = Catalogue::with_cache(cache.path()).get_set(&set, Some(from.path()), None, &mut |_| {}).unwrap_err();
    assert!(refused.to_string().contains("of a shorter file"), "{refused}");
    assert_eq!(names(cache.path()), Vec::<String>::new());
    let arrays = cifar::read(from.path()).unwrap().map(|part| part.into_arrays().unwrap());
    for (file, array) in set.files.iter_mut().zip(arrays.iter().flatten()) {
        let mut plain = Vec::new();
        array.write_to(&mut plain, Packing::Plain).unwrap();
        (file.bytes, file.sha256) = (plain.len() as u64, hex(&Sha256::digest(&plain)).leak());
    }
    let url = serve(|name| match name {
        "cifar-10-binary.tar.gz" => ok(&cifar::tests::archive_bytes()),
        _ => b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n".to_vec(),
    });
    for (from, url) in [(Some(from.path()), None), (None, Some(&url[..]))] {
        let cache = tempfile::tempdir().unwrap();
        let catalogue = Catalogue::with_cache(cache.path());
        let got = catalogue.get_set(&set, from, url, &mut |_| {}).unwrap();
        assert!(got.from.is_some());
        assert_eq!(catalogue.get_set(&set, from, url, &mut |_| {}).unwrap().from, None, "it is there now");
        let set = catalogue.open("cifar10", &Options::default()).unwrap();
        assert_eq!((set.train.len(), set.train.shape(), set.test.unwrap().len()), (10, &[32, 32, 3][..], 2));
        assert_eq!(set.class_names[6], "frog");
    }
    let opened = Catalogue::with_cache(cache.path()).open(from.path().to_str().unwrap(), &Options::default()).unwrap();
    assert_eq!((opened.train.len(), opened.train.label(3)), (10, 3));
}
