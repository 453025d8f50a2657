//! The monitor without sockets, and the line with them.

use crate::message::{ClientMessage, Hello, LOST, ServerMessage};
use crate::monitor::JobMonitor;
use crate::server::{Heard, Place, Server, to_channel};
use crate::*;
use paceline_base::Peer;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

const LIMITS: Limits = Limits { silence: 5.0, step: 60.0, start: 30.0 };

fn hello(process: usize) -> ClientMessage {
    let (nonce, proof) = (String::new(), String::new());
    ClientMessage::Hello(Hello { nonce, proof, process, processes: 4, host: "x".into(), pid: 1 })
}

/// Four processes on a and b that all began at 1 s.
fn four() -> JobMonitor {
    let mut m = JobMonitor::new(Hosts::parse("a:2,b:2").unwrap(), LIMITS, 1, vec!["why".into()]);
    for p in 0..4 {
        assert_eq!(m.hear(p, hello(p), 0.5, 0.0), None);
        let answer = m.hear(p, ClientMessage::Facts(Box::default()), 1.0, 0.0);
        assert_eq!(answer, (p == 3).then_some(ServerMessage::Look));
    }
    for p in 0..4 {
        let answer = m.hear(p, ClientMessage::Seen(true), 1.0, 0.0);
        let info = StartInfo { attempt: 1, notes: vec!["why".into()] };
        assert_eq!(answer, (p == 3).then_some(ServerMessage::Begin(info)));
    }
    assert!(m.begun() && m.verdict(1.0, false).is_none());
    m
}

fn heartbeat(m: &mut JobMonitor, who: &[usize], now: f64, step: u64, doing: Doing, since: f64) {
    for &p in who {
        m.hear(p, ClientMessage::Heartbeat(Heartbeat { step, doing, since, ..Heartbeat::default() }), now, 0.0);
    }
}

fn found(m: &JobMonitor, now: f64, how: How, words: &[&str]) {
    let f = m.verdict(now, false).expect("a failure");
    assert_eq!(f.how, how, "{f:?}");
    words.iter().for_each(|w| assert!(f.words().contains(w), "{w} in: {}", f.words()));
}

#[test]
fn the_first_to_end_is_named_and_others_may_still_speak() {
    let mut m = four();
    m.broke(2, 10.0);
    m.hear(
        0,
        ClientMessage::Failed { code: 1, why: "rank 2 failed: gone".into(), peer: Some(Peer::Rank(2)) },
        10.1,
        0.0,
    );
    assert_eq!(m.verdict(10.2, false), None);
    for p in [1, 3] {
        m.hear(
            p,
            ClientMessage::Failed { code: 1, why: "rank 2 failed: gone".into(), peer: Some(Peer::Rank(2)) },
            10.1,
            0.0,
        );
    }
    assert_eq!(m.verdict(10.2, false), None, "the starter knows the signal");
    assert_eq!(m.verdict(17.0, false), None, "which may take it a while");
    found(&m, 18.5, How::Died, &["process 2 on b ended without a word"]);
    let f = m.verdict(10.2, true).unwrap();
    let said = "mpirun noticed that process rank 2 with PID 0 on node b exited on signal 9 (Killed).";
    assert!(m.explain(f.clone(), said, 0).why.contains("signal 9 (SIGKILL)"));
    assert!(m.explain(f.clone(), said, 1).why.contains("signal 9 (SIGKILL)"), "the kill was here, not on b");
    let mpich = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)";
    assert!(m.explain(f.clone(), mpich, 0).why.contains("signal 9"));
    m.left(ExitReport { process: 2, code: 1, why: "disk full".into(), peer: None }, 10.5);
    found(&m, 13.0, How::Said(1), &["process 2 on b failed: disk full"]);
}

