//! `paceline launch`: wrong input, one process without MPI that dies, hangs and is stopped, and several over MPI.

use crate::session::{SMALL, Session, has, stopped};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Output, Stdio};

/// Practically without an end.
const ENDLESS: &str = "--quiet --set train.epochs=1000000 --set checkpoint.every=25";

fn refused(s: &Session, table: &[(&str, &[&str])]) {
    for (line, words) in table {
        has(&s.fails(2, line), words);
    }
    assert!(!s.path("runs").exists(), "a refused job leaves no folder");
}

#[test]
fn wrong_input_is_said_before_anything_starts() {
    let s = Session::new();
    s.write("hosts", "a slots=2\nb slots=two\n");
    refused(
        &s,
        &[
            ("launch -- train", &["where to?", "--np", "--hosts"]),
            ("launch --np 2", &["nothing to run", "-- train"]),
            ("launch --np 2 -- tarin", &["tarin"]),
            (
                "launch --np 2 -- report x",
                &["`report` does not run on several processes", "leave launch away: paceline report x"],
            ),
            ("launch --np 2 -- train --set train.epoch=2", &["train.epochs"]),
            ("launch --hosts a:1,b,a:2 -- train", &["a is there twice"]),
            ("launch --hosts a:0 -- train", &["0 processes"]),
            ("launch --hosts a:x -- train", &["`x` is not a number"]),
            ("launch --hosts [fe80::2]:1,[::1]:1 -- train", &["host [fe80::2]", "no address of IPv6", "/etc/hosts"]),
            ("launch --hosts fe80::2 -- train", &["stands in brackets"]),
            ("launch --np 2 train", &["`--` is missing", "write paceline launch --np 2 -- train"]),
            ("launch train --np 1", &["write paceline launch --np 1 -- train"]),
            ("launch --hostfile hosts -- train", &["hosts:2:", "`two`"]),
            ("launch --hostfile nofile -- train", &["nofile", "no such file"]),
            ("launch --np 1 --mpirun /no/such/mpirun -- train", &["mpi"]),
            ("launch --np 1 --env =x -- train", &["--env =x"]),
            ("launch --np 2 -- matmul --n x", &["--n"]),
            ("launch --np 1 --interface eth0 -- train", &["--interface eth0", "10.0.0.0/24"]),
            ("launch --np 1 --ports 42000-42003 -- train", &["these are 4 ports", "may need 7"]),
            (
                "launch --np 1 --address 203.0.113.9 -- train",
                &["203.0.113.9 is not an address of this machine", "--listen"],
            ),
            ("launch --np 1 --max-restarts 1 --elastic --min-ranks 2 -- train", &["--min-ranks 2"]),
        ],
    );
    for both in ["--np 2 --hosts a", "--np 2 --hostfile hosts", "--hosts a --hostfile hosts"] {
        let output = s.command(&format!("launch {both} -- train")).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{both}");
    }
}

#[cfg(not(feature = "mpi"))]
#[test]
fn several_processes_need_mpi() {
    let s = Session::new();
    for hosts in ["--np 2", "--hosts a:2,b:2"] {
        let words = ["built without", "apt-get install", "--features mpi"];
        has(&s.fails(2, &format!("launch {hosts} -- train")), &words);
    }
}

/// A job under way, and what it said of itself.
struct Job {
    child: Child,
    said: BufReader<std::process::ChildStderr>,
    /// Reads what it prints, so that it never waits for a reader.
    printed: std::thread::JoinHandle<Vec<u8>>,
}

impl Job {
    fn start(s: &Session, line: &str) -> Self {
        let mut child = s.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut out = child.stdout.take().unwrap();
        let printed = std::thread::spawn(move || {
            let mut text = Vec::new();
            std::io::Read::read_to_end(&mut out, &mut text).unwrap();
            text
        });
        Self { child, said, printed }
    }

    /// Reads on until a notice has these words.
    fn until(&mut self, words: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            let n = self.said.read_line(&mut line).unwrap();
            assert!(n > 0, "{words} never came:\n{all}");
            all += &line;
            if line.contains(words) {
                return line;
            }
        }
    }

    fn end(self) -> Output {
        let Self { mut child, mut said, printed } = self;
        let mut stderr = Vec::new();
        std::io::Read::read_to_end(&mut said, &mut stderr).unwrap();
        Output { status: child.wait().unwrap(), stdout: printed.join().unwrap(), stderr }
    }
}

