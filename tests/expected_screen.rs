//! What a command shows, compared with a file of the repository that a person can read. `PACELINE_UPDATE_SCREENS=1 cargo test` writes the
//! files anew; look at what changed before it is committed.
//!
//! Used by `#[path = "../../../tests/expected_screen.rs"] mod expected_screen;`.

use std::path::Path;

/// Checks a screen of so many columns against `FOLDER/NAME-WIDTH.txt`, and that no line of it is wider.
#[track_caller]
pub(super) fn check(folder: &Path, name: &str, width: usize, screen: &str) {
    fits(name, width, screen);
    let path = folder.join(format!("{name}-{width}.txt"));
    if std::env::var_os("PACELINE_UPDATE_SCREENS").is_some() {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(&path, screen).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        screen == expected,
        "{} is not what is shown; if it is meant, write it anew with PACELINE_UPDATE_SCREENS=1\nexpected:\n{expected}\nshown:\n{screen}",
        path.display()
    );
}

/// Checks that no line is wider than the terminal. A path or another single word may be: it cannot be broken.
#[track_caller]
pub(super) fn fits(name: &str, width: usize, screen: &str) {
    for line in screen.lines() {
        let wide = line.chars().count() > width && line.trim().contains(' ');
        assert!(!wide, "{name}: wider than {width}: {line:?}\n{screen}");
    }
}
