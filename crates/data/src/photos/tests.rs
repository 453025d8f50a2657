//! Lists of photos: folders and tables, with the names that people have.

use crate::photos::{Listing, Photos};
use crate::{DataError, PhotoError};
use std::fs;
use std::path::Path;

fn touch(root: &Path, files: &[&str]) {
    for file in files {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"x").unwrap();
    }
}

/// Paths and classes, as text.
fn listed(path: &Path) -> Vec<String> {
    let photos = Photos::list(path).unwrap();
    let root = if path.is_dir() { path } else { path.parent().unwrap() };
    (0..photos.len())
        .map(|i| {
            assert_eq!(photos.path(i), root.join(photos.name(i)));
            format!("{} {}", photos.class_names()[photos.label(i) as usize], photos.name(i).display())
        })
        .collect()
}

fn refused(path: &Path) -> PhotoError {
    match Photos::list(path).unwrap_err() {
        DataError::Photos(error) => error,
        error => panic!("{error}"),
    }
}

#[test]
fn folders_are_classes_whatever_lies_below() {
    let dir = tempfile::tempdir().unwrap();
    touch(
        dir.path(),
        &[
            "b/2.jpg",
            "b/10.JPEG",
            "a/z.png",
            "a/deep/er/1.jpg",
            "a/notes.txt",
            "a/.hidden.jpg",
            ".git/c.jpg",
            "readme.md",
        ],
    );
    assert_eq!(listed(dir.path()), ["a a/deep/er/1.jpg", "a a/z.png", "b b/10.JPEG", "b b/2.jpg"]);
    let photos = Photos::list(dir.path()).unwrap();
    assert_eq!(photos.class_names(), ["a", "b"]);
    assert_eq!(photos.counts(), [2, 2]);
    assert_eq!(photos.left_out().count(), 3);
    assert_eq!(photos.left_out().words(), "1 .md (readme.md), 1 .txt (a/notes.txt), 1 hidden (a/.hidden.jpg)");
}

#[test]
fn one_class_is_listed_and_left_to_the_caller() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a/1.jpg"]);
    assert_eq!(Photos::list(dir.path()).unwrap().class_names(), ["a"]);
}

#[test]
fn an_empty_folder_and_images_without_a_class_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a/notes.txt"]);
    assert!(matches!(refused(dir.path()), PhotoError::ClassWithoutImages { .. }));
    fs::remove_file(dir.path().join("a/notes.txt")).unwrap();
    fs::remove_dir(dir.path().join("a")).unwrap();
    touch(dir.path(), &["readme.md"]);
    assert!(matches!(refused(dir.path()), PhotoError::NoImages { held, .. } if held == "1 .md (readme.md)"));
    touch(dir.path(), &["b/1.jpg", "stray.jpg"]);
    let error = refused(dir.path());
    assert!(matches!(&error, PhotoError::NoClass { count: 1, first, .. } if first == "stray.jpg"));
    assert!(error.to_string().contains("csv"), "{error}");
    assert!(matches!(Photos::list(&dir.path().join("nothing")), Err(DataError::Io { .. })));
    assert!(matches!(refused(&dir.path().join("stray.jpg")), PhotoError::NotPhotos { .. }));
}

#[cfg(unix)]
#[test]
fn names_need_not_be_text_but_classes_must() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("a");
    fs::create_dir(&folder).unwrap();
    let name = OsStr::from_bytes(b"caf\xe9.jpg");
    fs::write(folder.join(name), b"here").unwrap();
    let photos = Photos::list(dir.path()).unwrap();
    assert_eq!(fs::read(photos.path(0)).unwrap(), b"here");

    let class = dir.path().join(OsStr::from_bytes(b"ros\xe9"));
    fs::create_dir(&class).unwrap();
    assert!(matches!(refused(dir.path()), PhotoError::ClassWithoutImages { held, .. } if held == "nothing"));
    fs::write(class.join("1.jpg"), b"x").unwrap();
    assert!(matches!(refused(dir.path()), PhotoError::ClassName { .. }));
}

#[cfg(unix)]
#[test]
fn links_are_followed_but_not_in_circles() {
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["set/a/1.jpg", "set/b/2.jpg", "elsewhere/3.jpg"]);
    let set = dir.path().join("set");
    symlink("..", set.join("a/up")).unwrap();
    symlink(".", set.join("a/here")).unwrap();
    symlink("../../elsewhere", set.join("b/link")).unwrap();
    symlink("nowhere.jpg", set.join("b/dangling.jpg")).unwrap();
    // Two links to each of many folders would be 2^24 paths, if each were followed every time.
    for level in 0..24 {
        let folder = set.join(format!("b/t{level}"));
        fs::create_dir(&folder).unwrap();
        symlink(format!("../t{}", level + 1), folder.join("x")).unwrap();
        symlink(format!("../t{}", level + 1), folder.join("y")).unwrap();
    }
    touch(&set, &["b/t24/4.jpg"]);
    let found = listed(&set);
    assert_eq!(found.len(), 5, "{found:?}");
    assert!(found.contains(&"b b/link/3.jpg".to_string()) && found.contains(&"b b/dangling.jpg".to_string()));
}

