//! When something is wrong all ranks learn of it quickly, with the rank and the reason.

mod common;

use common::{on_ranks, spawn};
use paceline_base::Staging;
use paceline_base::{Kind, Peer, Result};
use paceline_comm::{Collective, Comm, GroupId, Threads, Ticket, host, threads};
use std::sync::{Arc, Barrier};
use std::time::Duration;

fn reduce(comm: &mut Threads, group: GroupId, seq: u64, len: usize) -> Result<Staging> {
    let ticket = comm.start(Collective::AllReduce.into(), group, seq, host::stage(&vec![1.0f32; len]))?;
    comm.wait(ticket)
}

/// Runs four ranks through one good all-reduce; then rank 2 does `deed`, and the others must fail saying `words`: not that
/// they waited too long, which would take minutes.
fn all_learn(deed: impl Fn(Threads, GroupId) + Clone + Send + 'static, words: &'static [&'static str]) {
    let ranks = spawn(4, move |mut comm| {
        let group = comm.group(&[0, 1, 2, 3]).unwrap();
        reduce(&mut comm, group, 0, 100).unwrap();
        if comm.rank() == 2 {
            std::thread::sleep(Duration::from_millis(30));
            return deed(comm, group);
        }
        // Ranks are found waiting, asleep, or between operations.
        std::thread::sleep(Duration::from_millis(20 * comm.rank() as u64));
        let error = reduce(&mut comm, group, 1, 100).err().expect("rank 2 is gone");
        assert_eq!((error.kind(), error.peer()), (Kind::Failure, Some(Peer::Rank(2))));
        for word in words {
            assert!(error.message().contains(word), "{error} lacks {word:?}");
        }
        assert_eq!(reduce(&mut comm, group, 2, 100).err().expect("for good").message(), error.message());
    });
    for (rank, thread) in ranks.into_iter().enumerate() {
        assert!(thread.join().is_ok() || rank == 2, "rank {rank}");
    }
}

#[test]
fn abort_reaches_all() {
    all_learn(|mut comm, _| comm.abort("the loss is not finite"), &["rank 2 failed: the loss is not finite"]);
}

#[test]
fn panic_reaches_all() {
    let deed = |_comm: Threads, _| std::panic::resume_unwind(Box::new("quietly"));
    all_learn(deed, &["rank 2 failed: it panicked"]);
}

#[test]
fn leaving_early_reaches_all() {
    all_learn(|comm, _| drop(comm), &["rank 2 failed: it left", "last seq 0", "all-reduce of seq 1"]);
}

/// Rank 2 drops its buffer (as far as it can) while others may be summing into it.
#[test]
fn leaving_in_the_middle_reaches_all() {
    let deed = |mut comm: Threads, group| {
        // Rank 1 never joins this one, so it cannot complete.
        let data = host::stage(&[1.0f32; 100]);
        comm.start(Collective::AllReduce.into(), group, 1, data).unwrap();
    };
    let found_out = Arc::new(Barrier::new(2));
    let ranks = spawn(3, move |mut comm| {
        let group = comm.group(&[0, 1, 2]).unwrap();
        match comm.rank() {
            2 => deed(comm, group),
            1 => drop(found_out.wait()), // it stays until rank 0 knows
            _ => {
                let error = reduce(&mut comm, group, 1, 100).err().map(|e| e.to_string());
                found_out.wait();
                let words = "rank 2 failed: it left before the all-reduce of seq 1 was complete";
                assert_eq!(error.as_deref(), Some(words));
            }
        }
    });
    ranks.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn leaving_at_the_end_is_no_failure() {
    for _ in 0..50 {
        on_ranks(4, |mut comm| {
            let group = comm.group(&[0, 1, 2, 3]).unwrap();
            let peer = comm.rank() ^ 1;
            let tickets = [
                comm.start(Collective::AllReduce.into(), group, 0, host::stage(&[1.0f32; 99])).unwrap(),
                comm.send(peer, 1, host::stage(&[1.0f32])).unwrap(),
                comm.receive(peer, 1, host::stage(&[1.0f32])).unwrap(),
            ];
            std::thread::sleep(Duration::from_micros(300 * comm.rank() as u64));
            for ticket in tickets {
                comm.wait(ticket).unwrap();
            }
        });
    }
}

/// Both ends of a message fail when the other left.
#[test]
fn messages_to_and_from_the_departed_fail() {
    let mut pair = threads(2);
    drop(pair.pop());
    let mut comm = pair.pop().unwrap();
    let ticket = comm.send(1, 5, host::stage(&[1.0f32])).unwrap();
    let error = comm.wait(ticket).err().unwrap().to_string();
    let words = "rank 1 failed: it left (nothing started yet) while rank 0 waits for the message to rank 1 of seq 5";
    assert_eq!(error, words);

    let mut pair = threads(2);
    drop(pair.remove(0));
    let mut comm = pair.pop().unwrap();
    let ticket = comm.receive(0, 5, host::stage(&[1.0f32])).unwrap();
    let error = comm.wait(ticket).err().unwrap().to_string();
    assert!(error.contains("rank 0 failed: it left"), "{error}");
}

#[test]
fn a_timeout_names_who_is_missing_and_how_far_it_came() {
    let (others_are_there, timed_out) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(2)));
    let ranks = spawn(4, move |mut comm| {
        let group = comm.group(&[0, 1, 2, 3]).unwrap();
        reduce(&mut comm, group, 41, 100).unwrap();
        if comm.rank() == 2 {
            timed_out.wait();
            let error = reduce(&mut comm, group, 42, 100).err().expect("rank 0 timed out");
            return (2, error);
        }
        // Only rank 0 is short of patience, and only once all but rank 2 have begun.
        comm.set_timeout(if comm.rank() == 0 { Duration::from_millis(80) } else { Duration::from_secs(3600) });
        let ticket = comm.start(Collective::AllReduce.into(), group, 42, host::stage(&[1.0f32; 100]));
        others_are_there.wait();
        let error = ticket.and_then(|ticket| comm.wait(ticket)).err();
        if comm.rank() == 0 {
            timed_out.wait();
        }
        (comm.rank(), error.expect("timed out"))
    });
    for thread in ranks {
        let (rank, error) = thread.join().unwrap();
        assert_eq!(error.peer(), (rank != 0).then_some(Peer::Rank(0)), "{error}");
        let error = error.to_string();
        assert_eq!(error.contains("rank 0 failed: "), rank != 0, "{error}");
        for words in ["rank 0 waited ", "for the all-reduce of seq 42", "missing: rank 2 (last seq 41);"] {
            assert!(error.contains(words), "{error} lacks {words:?}");
        }
    }
}

