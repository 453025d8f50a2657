//! The engine keeps to what it lends and lets go: a schedule whose memory is laid out as if loans ended a task too early does not get by.

mod common;

use common::nets::net;
use common::{Around, SOME_DEFER, Toy, random_plan, schedule, train_on};
use paceline_base::optim::Rule;
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{MicroBatches, UpdateMode, lay_out_with_loans_cut_short};
use std::panic::{AssertUnwindSafe, catch_unwind};

const NET: &str = "a conv channels=4 kernel=3 pad=1\nact relu\nb conv channels=4 kernel=3\nflat flatten\n\
                   h dense units=9\nlogits dense units=\"classes\"\nloss softmax-cross-entropy";

/// Whether training under a random plan fails; with loans cut short, none if that leaves its memory as it should be.
fn fails(around: Around, dice: u64, cut_short: bool) -> Option<bool> {
    let (graph, data) = (net(NET, &[6, 5, 2]), Toy::new(6, &[6, 5, 2], 5));
    let plan = random_plan(&graph, 4, dice, UpdateMode::Replicated, 40);
    let make = || match dice % 2 {
        0 => around.wrap(Cpu::new(CpuOptions::default()).unwrap()),
        _ => around.wrap(Reference::new()),
    };
    let mut schedule = schedule(&graph, &plan, Rule::Sgd, &make, &data, 3, MicroBatches::One);
    if cut_short {
        let right = schedule.memory.clone();
        lay_out_with_loans_cut_short(&mut schedule);
        if schedule.memory == right {
            return None;
        }
    }
    let run = || train_on(&graph, schedule, &make, &data, 3, 0..3, None, SOME_DEFER);
    Some(catch_unwind(AssertUnwindSafe(run)).is_err())
}

#[test]
fn a_loan_that_ends_a_task_early_is_noticed() {
    for around in Around::ALL {
        assert_eq!(fails(around, 0, false), Some(false), "{around:?}");
        let tried: Vec<bool> = (0..400).filter_map(|dice| fails(around, dice, true)).take(8).collect();
        println!("{around:?}: {tried:?}");
        assert!(tried.contains(&true), "{around:?} lets loans end early: {tried:?}");
    }
}
