//! The muster without sockets, and the line with them.

use super::control::{Control, Heard, to_channel};
use super::muster::Muster;
use super::word::{Hello, Order, Word};
use super::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;

const LIMITS: Limits = Limits { silence: 5.0, step: 60.0, start: 30.0 };

fn hello(process: usize) -> Word {
    Word::Hello(Hello { token: "t".into(), process, processes: 4, host: "x".into(), pid: 1 })
}

/// Four processes on a and b that all began at 1 s.
fn four() -> Muster {
    let mut m = Muster::new(Hosts::parse("a:2,b:2").unwrap(), LIMITS, 1, vec!["why".into()]);
    for p in 0..4 {
        assert_eq!(m.hear(p, hello(p), 0.5, 0.0), None);
        let order = m.hear(p, Word::Facts(Box::default()), 1.0, 0.0);
        assert_eq!(order, (p == 3).then_some(Order::Look));
    }
    for p in 0..4 {
        let order = m.hear(p, Word::Seen(true), 1.0, 0.0);
        let orders = Orders { attempt: 1, notes: vec!["why".into()] };
        assert_eq!(order, (p == 3).then_some(Order::Begin(orders)));
    }
    assert!(m.begun() && m.verdict(1.0, false).is_none());
    m
}

fn beat(m: &mut Muster, who: &[usize], now: f64, step: u64, doing: Doing, since: f64) {
    for &p in who {
        m.hear(p, Word::Beat(Beat { step, doing, since, ..Beat::default() }), now, 0.0);
    }
}

fn found(m: &Muster, now: f64, how: How, words: &[&str]) {
    let f = m.verdict(now, false).expect("a failure");
    assert_eq!(f.how, how, "{f:?}");
    words.iter().for_each(|w| assert!(f.words().contains(w), "{w} in: {}", f.words()));
}

#[test]
fn the_first_to_end_is_named_and_others_may_still_speak() {
    let mut m = four();
    m.broke(2, 10.0);
    m.hear(0, Word::Failed { code: 1, why: "rank 2 failed: gone".into() }, 10.1, 0.0);
    assert_eq!(m.verdict(10.2, false), None);
    for p in [1, 3] {
        m.hear(p, Word::Failed { code: 1, why: "rank 2 failed: gone".into() }, 10.1, 0.0);
    }
    assert_eq!(m.verdict(10.2, false), None, "the starter knows the signal");
    found(&m, 13.0, How::Died, &["process 2 on b ended without a word"]);
    let f = m.verdict(10.2, true).unwrap();
    let said = "mpirun noticed that process rank 2 with PID 0 on node b exited on signal 9 (Killed).";
    assert!(m.explain(f.clone(), said, None, false).why.contains("signal 9 (SIGKILL)"));
    assert!(m.explain(f.clone(), said, None, true).why.contains("killed for memory"));
    assert!(m.explain(f.clone(), "", Some("disk full"), false).why.contains("disk full"));
    let mpich = "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)";
    assert!(m.explain(f, mpich, None, false).why.contains("signal 9"));
}

#[test]
fn an_echo_is_not_the_cause() {
    let mut m = four();
    m.hear(0, Word::Failed { code: 1, why: "rank 1 failed: disk full".into() }, 10.0, 0.0);
    m.hear(1, Word::Failed { code: 1, why: "disk full".into() }, 10.1, 0.0);
    found(&m, 13.0, How::Said(1), &["process 1 on a failed: disk full"]);
}

#[test]
fn silence_is_of_a_process_or_of_a_whole_host() {
    let mut m = four();
    beat(&mut m, &[0, 1, 2], 9.0, 5, Doing::Training, 0.0);
    found(&m, 9.5, How::Silent, &["process 3 on b", "no sign of life for"]);
    let mut m = four();
    beat(&mut m, &[0, 1], 9.0, 5, Doing::Training, 0.0);
    found(&m, 9.5, How::HostSilent, &["host b gives no sign of life"]);
    assert_eq!(m.verdict(5.0, false), None);
}

