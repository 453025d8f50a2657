//! Messages arrive whole, in order, in both directions, and are counted.

mod common;

use common::{Number, input, on_ranks};
use paceline_comm::{Comm, host, single};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Everybody passes its numbers around the ring, right and left at once.
    #[test]
    fn rings(size in 1..=8usize, len in 0..3000usize, rounds in 1..5usize, seed: u64) {
        on_ranks(size, move |mut comm| {
            let me = comm.rank();
            let (right, left) = ((me + 1) % size, (me + size - 1) % size);
            let mut east = host::stage(&input::<f32>(seed, me, len));
            let mut west = host::stage(&input::<f64>(seed, me, len));
            for round in 0..rounds as u64 {
                let (e, w) = (host::stage(&vec![0.0f32; len]), host::stage(&vec![0.0f64; len]));
                // With one or two ranks, left and right are the same lane: there, order is what tells them apart.
                let tickets = [
                    comm.send(right, 2 * round, east).unwrap(),
                    comm.receive(left, 2 * round, e).unwrap(),
                    comm.send(left, 2 * round + 1, west).unwrap(),
                    comm.receive(right, 2 * round + 1, w).unwrap(),
                ];
                let [_, got_east, _, got_west] = tickets.map(|t| comm.wait(t).unwrap());
                (east, west) = (got_east, got_west);
            }
            let origin_east = (me + rounds * (size - 1)) % size;
            let origin_west = (me + rounds) % size;
            let bits = |v: &[f32]| v.iter().map(|x| x.bits()).collect::<Vec<_>>();
            assert_eq!(bits(host::values(&east)), bits(&input::<f32>(seed, origin_east, len)));
            let bits = |v: &[f64]| v.iter().map(|x| x.bits()).collect::<Vec<_>>();
            assert_eq!(bits(host::values(&west)), bits(&input::<f64>(seed, origin_west, len)));
            let mut bytes = vec![0; size];
            bytes[left] += (rounds * len * 4) as u64;
            bytes[right] += (rounds * len * 8) as u64;
            assert_eq!(comm.counters().received, bytes);
        });
    }
}

/// A sender may be far ahead: more messages than the lane has slots queue up without blocking.
#[test]
fn a_fast_sender_does_not_block() {
    const MANY: u64 = 500;
    on_ranks(2, |mut comm| {
        if comm.rank() == 0 {
            let tickets: Vec<_> = (0..MANY).map(|n| comm.send(1, n, host::stage(&[n as f32])).unwrap()).collect();
            for (n, ticket) in tickets.into_iter().enumerate() {
                assert_eq!(host::values::<f32>(&comm.wait(ticket).unwrap()), [n as f32]);
            }
        } else {
            std::thread::sleep(std::time::Duration::from_millis(20));
            for n in 0..MANY {
                let ticket = comm.receive(0, n, host::stage(&[-1.0f32])).unwrap();
                assert_eq!(host::values::<f32>(&comm.wait(ticket).unwrap()), [n as f32]);
            }
            assert_eq!(comm.counters().received, [4 * MANY, 0]);
        }
    });
}

#[test]
fn receives_may_come_first_and_be_waited_for_backwards() {
    on_ranks(2, |mut comm| {
        let peer = 1 - comm.rank();
        let receives: Vec<_> = (0..40).map(|n| comm.receive(peer, n, host::stage(&[0.0f64])).unwrap()).collect();
        let sends: Vec<_> = (0..40).map(|n| comm.send(peer, n, host::stage(&[n as f64])).unwrap()).collect();
        for (n, ticket) in receives.into_iter().enumerate().rev() {
            assert_eq!(host::values::<f64>(&comm.wait(ticket).unwrap()), [n as f64]);
        }
        for ticket in sends {
            comm.wait(ticket).unwrap();
        }
    });
}

#[test]
fn a_rank_may_write_to_itself() {
    let mut comm = single();
    let out = comm.send(0, 3, host::stage(&[1.0f32, 2.0])).unwrap();
    let back = comm.receive(0, 3, host::stage(&[0.0f32; 2])).unwrap();
    assert_eq!(host::values::<f32>(&comm.wait(back).unwrap()), [1.0, 2.0]);
    comm.wait(out).unwrap();
}

/// What is received is as long as what was sent, up to the room there is; where no other length is allowed, another one is an error.
#[test]
fn lengths_travel_with_messages() {
    on_ranks(2, |mut comm| {
        let peer = 1 - comm.rank();
        for (seq, len) in [0usize, 1, 7, 40, 3].into_iter().enumerate() {
            let sent = comm.send(peer, seq as u64, host::stage(&vec![len as u32; len])).unwrap();
            let room = comm.receive(peer, seq as u64, host::stage(&[9u32; 40]).varying()).unwrap();
            assert_eq!(host::values::<u32>(&comm.wait(room).unwrap()), vec![len as u32; len]);
            comm.wait(sent).unwrap();
        }
        assert_eq!(comm.counters().received[peer], 4 * 51);
    });
    for varies in [false, true] {
        on_ranks(2, move |mut comm| {
            if comm.rank() == 0 {
                // It fails with the other, at once or later.
                if let Ok(sent) = comm.send(1, 0, host::stage(&[1u64; 5])) {
                    assert!(comm.wait(sent).is_err());
                }
            } else {
                let room = if varies { host::stage(&[0u64; 4]).varying() } else { host::stage(&[0u64; 6]) };
                let ended = match comm.receive(0, 0, room) {
                    Ok(ticket) => comm.wait(ticket),
                    Err(error) => Err(error), // the message was there already
                };
                let error = ended.err().expect("another length").to_string();
                assert!(error.contains("40 bytes of u64"), "{error}");
            }
        });
    }
}

#[test]
fn only_floats_are_added_up() {
    on_ranks(2, |mut comm| {
        let all = comm.group(&[0, 1]).unwrap();
        let error = comm.start(paceline_comm::Collective::AllReduce.into(), all, 0, host::stage(&[1u32])).err();
        assert!(error.expect("refused").to_string().contains("only floats"));
    });
}