#[test]
fn a_kill_for_memory_is_that_of_the_own_group() {
    let said = "mpirun noticed that process rank 2 with PID 0 on node b exited on signal 9 (Killed).";
    let mut m = four();
    m.broke(2, 10.0);
    // Another process of the same group, on the same host, has seen its group's counter rise.
    m.hear(1, ClientMessage::Heartbeat(Heartbeat { oom_kills: 1, ..Heartbeat::default() }), 10.1, 0.0);
    let f = m.verdict(10.2, true).unwrap();
    assert!(m.explain(f.clone(), said, 0).why.contains("signal 9 (SIGKILL)"), "process 1 is on another host");
    m.hear(3, ClientMessage::Heartbeat(Heartbeat { oom_kills: 1, ..Heartbeat::default() }), 10.1, 0.0);
    assert!(m.explain(f, said, 0).why.contains("killed for memory"));
    let mut m = JobMonitor::new(Hosts::here(2), LIMITS, 1, vec![]);
    m.hear(0, hello(0), 0.5, 0.0);
    m.broke(0, 1.0);
    let f = m.verdict(1.0, true).unwrap();
    let said = said.replace("rank 2", "rank 0");
    assert!(m.explain(f.clone(), &said, 1).why.contains("killed for memory"));
    assert!(m.explain(f, &said, 0).why.contains("signal 9 (SIGKILL)"));
}

#[test]
fn who_could_not_connect_is_heard_before_those_that_ended_with_it() {
    let mut m = JobMonitor::new(Hosts::parse("a:1,b:1").unwrap(), LIMITS, 1, vec![]);
    m.hear(0, hello(0), 0.5, 0.0);
    m.broke(0, 1.0);
    m.left(ExitReport { process: 1, code: 2, why: "cfg.toml: no such file".into(), peer: None }, 1.2);
    found(&m, 5.0, How::Said(2), &["process 1 on b failed: cfg.toml: no such file"]);
    assert!(m.has_said());
    // With a line it is the same, as long as nothing connects the processes, and for wrong input at any time.
    for (mut m, code) in [(JobMonitor::new(Hosts::parse("a:2,b:2").unwrap(), LIMITS, 1, vec![]), 1), (four(), 2)] {
        (0..4).for_each(|p| drop(m.hear(p, hello(p), 1.0, 0.0)));
        m.broke(0, 2.0);
        m.hear(3, ClientMessage::Failed { code, why: "no such file".into(), peer: None }, 2.1, 0.0);
        found(&m, 5.0, How::Said(code), &["process 3 on b failed: no such file"]);
    }
    m.left(ExitReport { process: 7, code: 2, why: "nobody".into(), peer: None }, 1.2);
}

#[test]
fn who_ended_itself_was_not_killed() {
    let mut m = four();
    m.broke(0, 9.9);
    m.broke(2, 10.0);
    m.left(ExitReport { process: 2, code: LOST, why: "ended itself: no message for 4 s".into(), peer: None }, 10.1);
    let f = m.verdict(13.0, false).unwrap();
    assert_eq!((f.how.clone(), f.words().as_str()), (How::Lost, "process 2 on b ended itself: no message for 4 s"));
    let said = "mpirun noticed that process rank 2 exited on signal 9 (Killed).";
    assert_eq!(m.explain(f.clone(), said, 1), f);
}

#[test]
fn an_echo_is_not_the_cause() {
    let mut m = four();
    m.hear(
        0,
        ClientMessage::Failed { code: 1, why: "rank 1 failed: disk full".into(), peer: Some(Peer::Rank(1)) },
        10.0,
        0.0,
    );
    m.hear(1, ClientMessage::Failed { code: 1, why: "disk full".into(), peer: None }, 10.1, 0.0);
    found(&m, 13.0, How::Said(1), &["process 1 on a failed: disk full"]);
    // It is the type that tells, not the words.
    let mut m = four();
    let why = "prepare failed: disk full".to_string();
    m.hear(1, ClientMessage::Failed { code: 1, why, peer: None }, 10.0, 0.0);
    m.hear(0, ClientMessage::Failed { code: 1, why: "disk full".into(), peer: None }, 10.1, 0.0);
    found(&m, 13.0, How::Said(1), &["process 1 on a failed: prepare failed: disk full"]);
}

#[test]
fn silence_is_of_a_process_or_of_a_whole_host() {
    let mut m = four();
    heartbeat(&mut m, &[0, 1, 2], 9.0, 5, Doing::Training, 0.0);
    found(&m, 9.5, How::Silent, &["process 3 on b", "no sign of life for"]);
    let mut m = four();
    heartbeat(&mut m, &[0, 1], 9.0, 5, Doing::Training, 0.0);
    found(&m, 9.5, How::HostSilent, &["host b gives no sign of life"]);
    assert_eq!(m.verdict(5.0, false), None);
}

