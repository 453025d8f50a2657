//! One writer at a time in a run directory, and who it is.
//!
//! The file `lock` says which process writes. The process holds a `flock` on it, which the kernel gives up with the
//! process however that ends, and touches it every few seconds:
//!
//! - On one machine, and on network file systems whose server keeps locks (NFS since Linux 2.6.12, NFSv4, Lustre with
//!   `-o flock`, …), the lock alone decides.
//! - Where locks stay on the machine that took them (`local_lock`, `localflock`), or there are none, the touches decide:
//!   a writer on another machine that is heard is alive, one that is silent for [`SILENCE`] is not. Two that start there in
//!   the same second are told apart by whose name stays in the file.
//!
//! Readers ask for a shared lock, for a moment, and never write.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use paceline_base::{Error, Result};
use paceline_system::host_name;
use serde::{Deserialize, Serialize};

use crate::FORMAT;

/// The name of the file.
pub(crate) const LOCK: &str = "lock";
/// How often a writer touches the file.
const BEAT: Duration = Duration::from_secs(5);
/// Without a touch for so long, a writer that no lock vouches for is taken for dead.
const SILENCE: Duration = Duration::from_secs(20);
/// A file that was not touched for so long needs no watching: no two clocks differ that much.
const OLD: Duration = Duration::from_secs(600);
/// How long somebody waits who was started by a person: a reader's look, or a process that is just ending.
const SHORT: Duration = Duration::from_secs(2);
/// How long a restart waits for the lock of a machine that is gone: longer than the 90 s after which NFSv4 takes it back.
const LEASE: Duration = Duration::from_secs(150);
/// Touches after which a restart takes a holder for alive, rather than for one that is ending.
const ALIVE: u32 = 3;
/// How long the name must stay in the file where nothing else decides.
const NAME_MUST_STAY: Duration = Duration::from_secs(1);
/// How often it is looked while waiting.
const LOOK: Duration = Duration::from_millis(100);

/// Who writes, or wrote, into a run directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Holder {
    /// Format of the file.
    pub format: u32,
    /// The host's name.
    pub host: String,
    /// The running kernel, which containers share and two machines never do.
    pub machine: String,
    /// The process, by the number it has on its host (in its container).
    pub pid: u32,
    /// When it took the lock, in Unix seconds.
    pub started: u64,
    /// When it gave the lock back, in Unix seconds; none while it runs, and for ever if it was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
}

impl Holder {
    fn me() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let host = host_name();
        let boot = read("/proc/sys/kernel/random/boot_id");
        let machine = if boot.is_empty() { host.clone() } else { boot };
        Self { format: FORMAT, host, machine, pid: std::process::id(), started: unix(SystemTime::now()), ended: None }
    }

    /// `process 4711 on node-3`
    fn words(&self) -> String {
        format!("process {} on {}", self.pid, self.host)
    }
}

/// How long to wait for a lock that somebody has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// A person waits: two seconds.
    Short,
    /// A restart, whose predecessor may still be ending or be on a machine that is gone: until that one is known to live on.
    Restart,
}

/// The right to write into a run directory, until it is dropped.
#[derive(Debug)]
pub(crate) struct RunLock {
    file: File,
    path: PathBuf,
    me: Holder,
    ended: Arc<AtomicBool>,
    beat: Option<JoinHandle<()>>,
    note: Option<String>,
}

impl RunLock {
    /// Takes the lock of a folder that exists. `waiting` is told, in words, what is waited for.
    pub(crate) fn take(folder: &Path, patience: Patience, waiting: &mut dyn FnMut(&str)) -> Result<Self> {
        Self::take_as(Holder::me(), folder, patience, waiting, File::try_lock)
    }