/// Processes of a run, by the folder in their command line: those of `launch` itself not counted.
fn processes(s: &Session, run: &str) -> Vec<i32> {
    let mut pids: Vec<i32> = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<String> = line.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        let here = std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| s.path("").starts_with(cwd));
        let ours = words.first().is_some_and(|w| w == env!("CARGO_BIN_EXE_paceline"));
        if here && ours && words.iter().any(|w| w.contains(run)) && !words.contains(&"launch".into()) {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    pids
}

fn signal(s: &Session, name: &str, pid: i32) {
    assert!(s.program("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

fn wait_for_a_checkpoint(s: &Session, run: &str) {
    while s.checkpoints(run).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Hits one process, sees the restart, ends the job by Ctrl-C, and compares with a run that nothing happened to.
fn survives(count: usize, victim: usize, hit: &str, words: &[&str]) {
    let s = Session::new();
    let settings = format!("{SMALL} {ENDLESS}");
    let line = format!("launch --np {count} --max-restarts 2 --heartbeat-timeout 3 --json -- train {settings}");
    let mut job = Job::start(&s, &format!("{line} --run-dir r"));
    job.until("\"began\"");
    wait_for_a_checkpoint(&s, "r");
    let pids = processes(&s, "r");
    assert_eq!(pids.len(), count, "{pids:?}");
    signal(&s, hit, pids[victim]);
    let failed = job.until("\"failed\"");
    has(&failed, words);
    has(&job.until("\"decided\""), &["\"restart\":true", "restart 1 of 2 from the last checkpoint of"]);
    job.until("\"began\"");
    assert!(!processes(&s, "r").contains(&pids[victim]), "a process that was hit is gone");
    // By number: a checkpoint may go while one looks at it.
    let newest = || s.checkpoints("r").last().copied().unwrap_or(0);
    let before = newest();
    while newest() <= before + 100 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(&s, "-INT", job.child.id() as i32);
    let output = job.end();
    stopped(130, "launch", &output);
    has(&String::from_utf8_lossy(&output.stderr), &["\"stopping\"", "\"finished\"", "\"attempts\":2"]);
    assert_eq!(processes(&s, "r"), [0i32; 0], "nobody is left");
    assert_eq!(s.summary("r")["status"], "stopped");
    let end = s.newest("r").step;
    let whole = format!("launch --np {count} -- train {SMALL} --quiet --set train.epochs=1000000");
    s.ok(&format!("{whole} --set train.max_steps={end} --run-dir whole"));
    assert_eq!(s.newest("r"), s.newest("whole"));
}

#[test]
fn one_process_killed() {
    survives(1, 0, "-KILL", &["process 0 on localhost"]);
}

#[test]
fn one_process_stopped() {
    survives(1, 0, "-STOP", &["process 0 on localhost", "no sign of life"]);
}

#[test]
fn a_job_over_ipv6() {
    let s = Session::new();
    let line = format!("train {SMALL} --quiet --set train.max_steps=5");
    s.ok(&format!("launch --hosts [::1] --address [::1] -- {line} --run-dir r"));
    assert_eq!(s.newest("r").step, 5);
    if cfg!(feature = "mpi") {
        s.ok(&format!("launch --hosts [::1]:2 --address ::1 -- {line} --run-dir two"));
        assert_eq!(s.summary("two")["replicas"], 2);
    }
}

#[test]
fn replicas_of_a_configuration_file_are_those_of_the_flag() {
    let s = Session::new();
    let file = "format = 1\n[strategy]\nreplicas = 2\nthreads = 1\n[data]\nname = \"fake:4x4:3:200\"\n";
    s.write("cfg.toml", format!("{file}[model]\nhidden = [8]\n[train]\nbatch = 16\nepochs = 1\n"));
    let processes = if cfg!(feature = "mpi") { 2 } else { 1 };
    s.ok(&format!("launch --np {processes} -- train cfg.toml --quiet --run-dir file"));
    let flags = format!("{SMALL} --set train.epochs=1 --replicas 2 --threads 1 --quiet");
    s.ok(&format!("launch --np {processes} -- train {flags} --run-dir flags"));
    for run in ["file", "flags"] {
        let summary = s.summary(run);
        assert_eq!((&summary["replicas"], &summary["threads"]), (&(2 * processes).into(), &1.into()), "{run}");
    }
    assert_eq!(s.newest("file"), s.newest("flags"));
    // Alone, the same file needs a strategy that has replicas; a flag may name it, and what is wrong in the file is said with its name.
    s.ok("train cfg.toml --strategy mirrored --quiet --run-dir alone");
    has(&s.fails(2, "train cfg.toml"), &["cfg.toml: strategy.replicas is given"]);
}

/// All that each process wrote, in a file of its own, whatever became of it.
#[test]
fn the_output_of_processes_is_kept() {
    let s = Session::new();
    let line = format!("train {SMALL} --set train.epochs=2 --run-dir r");
    let shown = s.ok(&format!("launch --np 1 --log-dir logs/deep -- {line}"));
    let host = paceline::system::host_name();
    let log = s.read(&format!("logs/deep/process-0-{host}-attempt-1.log"));
    has(&shown, &["epoch 2/2", "run: r"]);
    assert!(log.starts_with("--- attempt 1, process 0 of 1 on "), "{log}");
    for line in shown.lines() {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    // One that is killed, and one that fails: what they had written is there too.
    let line = "launch --np 1 --max-restarts 1 --json --log-dir logs --";
    let mut job = Job::start(&s, &format!("{line} train {SMALL} --set train.epochs=1000000 --run-dir killed"));
    job.until("\"began\"");
    wait_for_a_checkpoint(&s, "killed");
    signal(&s, "-KILL", processes(&s, "killed")[0]);
    job.until("\"decided\"");
    job.until("\"began\"");
    signal(&s, "-INT", job.child.id() as i32);
    stopped(130, "launch", &job.end());
    for attempt in [1, 2] {
        let log = s.read(&format!("logs/process-0-{host}-attempt-{attempt}.log"));
        has(&log, &[&format!("--- attempt {attempt}"), "training and 20 validation samples"]);
    }
    s.fails(2, "launch --np 1 --log-dir bad -- train --set data.name=nosuch");
    has(&s.read(&format!("bad/process-0-{host}-attempt-1.log")), &["no data set named `nosuch`"]);
    // No helper is left behind.
    assert_eq!(processes(&s, "copy-output"), [0i32; 0]);
}

#[test]
fn how_to_go_on_is_said_after_a_failure_and_after_a_stop() {
    let s = Session::new();
    let mut job = Job::start(&s, &format!("launch --np 1 -- train {SMALL} {ENDLESS} --run-dir r"));
    wait_for_a_checkpoint(&s, "r");
    signal(&s, "-KILL", processes(&s, "r")[0]);
    job.until("signal 9");
    let go_on = job.until("go on with: ");
    assert_eq!(job.end().status.code(), Some(1));
    let dir = s.path("r").canonicalize().unwrap();
    let line = format!("launch --np 1 -- train --resume {} --quiet", dir.display());
    assert_eq!(go_on.trim(), format!("go on with: paceline {line}"));
    let mut job = Job::start(&s, &line);
    let before = s.newest("r").step;
    while s.checkpoints("r").last().copied().unwrap_or(0) <= before {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    signal(&s, "-TERM", job.child.id() as i32);
    has(&job.until("go on with"), &["stopped on request; go on with: paceline launch --np 1 -- train --resume"]);
    assert_eq!(job.end().status.code(), Some(143));
}

/// A loss that is no number ends training, and the run can be gone on with from before that.
#[test]
fn training_alone_says_how_to_go_on_after_a_failure() {
    let s = Session::new();
    let line =
        format!("train {SMALL} --set optimizer.name=sgd --set optimizer.rate=1e30 --set train.epochs=50 --quiet");
    let output = s.command(&format!("{line} --run-dir r")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().last(), Some("go on with: paceline train --resume r"), "{said}");
}

#[test]
fn an_error_of_the_input_is_not_started_again() {
    let s = Session::new();
    let message = s.fails(2, "launch --quiet --np 1 -- train --set data.name=nosuch");
    has(&message, &["process 0 on localhost failed", "no data set named `nosuch`"]);
}

#[test]
fn launch_killed_leaves_nobody() {
    let s = Session::new();
    let mut job = Job::start(&s, &format!("launch --np 1 --json -- train {SMALL} {ENDLESS} --run-dir r"));
    job.until("\"began\"");
    wait_for_a_checkpoint(&s, "r");
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    while !processes(&s, "r").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Where a process listens: address and port, as `/proc` writes them, of the sockets that it holds.
fn listening(pid: i32) -> Vec<(String, u16)> {
    let mut found = Vec::new();
    let links = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let sockets: Vec<String> = links
        .filter_map(|l| {
            std::fs::read_link(l.path()).ok()?.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(String::from)
        })
        .collect();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "0A" && sockets.iter().any(|s| s == fields[9]) {
                let (address, port) = fields[1].rsplit_once(':').unwrap();
                found.push((address.to_string(), u16::from_str_radix(port, 16).unwrap()));
            }
        }
    }
    found
}

/// The port of a launch, which must listen on the loopback only.
fn port(job: &Job) -> u16 {
    let all = listening(job.child.id() as i32);
    assert_eq!(all.iter().map(|(address, _)| address.as_str()).collect::<Vec<_>>(), ["0100007F"]);
    all[0].1
}

/// Whoever connects and says nothing, or one byte, costs the job nothing, however many they are.
#[test]
fn strangers_at_the_port_hold_up_nothing() {
    let s = Session::new();
    let line = "launch --np 1 --max-restarts 1 --heartbeat-timeout 60 --json --";
    let mut job = Job::start(&s, &format!("{line} train {SMALL} {ENDLESS} --run-dir r"));
    job.until("\"began\"");
    wait_for_a_checkpoint(&s, "r");
    let port = port(&job);
    let mut held: Vec<TcpStream> = Vec::new();
    for n in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        if n % 2 == 0 {
            let _ = stream.write_all(b"{"); // it may have been sent away
        }
        held.push(stream);
    }
    let first = processes(&s, "r");
    signal(&s, "-KILL", first[0]);
    job.until("\"decided\"");
    job.until("\"began\"");
    let open = std::fs::read_dir(format!("/proc/{}/fd", job.child.id())).unwrap().count();
    assert!(open < 200, "{open} descriptors: strangers are kept");
    signal(&s, "-INT", job.child.id() as i32);
    stopped(130, "launch", &job.end());
    assert_eq!(processes(&s, "r"), [0i32; 0]);
    drop(held);
}

/// Launch is suspended, as by Ctrl-Z: processes end themselves, and that is what is said.
#[test]
fn a_process_that_lost_launch_was_not_killed() {
    let s = Session::new();
    let line = "launch --np 1 --max-restarts 1 --heartbeat-timeout 2 --json --";
    let mut job = Job::start(&s, &format!("{line} train {SMALL} {ENDLESS} --run-dir r"));
    job.until("\"began\"");
    wait_for_a_checkpoint(&s, "r");
    let launch = job.child.id() as i32;
    signal(&s, "-STOP", launch);
    while !processes(&s, "r").is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal(&s, "-CONT", launch);
    let failed = job.until("\"failed\"");
    has(&failed, &["\"how\":\"lost\"", "process 0 on localhost ended itself", "not heard from paceline launch"]);
    has(&job.until("\"decided\""), &["\"restart\":true"]);
    job.until("\"began\"");
    signal(&s, "-INT", launch);
    stopped(130, "launch", &job.end());
}

#[cfg(feature = "mpi")]
mod mpi {
    use super::*;

    /// Ranks of one machine meet in shared memory: no port of theirs is open, and launch's only to this machine.
    #[test]
    fn a_job_on_one_machine_listens_to_nobody_else() {
        let s = Session::new();
        let line = format!("launch --np 2 --json -- train {SMALL} {ENDLESS} --run-dir r");
        let mut job = Job::start(&s, &line);
        job.until("\"began\"");
        wait_for_a_checkpoint(&s, "r");
        port(&job);
        let ranks = processes(&s, "r");
        assert_eq!(ranks.len(), 2);
        for rank in ranks {
            assert_eq!(listening(rank), [], "rank {rank}");
        }
        signal(&s, "-INT", job.child.id() as i32);
        stopped(130, "launch", &job.end());
    }

    /// What `launch` started itself: mpirun.
    fn child_of(pid: u32) -> i32 {
        let of = |entry: &std::fs::DirEntry| -> Option<i32> {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent: u32 = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?;
            (parent == pid).then(|| entry.file_name().to_str()?.parse().ok())?
        };
        std::fs::read_dir("/proc").unwrap().flatten().find_map(|e| of(&e)).expect("a child")
    }

    #[test]
    fn the_death_of_mpirun_uses_up_restarts() {
        let s = Session::new();
        let line = "launch --np 2 --max-restarts 1 --heartbeat-timeout 60 --json --";
        let mut job = Job::start(&s, &format!("{line} train {SMALL} {ENDLESS} --run-dir r"));
        for decided in ["restart 1 of 1 from the last checkpoint", "all 1 restarts are used up"] {
            job.until("\"began\"");
            wait_for_a_checkpoint(&s, "r");
            signal(&s, "-KILL", child_of(job.child.id()));
            has(&job.until("\"failed\""), &["\"how\":\"starter\"", "mpirun", "was killed by signal 9"]);
            has(&job.until("\"decided\""), &[decided]);
        }
        assert_eq!(job.end().status.code(), Some(1));
        assert_eq!(processes(&s, "r"), [0i32; 0], "nobody is left");
    }

    /// A stand-in for mpirun that starts the second of two processes in another folder, as on a host that lacks this one.
    const ELSEWHERE: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit 0; }
while [ "${1##*/}" != paceline ]; do shift; done
export OMPI_COMM_WORLD_SIZE=2
(OMPI_COMM_WORLD_RANK=0 exec "$@") &
first=$!
(cd elsewhere && OMPI_COMM_WORLD_RANK=1 exec "$@")
code=$?
kill -9 $first
wait $first 2>/dev/null
exit $code
"#;

    #[test]
    fn a_host_without_the_configuration_is_named_and_not_tried_again() {
        let s = Session::new();
        s.write("mpirun", ELSEWHERE);
        s.write("cfg.toml", "format = 1\n[train]\nepochs = 1\n");
        s.write("elsewhere/other.toml", "");
        let status = s.program("chmod").args(["+x", "mpirun"]).status().unwrap();
        assert!(status.success());
        let line = "launch --np 2 --mpirun ./mpirun --max-restarts 3 -- train cfg.toml --run-dir r";
        let output = s.command(line).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        has(
            &text,
            &[
                "process 1 on localhost failed",
                "cfg.toml",
                "no such file",
                "it runs in",
                "elsewhere",
                "not started again",
            ],
        );
        assert!(!text.contains("ended without a word") && !text.contains("attempt 2"), "{text}");
    }

    #[test]
    fn two_processes_train_and_only_the_first_speaks() {
        let s = Session::new();
        let out = s.ok(&format!("launch --np 2 -- train {SMALL} --set train.epochs=2 --run-dir r"));
        has(&out, &["multi-worker-mirrored", "epoch 2/2", "run: r"]);
        assert_eq!(out.matches("epoch 2/2").count(), 1, "{out}");
        assert_eq!(s.summary("r")["status"], "done");
    }

    #[test]
    fn matrices_and_measurements_run_on_processes_too() {
        let s = Session::new();
        let report = s.json("launch --np 2 --json -- matmul --n 64 --block 16 --json --quiet");
        assert!(report.is_object(), "{report}");
        // The ring that measures speed goes through processes of several ranks.
        let text = s.ok("launch --np 2 -- matmul --n 600 --block 100 --ranks 3");
        has(&text, &["checked by 16 random vectors"]);
        s.ok("launch --np 2 -- doctor --quiet --out cluster.toml");
        assert!(s.path("cluster.toml").exists());
    }

    #[test]
    fn the_first_process_killed() {
        survives(2, 0, "-KILL", &["process 0 on localhost", "signal 9"]);
    }

    #[test]
    fn another_process_killed() {
        survives(2, 1, "-KILL", &["process 1 on localhost", "signal 9"]);
    }

    #[test]
    fn a_process_stopped() {
        survives(2, 1, "-STOP", &["process 1 on localhost", "no sign of life"]);
    }

    #[test]
    fn a_host_that_cannot_be_reached_is_named() {
        let s = Session::new();
        let line = "launch --hosts no-such-host.invalid:1,localhost:1 -- train";
        has(&s.fails(2, line), &["no-such-host.invalid is not known"]);
    }

    #[test]
    fn an_error_of_all_is_said_once() {
        let s = Session::new();
        let message = s.fails(2, "launch --np 2 -- train --set data.name=nosuch");
        assert_eq!(message.matches("no data set named").count(), 1, "{message}");
    }
}