#[test]
fn who_never_came_is_named() {
    let mut m = Muster::new(Hosts::parse("a:2,b:2").unwrap(), LIMITS, 1, vec![]);
    for p in 0..3 {
        m.hear(p, hello(p), 29.0, 0.0);
    }
    assert_eq!(m.verdict(29.0, false), None);
    found(&m, 31.0, How::Absent, &["process 3 on b has not come up"]);
}

#[test]
fn who_is_behind_is_named() {
    let mut m = four();
    beat(&mut m, &[0, 1, 3], 1.0, 7, Doing::Waiting, 61.0);
    beat(&mut m, &[2], 1.0, 6, Doing::Training, 61.0);
    found(&m, 2.0, How::Stuck, &["process 2 on b", "3 others wait", "after step 6"]);
    beat(&mut m, &[2], 1.0, 7, Doing::Training, 61.0);
    found(&m, 2.0, How::Stuck, &["process 2 on b", "training"]);
    beat(&mut m, &[2], 1.0, 7, Doing::Evaluating, 61.0);
    assert_eq!(m.verdict(2.0, false), None, "an evaluation may take long");
    beat(&mut m, &[2], 1.0, 8, Doing::Training, 0.1);
    assert_eq!(m.verdict(2.0, false), None, "one still goes on");
}

#[test]
fn processes_that_differ_do_not_begin() {
    let mut m = Muster::new(Hosts::parse("a:1,b:1").unwrap(), LIMITS, 1, vec![]);
    m.hear(0, Word::Facts(Box::default()), 1.0, 0.0);
    let other = Facts { binary: "x".into(), process: 1, host: "b".into(), ..Facts::default() };
    let order = m.hear(1, Word::Facts(Box::new(other)), 1.0, 0.0);
    assert!(matches!(order, Some(Order::Refuse { why }) if why.contains("1 (b)")));
    assert!(m.verdict(1.0, false).is_none(), "process 0 takes its file away first");
    found(&m, 5.0, How::Refused, &["another program"]);
    m.hear(0, Word::Failed { code: 2, why: String::new() }, 1.1, 0.0);
    found(&m, 1.1, How::Refused, &["another program"]);
}

#[test]
fn two_processes_check_in_over_a_socket_and_are_stopped() {
    let folder = std::env::temp_dir().join(format!("paceline-tether-{}", std::process::id()));
    let (sender, events) = channel::<Heard>();
    let control = Control::listen([127, 0, 0, 1].into(), 0, to_channel(sender)).unwrap();
    let variable = control.admit(1, "secret", 2, 60.0);
    let wrong = variable.replace("secret", "guess");
    let e = Tether::connect(&wrong, 0, 2).err().expect("a wrong token");
    assert!(e.message().contains("does not know this process"), "{e}");
    assert!(Tether::connect(&variable, 2, 2).is_err(), "no such process");
    std::thread::scope(|scope| {
        let process = |number: usize| {
            let (variable, folder) = (variable.clone(), folder.join("deep/runs"));
            scope.spawn(move || {
                let tether = Tether::connect(&variable, number, 2).unwrap();
                let orders = tether.check_in(Facts::collect("same").with_place(&folder, None)).unwrap();
                let stop = tether.stop_flag();
                while !stop.load(Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                tether.done();
                orders.attempt
            })
        };
        let both = [process(0), process(1)];
        let mut muster = Muster::new(Hosts::here(2), LIMITS, 7, vec![]);
        while !muster.done() {
            let Heard::Word(_, process, word) = events.recv().unwrap() else { continue };
            if let Some(order) = muster.hear(process, word, 0.0, super::facts::clock()) {
                control.tell(&order);
                if matches!(order, Order::Begin(_)) {
                    control.tell(&Order::Stop);
                }
            }
        }
        both.into_iter().for_each(|b| assert_eq!(b.join().unwrap(), 7));
    });
    assert!(!folder.exists(), "the mark is gone, with the folders made for it");
}
