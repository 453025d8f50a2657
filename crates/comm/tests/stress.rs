//! Very many small collectives, with every rank checking every sum.

mod common;

use common::on_ranks;
use paceline_comm::{Collective, Comm, host};

fn stress(size: usize, count: u64, in_flight: usize) {
    let ranks: Vec<usize> = (0..size).collect();
    let total = (size * (size + 1) / 2) as f32;
    on_ranks(size, move |mut comm| {
        let group = comm.group(&ranks).unwrap();
        let factor = (comm.rank() + 1) as f32;
        let mut buffers: Vec<_> = (0..in_flight).map(|_| host::stage(&[0.0f32; 40])).collect();
        let mut tickets = std::collections::VecDeque::new();
        let mut seq = 0;
        let mut checked = 0;
        while checked < count {
            while let Some(mut data) = if seq < count { buffers.pop() } else { None } {
                let value = factor * (seq % 1000) as f32;
                for x in data.bytes_mut().chunks_exact_mut(4) {
                    x.copy_from_slice(&value.to_ne_bytes());
                }
                tickets.push_back(comm.start(Collective::AllReduce.into(), group, seq, data).unwrap());
                seq += 1;
            }
            let data = comm.wait(tickets.pop_front().expect("some under way")).unwrap();
            assert_eq!(host::values::<f32>(&data), [total * (checked % 1000) as f32; 40], "seq {checked}");
            buffers.push(data);
            checked += 1;
        }
    });
}

#[test]
fn two_ranks_one_at_a_time() {
    stress(2, 100_000, 1);
}

#[test]
fn two_ranks_many_at_once() {
    stress(2, 100_000, 100);
}

#[test]
fn four_ranks_one_at_a_time() {
    stress(4, 100_000, 1);
}

#[test]
fn four_ranks_many_at_once() {
    stress(4, 100_000, 7);
}

#[test]
fn eight_ranks() {
    stress(8, 10_000, 3);
}
