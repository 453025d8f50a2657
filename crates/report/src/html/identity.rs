//! Where a page goes when a file is there already: a page of the same runs is made anew, nothing else is written over.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use maud::{Markup, Render, html};

use super::without_unseen;

/// Which runs a page is of: their names and when they began, so that a page knows its own runs wherever the folders are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageIdentity(String);

impl PageIdentity {
    /// Of runs by name and time.
    pub(super) fn runs<'a>(runs: impl Iterator<Item = (&'a str, u64)>) -> Self {
        let mut runs: Vec<String> = runs.map(|(name, started)| format!("{name} {started}")).collect();
        runs.sort();
        Self(runs.join(", "))
    }

    /// Whether the page may be written there: nothing is there, or an earlier page of the same runs.
    pub fn may_replace(&self, path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return !path.exists() };
        // The mark is within the head, long before the first curve.
        let mut start = Vec::new();
        let wanted = without_unseen(self.render());
        let most = wanted.len() as u64 + (64 << 10);
        file.take(most).read_to_end(&mut start).is_ok()
            && start.windows(wanted.len()).any(|part| part == wanted.as_bytes())
    }

    /// The path, or the first of `report-2.html`, `report-3.html`, … that [may be written](Self::may_replace).
    pub fn free_path(&self, path: &Path) -> PathBuf {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
        let others = (2u64..).map(|number| path.with_file_name(format!("{stem}-{number}{end}")));
        std::iter::once(path.to_path_buf()).chain(others).find(|path| self.may_replace(path)).unwrap_or(path.into())
    }
}

impl Render for PageIdentity {
    /// The element by which a page is known.
    fn render(&self) -> Markup {
        html! { meta name="paceline-report" content=(self.0); }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_page_of_the_same_runs_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        let (ours, theirs) =
            (PageIdentity::runs([("a\"<b", 1)].into_iter()), PageIdentity::runs([("a\"<b", 2)].into_iter()));
        assert_eq!(ours.free_path(&path), path);
        std::fs::write(&path, format!("<html><head>{}", ours.render().into_string())).unwrap();
        assert!(ours.may_replace(&path) && !theirs.may_replace(&path));
        assert_eq!(theirs.free_path(&path), folder.path().join("report-2.html"));
        std::fs::write(folder.path().join("report-2.html"), "my notes").unwrap();
        assert_eq!(theirs.free_path(&path), folder.path().join("report-3.html"));
    }
}