/// Both ranks of two call `go`; the errors must be internal on at least one side, and name `words`.
fn disagree(go: impl Fn(&mut Threads, GroupId) -> Result<Ticket> + Clone + Send + 'static, words: &[&str]) {
    let errors = on_ranks(2, move |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        // The second to arrive finds out when it starts, the first when it waits.
        match go(&mut comm, group).and_then(|ticket| comm.wait(ticket)) {
            Ok(_) => panic!("rank {} noticed nothing", comm.rank()),
            Err(error) => error,
        }
    });
    assert!(errors.iter().any(|e| e.kind() == Kind::Internal), "{errors:?}");
    for error in errors {
        for word in words {
            assert!(error.message().contains(word), "{error} lacks {word:?}");
        }
    }
}

#[test]
fn mismatches_name_both_ranks_and_both_numbers() {
    let both = |a: &'static str, b: &'static str| vec!["rank 0", "rank 1", a, b];
    let start = |comm: &mut Threads, what: Collective, group, seq, len: usize| {
        comm.start(what.into(), group, seq, host::stage(&vec![1.0f32; len]))
    };
    for len in [0, 3, 1000] {
        let by_rank = move |c: &mut Threads, g| start(c, Collective::AllReduce, g, 10 + c.rank() as u64, len);
        disagree(by_rank, &both("seq 10", "seq 11"));
    }
    for len in [0, 100] {
        let by_rank = move |c: &mut Threads, g| start(c, Collective::AllReduce, g, 5, len + c.rank());
        disagree(by_rank, if len == 0 { &["0 bytes", "4 bytes"] } else { &["400 bytes", "404 bytes"] });
    }
    let kinds = [Collective::AllReduce, Collective::AllGather];
    disagree(move |c, g| start(c, kinds[c.rank()], g, 5, 9), &both("all-reduce at seq 5", "all-gather at seq 5"));
    let types = |c: &mut Threads, g| {
        let data = if c.rank() == 0 { host::stage(&[1.0f32; 2]) } else { host::stage(&[1.0f64]) };
        c.start(Collective::AllReduce.into(), g, 5, data)
    };
    disagree(types, &both("8 bytes of f32", "8 bytes of f64"));

    let message = |c: &mut Threads, seq, len: usize| match c.rank() {
        0 => c.send(1, 7, host::stage(&[1.0f32; 2])),
        _ => c.receive(0, seq, host::stage(&vec![1.0f32; len])),
    };
    disagree(move |c, _| message(c, 8, 2), &["message from rank 0 to rank 1", "seq 7", "seq 8"]);
    disagree(move |c, _| message(c, 7, 3), &["message from rank 0 to rank 1", "8 bytes", "12 bytes"]);
}

