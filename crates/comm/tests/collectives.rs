//! Every collective leaves, on every rank, the bits of the plain sum in rank order; and counts what it moved.

mod common;

use common::{Number, check, expected, input, on_ranks};
use paceline_comm::{Collective, Comm, elements_moved, host, single};
use proptest::prelude::*;

const ALL: [Collective; 3] = [Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather];

fn one<T: Number>(what: Collective, size: usize, len: usize, seed: u64) {
    let ranks: Vec<usize> = (0..size).collect();
    on_ranks(size, move |mut comm| {
        let me = comm.rank();
        let group = comm.group(&ranks).unwrap();
        let ticket = comm.start(what.into(), group, 7, host::stage(&input::<T>(seed, me, len))).unwrap();
        let data = comm.wait(ticket).unwrap();
        let told = format!("{what} of {len} on rank {me} of {size}");
        check(host::values(&data), &expected::<T>(what, seed, &ranks, me, len), &told);
        let bytes = |r| (elements_moved(what, len, size, r, me) * size_of::<T>()) as u64;
        assert_eq!(comm.counters().received, ranks.iter().map(|&r| bytes(r)).collect::<Vec<_>>(), "{told}");
    });
}

#[test]
fn awkward_lengths() {
    for what in ALL {
        for size in [1, 2, 3, 5] {
            for len in [0, 1, 2, 15, 16, 17, 31, 33, 47, 1023, 2049, 5000] {
                one::<f32>(what, size, len, 1);
                one::<f64>(what, size, len, 2);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_size_length_and_type(what in 0..3usize, size in 1..=8usize, len in 0..6000usize, double: bool, seed: u64) {
        if double { one::<f64>(ALL[what], size, len, seed) } else { one::<f32>(ALL[what], size, len, seed) }
    }

    /// Many under way in groups that overlap, more than a group's ring holds, waited for in another order than issued.
    #[test]
    fn many_in_flight(
        size in 1..=6usize,
        masks in proptest::collection::vec(1..64usize, 1..4),
        count in 1..300usize,
        seed: u64,
    ) {
        let members = |mask: usize| (0..size).filter(|r| mask >> r & 1 == 1).collect::<Vec<_>>();
        let groups: Vec<_> = masks.into_iter().map(members).filter(|m| !m.is_empty()).collect();
        prop_assume!(!groups.is_empty());
        on_ranks(size, move |mut comm| {
            let me = comm.rank();
            let mine = |g: &Vec<usize>| g.contains(&me);
            let ids: Vec<_> = groups.iter().map(|g| mine(g).then(|| comm.group(g).unwrap())).collect();
            let mut tickets = vec![];
            let mut moved = vec![0; size];
            for seq in 0..count {
                let (g, what, len) = (seq % groups.len(), ALL[seq % 3], (seq * 37 + seed as usize % 91) % 400);
                let Some(id) = ids[g] else { continue };
                let salt = seed ^ seq as u64;
                let data = host::stage(&input::<f32>(salt, me, len));
                tickets.push((comm.start(what.into(), id, seq as u64, data).unwrap(), seq, g, what, len));
                for (m, &r) in groups[g].iter().enumerate() {
                    let index = groups[g].iter().position(|&r| r == me).unwrap();
                    moved[r] += elements_moved(what, len, groups[g].len(), m, index) as u64 * 4;
                }
                if seq % 5 == me {
                    comm.progress().unwrap();
                }
            }
            // Ranks wait in different orders.
            let by = (seed as usize + me) % tickets.len().max(1);
            tickets.rotate_left(by);
            for (ticket, seq, g, what, len) in tickets {
                let data = comm.wait(ticket).unwrap();
                let told = format!("{what} seq {seq} of {len} on rank {me} in {:?}", groups[g]);
                check(host::values(&data), &expected::<f32>(what, seed ^ seq as u64, &groups[g], me, len), &told);
            }
            assert_eq!(comm.counters().received, moved);
        });
    }
}

#[test]
fn two_groups_of_the_same_ranks_are_two() {
    on_ranks(2, |mut comm| {
        let (a, b) = (comm.group(&[0, 1]).unwrap(), comm.group(&[0, 1]).unwrap());
        assert_ne!(a, b);
        let start = |comm: &mut paceline_comm::Threads, g, seq, x: f32| {
            comm.start(Collective::AllReduce.into(), g, seq, host::stage(&[x])).unwrap()
        };
        let (first, second) = (start(&mut comm, a, 1, 1.0), start(&mut comm, b, 2, 10.0));
        let second = comm.wait(second).unwrap();
        let first = comm.wait(first).unwrap();
        assert_eq!((host::values::<f32>(&first), host::values::<f32>(&second)), (&[2.0][..], &[20.0][..]));
    });
}

#[test]
fn progress_alone_completes_what_all_have_started() {
    on_ranks(3, |mut comm| {
        let group = comm.group(&[0, 1, 2]).unwrap();
        let ticket = comm.start(Collective::AllReduce.into(), group, 0, host::stage(&[1.0f32; 100])).unwrap();
        while comm.counters().received.iter().sum::<u64>() == 0 {
            comm.progress().unwrap();
            std::thread::yield_now();
        }
        assert_eq!(comm.counters().waiting, std::time::Duration::ZERO);
        assert_eq!(host::values::<f32>(&comm.wait(ticket).unwrap()), [3.0; 100]);
    });
}

#[test]
fn one_rank_alone_needs_nobody() {
    let mut comm = single();
    assert_eq!((comm.rank(), comm.size()), (0, 1));
    let group = comm.group(&[0]).unwrap();
    for (seq, what) in ALL.into_iter().cycle().take(200).enumerate() {
        let ticket = comm.start(what.into(), group, seq as u64, host::stage(&[1.5f64, -0.0])).unwrap();
        assert_eq!(host::values::<f64>(&comm.wait(ticket).unwrap()), [1.5, -0.0]);
    }
    assert_eq!(comm.counters().received, [0]);
}

/// Rank 1 comes later and later, until rank 0 was surely there before it: a busy machine may hold rank 0 up as long.
#[test]
fn waiting_for_a_late_peer_is_told_from_moving() {
    let told = on_ranks(2, |mut comm| {
        let group = comm.group(&[0, 1]).unwrap();
        let mut told = false;
        for (seq, delay) in (0..14).map(|k| (k, std::time::Duration::from_millis(1 << k))) {
            if comm.rank() == 1 {
                std::thread::sleep(delay);
            }
            let before = comm.counters().clone();
            // Long enough to be timed, and the first number says whether this is the last time.
            let mut values = [1.0f32; 4096];
            values[0] = f32::from(u8::from(told));
            let ticket = comm.start(Collective::AllReduce.into(), group, seq, host::stage(&values)).unwrap();
            let ended = host::values::<f32>(&comm.wait(ticket).unwrap())[0] > 0.0;
            let [waited, moved] = [comm.counters().waiting - before.waiting, comm.counters().moving - before.moving];
            if ended {
                break;
            }
            told = comm.rank() == 0 && waited >= delay / 2 && moved < delay / 2;
        }
        told
    });
    assert!(told[0], "rank 0 never counted the delay of rank 1 as waiting");
}
