//! Disks: checkpoints that were damaged, a disk that is full, a folder that may not be written.

use crate::session::{SMALL, Session, done, failed, has};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// A run with checkpoints after 5 and 10 steps, and one that goes on to 15 without a break.
fn two_checkpoints() -> Session {
    let s = Session::new();
    s.train("whole", "--set train.max_steps=15");
    s.train("r", "--set train.max_steps=5");
    s.ok("train --resume r --set train.max_steps=10");
    assert_eq!(s.checkpoints("r"), [5, 10]);
    s
}

fn flip(path: PathBuf) {
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn truncate(path: PathBuf) {
    let bytes = fs::read(&path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
}

fn remove(path: PathBuf) {
    fs::remove_file(path).unwrap();
}

#[test]
fn a_damaged_newest_checkpoint_falls_back_to_the_one_before() {
    type Damage = fn(PathBuf);
    for (name, damage) in [("flip", flip as Damage), ("truncate", truncate), ("remove", remove)] {
        for file in ["model.safetensors", "optimizer.safetensors", "manifest.toml"] {
            if (name, file) == ("flip", "manifest.toml") {
                continue; // its last byte is a line's end: nothing depends on it
            }
            let s = two_checkpoints();
            damage(s.path("r/checkpoints/step-10").join(file));
            let out = s.ok("train --resume r --set train.max_steps=15");
            has(&out, &["checkpoints/step-10", "the one before it is used", "going on from r/checkpoints/step-5"]);
            assert_eq!(s.newest("r"), s.newest("whole"), "{name} {file}");
            assert!(s.summary("r")["warnings"].to_string().contains("step-10"), "the summary says so, too");
        }
    }
}

#[test]
fn only_damaged_checkpoints_are_an_error_that_says_so() {
    let s = two_checkpoints();
    flip(s.path("r/checkpoints/step-10/model.safetensors"));
    remove(s.path("r/checkpoints/step-5/optimizer.safetensors"));
    let message = s.fails(1, "train --resume r --set train.max_steps=15");
    has(&message, &["no checkpoint in r/checkpoints is whole", "step-5"]);
    assert_eq!(s.summary("r")["attempt"], 2, "nothing was begun");
    // Without any checkpoint, it begins again, and says so.
    fs::remove_dir_all(s.path("r/checkpoints")).unwrap();
    has(&s.ok("train --resume r --set train.max_steps=15"), &["no checkpoint yet"]);
    assert_eq!(s.newest("r"), s.newest("whole"));
}

#[test]
fn a_checkpoint_of_a_newer_program_is_refused() {
    let s = two_checkpoints();
    let path = "r/checkpoints/step-10/manifest.toml";
    s.write(path, s.read(path).replacen("format = 2", "format = 3", 1));
    has(&s.fails(2, "train --resume r"), &["format 3", "newer", "update paceline"]);
}

/// A small file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, size: &str) -> Result<Self, String> {
        fs::create_dir(&at).map_err(|e| e.to_string())?;
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "paceline-test"])
            .arg(&at)
            .output();
        match made {
            Ok(output) if output.status.success() => Ok(Self(at)),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
            Err(e) => Err(e.to_string()),
        }
    }

    fn resize(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status(); // the folder goes with the session
    }
}

#[test]
fn a_full_disk_ends_the_run_and_leaves_earlier_checkpoints_whole() {
    let s = Session::new();
    // A checkpoint takes 1.2 MB: two fit, and the third has to be written before the first is removed.
    let disk = match SmallDisk::mount(s.path("disk"), "3m") {
        Ok(disk) => disk,
        Err(why) => return println!("not run: a small file system cannot be mounted ({why}); run it as root"),
    };
    let settings = "train --threads 1 --set data.name=fake:28x28:10:200 --set train.batch=16";
    s.ok(&format!("{settings} --run-dir whole --set train.max_steps=9"));
    s.ok(&format!("{settings} --run-dir disk/r --set train.max_steps=3"));
    s.ok("train --resume disk/r --set train.max_steps=6");
    let before = s.newest("disk/r");
    let message = s.fails(1, "train --resume disk/r --quiet --set train.max_steps=9");
    has(&message, &["disk/r/checkpoints", "the disk is full", "earlier checkpoints are kept", "--resume"]);
    assert_eq!(s.checkpoints("disk/r"), [3, 6]);
    assert_eq!(s.newest("disk/r"), before);
    // A disk without any room left: still one line.
    let fill = s.program("sh").args(["-c", "cat /dev/zero > disk/filler"]).output().unwrap();
    assert!(!fill.status.success());
    has(&s.fails(1, "train --resume disk/r --quiet --set train.max_steps=9"), &["the disk is full"]);
    has(&s.fails(1, &format!("{settings} --quiet --run-dir disk/another")), &["the disk is full"]);
    assert_eq!(s.newest("disk/r"), before);
    disk.resize("20m");
    s.ok("train --resume disk/r --set train.max_steps=9");
    assert_eq!(s.newest("disk/r"), s.newest("whole"));
}

/// `paceline LINE` as a user who is not root; root may write everywhere.
fn as_nobody(s: &Session, line: &str) -> std::process::Output {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    if !is_root {
        return s.command(line).output().unwrap();
    }
    let program = s.path("paceline");
    if !program.exists() {
        // The target folder may be closed to others.
        fs::copy(env!("CARGO_BIN_EXE_paceline"), &program).unwrap();
        fs::set_permissions(s.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = s.program("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(line.split_whitespace());
    command.output().unwrap()
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    let s = Session::new();
    s.train("r", "--set train.max_steps=3");
    fs::create_dir(s.path("closed")).unwrap();
    let mode = |name: &str, mode| fs::set_permissions(s.path(name), fs::Permissions::from_mode(mode)).unwrap();
    mode("closed", 0o555);
    let before = s.newest("r");
    for line in [
        format!("train {SMALL} --quiet --run-dir closed/r"),
        format!("train {SMALL} --quiet --set run.dir=closed"),
        "demo --dir closed".into(),
    ] {
        has(&failed(2, &line, &as_nobody(&s, &line)), &["closed", "permission denied", "may write"]);
    }
    // Somebody else's run can be read, not resumed.
    mode("r", 0o555);
    let files = ["run.toml", "steps.jsonl", "summary.json"].map(|f| format!("r/{f}"));
    files.iter().for_each(|f| mode(f, 0o444));
    let line = "train --resume r --quiet --set train.max_steps=6";
    has(&failed(2, line, &as_nobody(&s, line)), &["r/", "permission denied"]);
    let line = "report r --html closed/page.html";
    has(&failed(2, line, &as_nobody(&s, line)), &["closed/page.html", "permission denied"]);
    let line = "report r --json";
    done(line, &as_nobody(&s, line));
    mode("r", 0o755);
    mode("closed", 0o755);
    assert_eq!(s.newest("r"), before);
    assert_eq!(s.summary("r")["attempt"], 1);
}