#[test]
fn who_never_came_is_named() {
    let mut m = JobMonitor::new(Hosts::parse("a:2,b:2").unwrap(), LIMITS, 1, vec![]);
    for p in 0..3 {
        m.hear(p, hello(p), 29.0, 0.0);
    }
    assert_eq!(m.verdict(29.0, false), None);
    found(&m, 31.0, How::Absent, &["process 3 on b has not come up"]);
}

#[test]
fn who_is_behind_is_named() {
    let mut m = four();
    heartbeat(&mut m, &[0, 1, 3], 1.0, 7, Doing::Waiting, 61.0);
    heartbeat(&mut m, &[2], 1.0, 6, Doing::Training, 61.0);
    found(&m, 2.0, How::Stuck, &["process 2 on b", "3 others wait", "after step 6"]);
    heartbeat(&mut m, &[2], 1.0, 7, Doing::Training, 61.0);
    found(&m, 2.0, How::Stuck, &["process 2 on b", "training"]);
    heartbeat(&mut m, &[2], 1.0, 7, Doing::Evaluating, 61.0);
    assert_eq!(m.verdict(2.0, false), None, "an evaluation may take long");
    heartbeat(&mut m, &[2], 1.0, 8, Doing::Training, 0.1);
    assert_eq!(m.verdict(2.0, false), None, "one still goes on");
}

#[test]
fn processes_that_differ_do_not_begin() {
    let mut m = JobMonitor::new(Hosts::parse("a:1,b:1").unwrap(), LIMITS, 1, vec![]);
    m.hear(0, ClientMessage::Facts(Box::default()), 1.0, 0.0);
    let other = Facts { binary: "x".into(), process: 1, host: "b".into(), ..Facts::default() };
    let answer = m.hear(1, ClientMessage::Facts(Box::new(other)), 1.0, 0.0);
    assert!(matches!(answer, Some(ServerMessage::Refuse { why }) if why.contains("1 (b)")));
    assert!(m.verdict(1.0, false).is_none(), "process 0 takes its file away first");
    found(&m, 5.0, How::Refused, &["another program"]);
    m.hear(0, ClientMessage::Failed { code: 2, why: String::new(), peer: None }, 1.1, 0.0);
    found(&m, 1.1, How::Refused, &["another program"]);
}