#[test]
fn tables_list_paths_and_labels() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["x/1.jpg", "x/2, big.jpg", "3.png", "quo\"te.jpg"]);
    let check = |name: &str, text: &str, expected: &[&str]| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        assert_eq!(listed(&path), expected, "{text:?}");
    };
    let three = ["cat x/1.jpg", "cat x/2, big.jpg", "dog 3.png"];
    check("a.csv", "x/1.jpg,cat\n\"x/2, big.jpg\",cat\n3.png,dog\n", &three);
    check("b.csv", "\u{feff}Path,Label\r\n3.png,dog\r\n\r\n\"x/2, big.jpg\",\"cat\"\r\nx/1.jpg,cat", &three);
    check("c.tsv", "label\tsplit\tfile\ndog\ttrain\t3.png\ncat\ttrain\tx/1.jpg\ncat\ttest\tx/2, big.jpg\n", &three);
    check("d.CSV", "\"quo\"\"te.jpg\",\"two\nlines\"\n", &["two\nlines quo\"te.jpg"]);
}

#[test]
fn wrong_tables_name_the_line() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["1.jpg"]);
    let check = |text: &[u8], expected: &str| {
        let path = dir.path().join("t.csv");
        fs::write(&path, text).unwrap();
        let error = refused(&path).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(b"", "lists no files");
    check(b"path,label\n", "lists no files");
    check(b"1.jpg,a\nmissing.jpg,b\n", "t.csv:2: no file missing.jpg");
    check(b"1.jpg,a\n\n1.jpg\n", "t.csv:3: 1 columns");
    check(b"1.jpg,a,b\n", "t.csv:1: 3 columns");
    check(b"1.jpg,\n", "t.csv:1: the label is empty");
    check(b",a\n", "t.csv:1: the path is empty");
    check(b"1.jpg,\xff\n", "t.csv:1: the label is not UTF-8");
    check(b"1.jpg,a\n\"1.jpg,a\n\n\n", "t.csv:2: a quoted field that does not end");
    check(b"\"1.jpg\"x,a\n", "t.csv:1: text after the closing quote");
    check(b"\"two\nlines\",a\n", "t.csv:1: no file two");
}

/// A whole class of another type does not vanish, and what is left out is said.
#[test]
fn a_class_of_other_files_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a/1.jpg", "b/1.webp", "c/1.BMP", "d/1.gif", "e/1.tiff", "e/2.tiff", "e/3.txt"]);
    let error = refused(dir.path());
    let PhotoError::ClassWithoutImages { class, held } = &error else { panic!("{error}") };
    assert!(class.ends_with("/e"), "{error}");
    assert_eq!(held, "2 .tiff (e/1.tiff, e/2.tiff), 1 .txt (e/3.txt)");
    fs::remove_dir_all(dir.path().join("e")).unwrap();
    touch(dir.path(), &["__MACOSX/a/x.jpg", ".ipynb_checkpoints/y.jpg", "a/2.heic"]);
    assert_eq!(listed(dir.path()), ["a a/1.jpg", "b b/1.webp", "c c/1.BMP", "d d/1.gif"]);
    let listing = Listing::of(dir.path()).unwrap();
    assert_eq!(listing.left_out.words(), "1 .heic (a/2.heic), 1 folder of a tool (__MACOSX)");
    assert_eq!(listing.notes().len(), 1);
}

/// Files without an extension are known by their first bytes.
#[test]
fn images_without_an_extension_are_known_by_their_content() {
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a/README", "b/1.jpg"]);
    fs::write(dir.path().join("a/0001"), b"\x89PNG\r\n\x1a\n").unwrap();
    assert_eq!(listed(dir.path()), ["a a/0001", "b b/1.jpg"]);
}

/// A pipe or socket named like an image would be waited for, for ever: if this test ends, it was not opened.
#[cfg(unix)]
#[test]
fn pipes_and_sockets_are_left_out() {
    use std::os::unix::net::UnixListener;
    let dir = tempfile::tempdir().unwrap();
    touch(dir.path(), &["a/1.jpg", "b/1.jpg"]);
    let pipe = dir.path().join("a/pipe.jpg");
    let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends in a zero byte, and a mode.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    let _socket = UnixListener::bind(dir.path().join("b/socket.png")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.path().join("b/zero.jpg")).unwrap();
    std::os::unix::fs::symlink("pipe.jpg", dir.path().join("a/link.jpg")).unwrap();
    assert_eq!(listed(dir.path()), ["a a/1.jpg", "b b/1.jpg"]);
    assert_eq!(
        Photos::list(dir.path()).unwrap().left_out().words(),
        "1 a device (b/zero.jpg), 2 a pipe (FIFO) (a/link.jpg, a/pipe.jpg), 1 a socket (b/socket.png)"
    );
    // Asked for by name it is an error, in a table and as a table.
    let table = dir.path().join("t.csv");
    fs::write(&table, "a/1.jpg,a\na/pipe.jpg,a\n").unwrap();
    assert!(matches!(refused(&table), PhotoError::NotRegular { line: 2, what: "a pipe (FIFO)", .. }));
    let error = crate::open_regular(&pipe).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
    let table = std::ffi::CString::new(dir.path().join("p.csv").to_str().unwrap()).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::mkfifo(table.as_ptr(), 0o600) }, 0);
    assert!(matches!(Photos::list(&dir.path().join("p.csv")), Err(DataError::Io { .. })));
    let info = crate::Catalogue::with_cache(dir.path()).info(pipe.to_str().unwrap());
    assert!(matches!(info, Err(DataError::Io { .. })));
}
