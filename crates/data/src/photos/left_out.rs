//! What lies beside the images and is not read: counted by kind, with the first names, so that nothing vanishes unseen.

use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Names that are kept of each kind.
const NAMES: usize = 3;
/// More kinds than that are counted together.
const KINDS: usize = 32;

/// Files and folders that were left out of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// By kind: `.txt`, `hidden`, `without extension`, `a pipe (FIFO)`, …
    kinds: BTreeMap<String, Sort>,
}

/// Some of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Sort {
    count: usize,
    first: Vec<String>,
}

impl LeftOut {
    /// How many.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.kinds.values().map(|some| some.count).sum()
    }

    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// "12 .txt (a/notes.txt, …), 1 hidden (a/.DS_Store)".
    pub(crate) fn words(&self) -> String {
        let words = |(kind, some): (&String, &Sort)| {
            let more = if some.count > some.first.len() { ", …" } else { "" };
            format!("{} {kind} ({}{more})", some.count, some.first.join(", "))
        };
        self.kinds.iter().map(words).collect::<Vec<_>>().join(", ")
    }

    /// Notes one; `place` is its path below the root.
    pub(super) fn add(&mut self, kind: &str, place: &Path) {
        let kind = if self.kinds.len() >= KINDS && !self.kinds.contains_key(kind) { "other" } else { kind };
        let some = self.kinds.entry(kind.to_string()).or_default();
        some.count += 1;
        if some.first.len() < NAMES {
            some.first.push(place.display().to_string());
        }
    }

    /// Notes a file by its extension.
    pub(super) fn add_file(&mut self, place: &Path) {
        match place.extension() {
            Some(extension) => self.add(&format!(".{}", extension.to_string_lossy().to_lowercase()), place),
            None => self.add("without extension", place),
        }
    }

    /// All that another list has left out as well.
    pub(super) fn merge(&mut self, other: Self) {
        for (kind, some) in other.kinds {
            let mine = self.kinds.entry(kind).or_default();
            mine.count += some.count;
            mine.first.extend(some.first);
            mine.first.truncate(NAMES);
        }
    }
}