    fn take_as(
        me: Holder,
        folder: &Path,
        patience: Patience,
        waiting: &mut dyn FnMut(&str),
        try_lock: fn(&File) -> std::result::Result<(), TryLockError>,
    ) -> Result<Self> {
        let path = folder.join(LOCK);
        let mut wait =
            Wait { path: &path, patience, begin: Instant::now(), beats: Beats::default(), waiting, said: false };
        let (mut file, kept) = loop {
            let mut file = open(&path)?;
            match try_lock(&file) {
                Ok(()) if same_file(&file, &path) => break (file, true),
                Ok(()) => {} // removed by hand in between
                Err(TryLockError::WouldBlock) => wait.once_more(&read(&mut file), Why::Locked)?,
                Err(TryLockError::Error(e)) if has_no_locks(&e) => break (file, false),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, &e)),
            }
        };
        // What no lock vouches for: a writer elsewhere, or anyone where there are no locks.
        loop {
            let holder = read(&mut file);
            let elsewhere = holder.machine != me.machine;
            let open_end = !holder.machine.is_empty() && holder.ended.is_none();
            if !open_end || (kept && !elsewhere) || wait.is_silent() {
                break;
            }
            wait.once_more(&holder, Why::Heard)?;
            file = if kept { file } else { open(&path)? };
        }
        write(&mut file, &me).map_err(|e| Error::io("write", &path, &e))?;
        let note = (!kept).then(|| {
            format!(
                "the file system of {} has no locks: another machine is kept from writing there only by what {LOCK} says",
                folder.display()
            )
        });
        if !kept {
            thread::sleep(NAME_MUST_STAY);
            let now = open(&path).map(|mut file| read(&mut file))?;
            if now != me {
                return Err(taken(&path, &now));
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let beat = thread::Builder::new()
            .name("paceline-lock".into())
            .spawn({
                let ended = Arc::clone(&ended);
                let (mut file, me) = (file.try_clone().map_err(|e| Error::io("open", &path, &e))?, me.clone());
                move || {
                    loop {
                        thread::park_timeout(BEAT);
                        if ended.load(Ordering::Acquire) || read(&mut file) != me {
                            return; // at its end, or taken over: see `check`
                        }
                        // Goes to the server at once. Only the file's owner may; others write the same name again.
                        if file.set_modified(SystemTime::now()).is_err() {
                            let _ = write(&mut file, &me).and_then(|()| file.sync_data()); // one touch may be missed
                        }
                    }
                }
            })
            .map_err(|e| Error::failure(format!("cannot start the thread that keeps {}: {e}", path.display())))?;
        Ok(Self { file, path, me, ended, beat: Some(beat), note })
    }

    /// An error if another has taken the run over: where no lock prevents it, because this process was silent for too long
    /// (suspended, cut off), or because the file was removed by hand.
    pub(crate) fn check(&self) -> Result<()> {
        match File::open(&self.path).map(|mut file| read(&mut file)) {
            Ok(now) if now != self.me && !now.machine.is_empty() => Err(Error::failure(format!(
                "{} was taken over by {} while this process was silent or its lock was removed; nothing more is written here",
                self.path.parent().unwrap_or(&self.path).display(),
                now.words()
            ))),
            _ => Ok(()),
        }
    }

    /// What the user should know of this lock.
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(beat) = self.beat.take() {
            beat.thread().unpark();
            let _ = beat.join();
        }
        // A folder that was removed, or a name that another has overwritten, is left alone.
        if same_file(&self.file, &self.path) && read(&mut self.file) == self.me {
            let _ = write(&mut self.file, &Holder { ended: Some(unix(SystemTime::now())), ..self.me.clone() });
        }
    }
}

/// Why somebody else is taken for a writer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Locked,
    Heard,
}

/// Waiting for a holder to end or to show that it lives.
struct Wait<'a> {
    path: &'a Path,
    patience: Patience,
    begin: Instant,
    beats: Beats,
    waiting: &'a mut dyn FnMut(&str),
    said: bool,
}

impl Wait<'_> {
    /// Waits a moment, or gives up.
    fn once_more(&mut self, holder: &Holder, why: Why) -> Result<()> {
        self.beats.look(modified(self.path));
        let waited = self.begin.elapsed();
        let up = match (self.patience, why) {
            (Patience::Short, Why::Locked) => waited >= SHORT,
            (Patience::Short, Why::Heard) => self.beats.count > 0,
            (Patience::Restart, _) => self.beats.count >= ALIVE || waited >= LEASE,
        };
        if up {
            return Err(taken(self.path, holder));
        }
        let person = self.patience == Patience::Short && why == Why::Locked;
        if !self.said && !person && waited >= 3 * LOOK {
            self.said = true;
            let (who, path) = (holder.words(), self.path.display());
            (self.waiting)(&match why {
                Why::Locked => format!("{who} still holds {path}; waiting for it to end"),
                Why::Heard => {
                    format!("waiting {} s to see whether {who}, which {path} names, still writes", SILENCE.as_secs())
                }
            });
        }
        thread::sleep(LOOK);
        Ok(())
    }

    /// Whether the file was not touched for so long that its writer is gone.
    fn is_silent(&mut self) -> bool {
        let modified = modified(self.path);
        self.beats.look(modified);
        let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok()).unwrap_or_default();
        age >= OLD || self.beats.last.is_some_and(|(_, seen)| seen.elapsed() >= SILENCE)
    }
}

