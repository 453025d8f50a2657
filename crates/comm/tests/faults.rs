//! Ranks with faults: what can be survived does not change a bit, what cannot ends in an error that names the rank.

mod common;

use common::{check, expected, input, on_ranks, spawn};
use paceline_comm::faults::{Faults, Faulty};
use paceline_comm::{Collective, Comm, Threads, host};
use proptest::prelude::*;
use std::time::Duration;

/// All kinds of operations, many at a time, compared with what they must leave.
fn work(comm: &mut dyn Comm, rounds: u64) -> paceline_base::Result<()> {
    let (me, size) = (comm.rank(), comm.size());
    let all: Vec<usize> = (0..size).collect();
    let whole = comm.group(&all)?;
    let pair = if me < 2 && size > 2 { Some(comm.group(&[0, 1])?) } else { None };
    for round in 0..rounds {
        let (base, len) = (round * 4, 40 + round as usize * 7);
        let data = |seq: u64| host::stage(&input::<f32>(seq, me, len));
        let a = comm.start(Collective::AllReduce.into(), whole, base, data(base))?;
        let b =
            pair.map(|pair| comm.start(Collective::AllReduce.into(), pair, base + 1, data(base + 1))).transpose()?;
        let (to, from) = ((me + 1) % size, (me + size - 1) % size);
        // A ring of messages: each is one operation with a number of its own.
        let sent = comm.send(to, base + 100_000 + me as u64, data(base + 2))?;
        let got = comm.receive(from, base + 100_000 + from as u64, host::stage(&vec![0f32; len]))?;
        let c = comm.start(Collective::AllGather.into(), whole, base + 3, data(base + 3))?;
        comm.progress()?;
        for (what, ticket, seq, ranks) in [
            (Collective::AllGather, Some(c), base + 3, &all[..]),
            (Collective::AllReduce, b, base + 1, &[0, 1][..]),
            (Collective::AllReduce, Some(a), base, &all[..]),
        ] {
            if let Some(ticket) = ticket {
                let data = comm.wait(ticket)?;
                check(host::values::<f32>(&data), &expected::<f32>(what, seq, ranks, me, len), "with faults");
            }
        }
        assert_eq!(host::values::<f32>(&comm.wait(got)?), input::<f32>(base + 2, from, len));
        comm.wait(sent)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn delays_and_another_order_change_nothing(seed in any::<u64>(), size in 2usize..5, reorder in any::<bool>()) {
        on_ranks(size, move |comm| {
            let delay = Some(Duration::from_micros(200));
            work(&mut Faulty::new(comm, Faults { seed, delay, reorder, ..Faults::default() }), 12).unwrap();
        });
    }
}

#[test]
fn a_slow_rank_is_waited_for_and_the_waiting_is_counted_with_the_others() {
    // Slower and slower: a busy machine may hold up the others as long.
    let all: Vec<_> = [10, 40, 160, 640]
        .iter()
        .map(|&ms| {
            on_ranks(3, move |comm| {
                let slow = (comm.rank() == 1).then_some(Duration::from_millis(ms));
                let mut comm = Faulty::new(comm, Faults { slow, ..Faults::default() });
                work(&mut comm, 5).unwrap();
                comm.counters().waiting
            })
        })
        .take_while(|waits| !(waits[0] > waits[1] && waits[2] > waits[1]))
        .collect();
    assert!(all.len() < 4, "{all:?}");
}

/// Every other rank's error must name rank 1.
fn named(faults: Faults, timeout: Duration) {
    let ranks = spawn(3, move |mut comm: Threads| {
        comm.set_timeout(timeout);
        let faults = if comm.rank() == 1 { faults } else { Faults::default() };
        work(&mut Faulty::new(comm, faults), 30).err().map(|e| e.message().to_string())
    });
    for (rank, result) in ranks.into_iter().map(|r| r.join().unwrap()).enumerate().filter(|(r, _)| *r != 1) {
        let error = result.unwrap_or_else(|| panic!("rank {rank} noticed nothing"));
        assert!(error.contains("rank 1"), "{error}");
    }
}

#[test]
fn a_dead_rank_is_named() {
    named(Faults { dies: Some(40), ..Faults::default() }, Duration::from_secs(3600));
}

#[test]
fn a_rank_that_hangs_is_named() {
    // Longer than a busy machine holds up the others, and much shorter than the hang.
    named(Faults { hangs: Some((40, Duration::from_secs(8))), ..Faults::default() }, Duration::from_secs(2));
}