#[test]
fn two_processes_check_in_over_a_socket_and_are_stopped() {
    let folder = std::env::temp_dir().join(format!("paceline-client-{}", std::process::id()));
    let (sender, events) = channel::<Heard>();
    let server = Server::listen(&Place::at([127, 0, 0, 1].into()), to_channel(sender)).unwrap();
    let variable = server.admit(1, "secret", 2, 60.0);
    let wrong = variable.replace("secret", "guess");
    let e = LaunchClient::connect(&wrong, 0, 2, |_| {}).err().expect("a wrong token");
    assert!(e.message().contains("does not know this process"), "{e}");
    assert!(LaunchClient::connect(&variable, 2, 2, |_| {}).is_err(), "no such process");
    std::thread::scope(|scope| {
        let process = |number: usize| {
            let (variable, folder) = (variable.clone(), folder.join("deep/runs"));
            scope.spawn(move || {
                let client = LaunchClient::connect(&variable, number, 2, |_| {}).unwrap();
                let info = client.check_in(Facts::collect("same").with_place(&folder, None)).unwrap();
                let stop = client.stop_flag();
                while !stop.load(Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                client.done();
                info.attempt
            })
        };
        let both = [process(0), process(1)];
        let mut monitor = JobMonitor::new(Hosts::here(2), LIMITS, 7, vec![]);
        while !monitor.done() {
            let Heard::Message(_, process, message) = events.recv().unwrap() else { continue };
            if let Some(answer) = monitor.hear(process, message, 0.0, super::facts::clock()) {
                server.tell(&answer);
                if matches!(answer, ServerMessage::Begin(_)) {
                    server.tell(&ServerMessage::Stop);
                }
            }
        }
        both.into_iter().for_each(|b| assert_eq!(b.join().unwrap(), 7));
    });
    assert!(!folder.exists(), "the mark is gone, with the folders made for it");
}

/// What a stranger at the port of a server does, which must not keep the process out that comes then.
fn a_process_joins_beside(strangers: impl FnOnce(&str) -> Vec<TcpStream>) {
    let (sender, events) = channel::<Heard>();
    let server = Server::listen(&Place::at([127, 0, 0, 1].into()), to_channel(sender)).unwrap();
    let variable = server.admit(1, "secret", 1, 60.0);
    let held = strangers(variable.rsplit_once(':').unwrap().0);
    let client = LaunchClient::connect(&variable, 0, 1, |_| {}).unwrap();
    assert!(matches!(events.recv().unwrap(), Heard::Message(1, 0, ClientMessage::Hello(_))));
    client.done();
    drop(held);
}

#[test]
fn strangers_by_the_hundred_keep_nobody_out() {
    a_process_joins_beside(|address| {
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        let held: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut first = &held[0];
        // The first has been shown the door for those that came after it, before its time was over.
        let _ = first.read_to_end(&mut Vec::new());
        assert!(threads() < before + 100, "strangers get no threads");
        held
    });
}

#[test]
fn a_stranger_that_says_one_byte_keeps_nobody_out() {
    a_process_joins_beside(|address| {
        let mut slow = TcpStream::connect(address).unwrap();
        slow.write_all(b"{").unwrap();
        vec![slow]
    });
}

#[test]
fn strangers_learn_nothing_and_are_not_let_in() {
    let (sender, events) = channel::<Heard>();
    let server = Server::listen(&Place::at([127, 0, 0, 1].into()), to_channel(sender)).unwrap();
    let variable = server.admit(1, "secret", 1, 60.0);
    let address = variable.rsplit_once(':').unwrap().0;
    let said = |words: &[u8]| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(words).unwrap();
        let mut heard = String::new();
        let _ = stream.read_to_string(&mut heard);
        heard
    };
    let guess = super::message::line(&hello(0));
    for words in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 5000], guess.as_bytes(), b"\n"] {
        let heard = said(words);
        assert!(!heard.contains("secret") && !heard.contains("welcome"), "{heard}");
    }
    assert!(events.try_recv().is_err(), "nobody was taken for a process");
    // What a process says on the way in does not hold the token either.
    let spy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = spy.local_addr().unwrap();
    let seen = std::thread::spawn(move || {
        let (mut stream, _) = spy.accept().unwrap();
        stream.write_all(super::message::line(&ServerMessage::Challenge { nonce: "n".into() }).as_bytes()).unwrap();
        let mut text = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(&stream), &mut text).unwrap();
        let welcome = ServerMessage::Welcome { timeout: 5.0, proof: "guess".into(), folder: "/".into() };
        stream.write_all(super::message::line(&welcome).as_bytes()).unwrap();
        text
    });
    let e = LaunchClient::connect(&format!("{at}:secret"), 0, 1, |_| {}).err().expect("an impostor");
    assert!(e.message().contains("is not it"), "{e}");
    let text = seen.join().unwrap();
    assert!(text.contains("proof") && !text.contains("secret"), "{text}");
}

#[test]
fn a_port_of_the_range_is_taken_and_an_address_of_others_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first = taken.local_addr().unwrap().port();
    let (sender, _events) = channel::<Heard>();
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let place = Place { ports: first..=first.saturating_add(50), ..Place::at(here) };
    let server = Server::listen(&place, to_channel(sender.clone())).unwrap();
    assert!(server.port() > first && server.port() <= first + 50);
    let place = Place { ports: first..=first, ..Place::at(here) };
    let e = Server::listen(&place, to_channel(sender.clone())).err().unwrap();
    assert!(e.message().contains(&format!("port {first}")) && e.message().contains("port or ports"), "{e}");
    let e = Server::listen(&Place::at([203, 0, 113, 9].into()), to_channel(sender)).err().unwrap();
    assert!(
        e.message().contains("203.0.113.9 is not an address of this machine")
            && e.message().contains("listen with one of its own"),
        "{e}"
    );
}
