//! A machine that others use too: what they took is not called computing.

use crate::session::{Session, flat, has};
use std::process::{Child, Stdio};

/// Programs that do nothing but run, until they are dropped.
struct Busy(Vec<Child>);

impl Busy {
    /// Three for each core, so that each of our threads gets a quarter of one or less.
    fn new(s: &Session) -> Self {
        let count = 3 * std::thread::available_parallelism().map_or(1, usize::from);
        let spin = || s.program("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap();
        Self((0..count).map(|_| spin()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn what_other_programs_took_is_said_and_not_called_computing() {
    assert!(
        std::path::Path::new("/proc/self/schedstat").exists(),
        "this kernel does not count what this test is about"
    );
    let s = Session::new();
    let busy = Busy::new(&s);
    let settings = "--set data.name=fake:28x28:10:4000 --set model.hidden=[256] --set train.epochs=6 --threads 1";
    let out = s.ok(&format!("train {settings} --run-dir r"));
    drop(busy);
    has(&flat(&out), &["other programs took", "threads of this run were ready to run for", "cores used"]);
    assert!(!out.contains("compute bound"), "{out}");
    let cpu = &s.summary("r")["cpu"][0];
    let figure = |key: &str| cpu[key].as_f64().unwrap_or_else(|| panic!("{key} in {cpu}"));
    assert!(figure("cpu") > 0.0 && figure("delayed") > figure("cpu") / 2.0 && figure("others") > 0.0, "{cpu}");
    has(&s.ok("report r"), &["other programs took"]);
    has(&s.read("report.html"), &["other programs took"]);
}

#[test]
fn a_summary_of_an_older_version_has_no_such_figures() {
    let s = Session::new();
    s.train("r", "--set train.epochs=1");
    let mut summary = s.summary("r");
    for key in ["cpu", "monitor", "best_step", "best_checkpoint"] {
        assert!(summary.as_object_mut().unwrap().remove(key).is_some(), "{key}");
    }
    s.write("r/summary.json", summary.to_string());
    assert!(!s.ok("report r").contains("other programs took"));
}