#[test]
fn misuse_is_answered() {
    let mut comm = threads(2).remove(0);
    let message = |r: Result<GroupId>| r.unwrap_err().message().to_owned();
    assert!(message(comm.group(&[1, 0])).contains("ascend"));
    assert!(message(comm.group(&[1])).contains("not in it"));
    assert!(message(comm.group(&[0, 2])).contains("only 2 ranks"));
    assert!(comm.send(2, 0, host::stage(&[0.0f32])).is_err());
    assert!(comm.start(Collective::AllReduce.into(), GroupId(3), 0, host::stage(&[0.0f32])).is_err());

    let mut comm = paceline_comm::single();
    let alone = comm.group(&[0]).unwrap();
    let ticket = comm.start(Collective::AllReduce.into(), alone, 0, host::stage(&[0.0f32])).unwrap();
    comm.wait(ticket).unwrap();
    assert!(comm.wait(ticket).err().unwrap().message().contains("not outstanding"));
}

/// What may only be read is sent, also twice at once, and never written into.
#[test]
fn a_read_only_buffer_is_only_sent() {
    let mut pair = threads(2);
    let keep = Arc::new([1.0f32, 2.0]);
    let data = std::ptr::NonNull::from(&*keep).cast();
    // SAFETY: initialised, aligned, kept by the clone, and nobody writes.
    let loan = || unsafe { Staging::read_only(data, 8, paceline_base::units::DType::F32, keep.clone()) };
    let alone = pair[0].group(&[0]).unwrap();
    let refused = [pair[0].receive(1, 0, loan()), pair[0].start(Collective::AllReduce.into(), alone, 0, loan())];
    for refused in refused {
        assert!(refused.unwrap_err().message().contains("may only be read"));
    }
    let sent = [0, 1].map(|seq| pair[0].send(1, seq, loan()).unwrap());
    let [first, second] = [0, 1].map(|seq| pair[1].receive(0, seq, host::stage(&[0f32; 2])).unwrap());
    for ticket in [first, second] {
        assert_eq!(host::values::<f32>(&pair[1].wait(ticket).unwrap()), [1.0, 2.0]);
    }
    for ticket in sent {
        pair[0].wait(ticket).unwrap();
    }
}

/// Memory on loan stays until the last rank is gone, even if the rank that lent it went first.
#[test]
fn a_failed_ranks_buffer_outlives_it() {
    let keep = std::sync::Arc::new([0u64; 8]);
    let weak = std::sync::Arc::downgrade(&keep);
    let mut pair = threads(2);
    for comm in &mut pair {
        comm.group(&[0, 1]).unwrap();
    }
    let data = std::ptr::NonNull::from(&*keep).cast();
    // SAFETY: initialised, aligned, kept alive by `keep`; no peer ever joins, so nobody writes.
    let loan = unsafe { Staging::new(data, 64, paceline_base::units::DType::F64, keep) };
    pair[0].start(Collective::AllReduce.into(), GroupId(0), 0, loan).unwrap();
    drop(pair.remove(0));
    assert!(weak.upgrade().is_some());
    drop(pair);
    assert!(weak.upgrade().is_none());
}