/// The touches of a file, by their change alone: clocks of machines differ.
#[derive(Default)]
struct Beats {
    last: Option<(SystemTime, Instant)>,
    count: u32,
}

impl Beats {
    fn look(&mut self, modified: Option<SystemTime>) {
        let Some(time) = modified else { return };
        match self.last {
            Some((last, _)) if last == time => {}
            before => {
                self.count += u32::from(before.is_some());
                self.last = Some((time, Instant::now()));
            }
        }
    }
}

fn taken(path: &Path, holder: &Holder) -> Error {
    let folder = path.parent().unwrap_or(path).display();
    let who = if holder.host.is_empty() { "another process".into() } else { holder.words() };
    Error::user(format!(
        "{folder} is being written by {who}, and a run has one writer at a time; let it end or end it (Ctrl-C, or `kill {}` \
         there), or give another folder with --run-dir. If that machine is gone for good, remove {}",
        holder.pid,
        path.display()
    ))
}

/// Whether a run is being written now, as far as its `lock` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A process writes.
    Alive {
        /// Which one.
        holder: Holder,
        /// Seconds since it touched the file, where only that tells that it is alive.
        heard: Option<u64>,
    },
    /// None does.
    Gone {
        /// When the last one was heard, in Unix seconds; none without a file, as in runs of older versions.
        last: Option<u64>,
    },
}

/// Looks who writes into a run directory. Writes nothing.
pub(crate) fn writer_of(folder: &Path) -> Writer {
    let path = folder.join(LOCK);
    let modified = modified(&path);
    let last = modified.map(unix);
    let Ok(mut file) = File::open(&path) else { return Writer::Gone { last } };
    let locked = match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    };
    let _ = file.unlock(); // at once: a writer may be about to begin
    let holder = read(&mut file);
    let age = modified.map(|time| SystemTime::now().duration_since(time).unwrap_or_default());
    judge(locked, holder, &Holder::me().machine, age).unwrap_or(Writer::Gone { last })
}

/// The writer that is alive. `locked` is whether somebody has the lock; none if the file system has no locks.
fn judge(locked: Option<bool>, holder: Holder, here: &str, age: Option<Duration>) -> Option<Writer> {
    if locked == Some(true) {
        return Some(Writer::Alive { holder, heard: None });
    }
    // A lock that is free says nothing of other machines, and touches come late over a network.
    let unsure = locked.is_none() || holder.machine != here;
    let age = age.filter(|&age| age < 2 * SILENCE)?;
    let open_end = holder.ended.is_none() && !holder.machine.is_empty();
    (unsure && open_end).then_some(Writer::Alive { holder, heard: Some(age.as_secs()) })
}

fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.map_err(|e| Error::io("open", path, &e))
}

/// What the file says; empty if it is new or half-written.
fn read(file: &mut File) -> Holder {
    let mut text = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn write(file: &mut File, holder: &Holder) -> io::Result<()> {
    let mut text = serde_json::to_vec(holder)?;
    text.push(b'\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)?;
    file.set_len(text.len() as u64)
}

/// Whether the open file is still the one that has the name.
fn same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// `ENOLCK`, or what a file system answers that does not know the call.
fn has_no_locks(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    error.raw_os_error() == Some(ENOLCK) || error.kind() == io::ErrorKind::Unsupported
}

fn modified(path: &Path) -> Option<SystemTime> {
    // Opened, not only looked at: that is when NFS asks the server.
    File::open(path).and_then(|file| file.metadata()).and_then(|data| data.modified()).ok()
}

fn unix(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(machine: &str) -> Holder {
        Holder { format: 1, host: format!("host-{machine}"), machine: machine.into(), pid: 7, started: 1, ended: None }
    }

    fn silent(_: &str) {}

    #[test]
    fn one_at_a_time_and_named() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(writer_of(folder.path()), Writer::Gone { last: None });
        let first = RunLock::take(folder.path(), Patience::Short, &mut silent).unwrap();
        assert_eq!(first.note(), None);
        let error = RunLock::take(folder.path(), Patience::Short, &mut silent).unwrap_err();
        assert_eq!(error.kind(), paceline_base::Kind::User);
        assert!(error.message().contains(&first.me.words()), "{error}");
        assert!(matches!(writer_of(folder.path()), Writer::Alive { holder, heard: None } if holder == first.me));
        drop(first);
        assert!(matches!(writer_of(folder.path()), Writer::Gone { last: Some(_) }));
        let again = RunLock::take(folder.path(), Patience::Short, &mut silent).unwrap();
        assert_eq!(read(&mut File::open(folder.path().join(LOCK)).unwrap()), again.me);
    }

    #[test]
    fn a_restart_waits_for_one_that_is_ending_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::take(folder.path(), Patience::Short, &mut silent).unwrap();
        let mut first = Some(first);
        let mut words = Vec::new();
        // It ends when it is heard that somebody waits.
        let second = RunLock::take(folder.path(), Patience::Restart, &mut |text| {
            words.push(text.to_string());
            first = None;
        });
        second.unwrap();
        assert!(words.len() == 1 && words[0].contains("waiting for it to end"), "{words:?}");
    }

    /// A file system that knows no locks.
    fn none(_: &File) -> std::result::Result<(), TryLockError> {
        Err(TryLockError::Error(io::Error::from_raw_os_error(37)))
    }

    #[test]
    fn where_there_are_no_locks_a_writer_that_is_heard_is_alive() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::take_as(holder("a"), folder.path(), Patience::Short, &mut silent, none).unwrap();
        assert!(first.note().unwrap().contains("no locks"));
        // Touched by its own thread while the other watches.
        let mut words = Vec::new();
        let second =
            RunLock::take_as(holder("b"), folder.path(), Patience::Short, &mut |w| words.push(w.to_string()), none);
        assert!(second.unwrap_err().message().contains("process 7 on host-a"));
        assert!(words[0].contains("still writes"), "{words:?}");
        drop(first); // which says that it ended, so that nobody waits
        let begin = Instant::now();
        RunLock::take_as(holder("b"), folder.path(), Patience::Short, &mut |w| panic!("waits: {w}"), none).unwrap();
        assert!(begin.elapsed() >= NAME_MUST_STAY, "the name has to stay for a while");
    }

    #[test]
    fn where_locks_stay_on_their_machine_an_old_name_is_taken_over_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = open(&folder.path().join(LOCK)).unwrap();
        write(&mut file, &holder("elsewhere")).unwrap();
        file.set_modified(SystemTime::now() - 2 * OLD).unwrap();
        RunLock::take(folder.path(), Patience::Short, &mut |w| panic!("waits: {w}")).unwrap();
    }

    #[test]
    fn one_that_was_silent_and_taken_over_writes_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let first = RunLock::take(folder.path(), Patience::Short, &mut silent).unwrap();
        first.check().unwrap();
        fs::remove_file(folder.path().join(LOCK)).unwrap(); // as the message tells where a machine is gone
        first.check().unwrap();
        let second =
            RunLock::take_as(holder("b"), folder.path(), Patience::Short, &mut silent, File::try_lock).unwrap();
        let error = first.check().unwrap_err();
        assert!(error.message().contains("taken over by process 7 on host-b"), "{error}");
        drop(first); // leaves the other's name alone
        second.check().unwrap();
        assert_eq!(read(&mut File::open(folder.path().join(LOCK)).unwrap()), second.me);
    }

    #[test]
    fn a_touch_is_known_by_its_change() {
        let (mut beats, time) = (Beats::default(), SystemTime::now());
        for (touched, count) in [(time, 0), (time, 0), (time - BEAT, 1), (time - BEAT, 1), (time, 2)] {
            beats.look(Some(touched));
            assert_eq!(beats.count, count);
        }
    }

    #[test]
    fn who_is_alive() {
        let second = Some(Duration::from_secs(1));
        let hour = Some(Duration::from_secs(3600));
        let ended = Holder { ended: Some(5), ..holder("b") };
        // (locked, holder, seconds since the last touch, alive)
        for (locked, holder, age, alive) in [
            (Some(true), holder("a"), hour, true),       // stopped, but there
            (Some(true), Holder::default(), hour, true), // just begun
            (Some(false), holder("a"), second, false),   // killed here
            (Some(false), holder("b"), second, true),    // elsewhere, and heard
            (Some(false), holder("b"), hour, false),     // elsewhere, and silent
            (Some(false), ended.clone(), second, false),
            (None, holder("a"), second, true),
            (None, holder("a"), hour, false),
            (None, ended, second, false),
            (None, Holder::default(), second, false),
        ] {
            let judged = judge(locked, holder.clone(), "a", age);
            assert_eq!(judged.is_some(), alive, "{locked:?} {holder:?} {age:?}");
        }
    }
}
