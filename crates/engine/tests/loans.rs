//! The engine keeps to what it lends and lets go: on every device, a schedule whose loans end too early does not get by.

mod common;

use common::nets::net;
use common::{Around, Steps, Toy, random_plan, schedule, train_on};
use paceline_base::optim::Rule;
use paceline_kernels::{Cpu, CpuOptions, Reference};
use paceline_plan::{Await, Item, Schedule, TaskKey, UpdateMode, lay_out_without_loans, program};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const NET: &str = "a conv channels=4 kernel=3 pad=1\nact relu\nb conv channels=4 kernel=3\nflat flatten\n\
                   h dense units=9\nlogits dense units=\"classes\"\nloss softmax-cross-entropy";

/// How many of the first random plans whose schedule `spoil` changes fail, and how many there are.
fn failures(around: Around, spoil: fn(&mut Schedule), plans: usize) -> (usize, usize) {
    let (graph, data) = (net(NET, &[6, 5, 2]), Toy::new(6, &[6, 5, 2], 5));
    let steps = Steps::new(3, 3);
    let fails = |dice: u64| {
        let plan = random_plan(&graph, 4, dice, UpdateMode::Replicated, 40);
        let make = || match dice % 2 {
            0 => around.wrap(Cpu::new(CpuOptions::default()).unwrap()),
            _ => around.wrap(Reference::new()),
        };
        let right = schedule(&graph, &plan, Rule::Sgd, &make, &data, &steps);
        let mut spoilt = right.clone();
        spoil(&mut spoilt);
        let run = || train_on(&graph, spoilt.clone(), &make, &data, &steps);
        (spoilt != right).then(|| catch_unwind(AssertUnwindSafe(run)).is_err())
    };
    let tried: Vec<bool> = (0..200).filter_map(fails).take(plans).collect();
    (tried.iter().filter(|failed| **failed).count(), tried.len())
}

/// Every rank waits for its messages one task later: to the task before that, a loan has ended too early.
fn end_loans_one_task_early(schedule: &mut Schedule) {
    for phase in 0..schedule.phases.len() {
        let mut later: HashMap<(usize, TaskKey), Await> = HashMap::new();
        for rank in 0..schedule.ranks {
            let keys: Vec<TaskKey> = program(schedule, phase, rank)
                .items
                .iter()
                .filter_map(|item| match item {
                    Item::Do(placed) => Some(TaskKey { segment: placed.segment.key, index: placed.task.index }),
                    _ => None,
                })
                .collect();
            let next = keys.iter().skip(1).map(|key| Await::Before(*key)).chain([Await::StepEnd]);
            later.extend(keys.iter().zip(next).map(|(key, next)| ((rank, *key), next)));
        }
        for segment in &mut schedule.phases[phase].segments {
            for task in Arc::make_mut(segment).tasks.iter_mut().filter(|task| task.is_message()) {
                let ranks: Vec<usize> = task.ranks().collect();
                for (rank, awaited) in ranks.into_iter().zip(&mut task.awaited) {
                    if let Await::Before(key) = awaited
                        && let Some(next) = later.get(&(rank, *key))
                    {
                        *awaited = *next;
                    }
                }
            }
        }
    }
}

#[test]
fn loans_that_end_as_they_should_are_fine() {
    for around in Around::ALL {
        let (failed, tried) = failures(around, |schedule| schedule.rule = Rule::Sgd, 1);
        assert_eq!((failed, tried), (0, 0), "nothing is changed");
        // A change that changes nothing that is done.
        assert_eq!(failures(around, |schedule| schedule.memory.push(schedule.memory[0].clone()), 4), (0, 4));
    }
}

#[test]
fn a_loan_that_ends_a_task_early_is_noticed() {
    for around in Around::ALL {
        let (failed, tried) = failures(around, end_loans_one_task_early, 8);
        assert!(tried == 8 && failed == tried, "{around:?} notices {failed} of {tried}");
    }
}

/// Memory of a message that nobody waits for within the step is used for something else while it is under way.
#[test]
fn memory_that_is_given_away_while_it_is_lent_is_noticed() {
    for around in Around::ALL {
        let (failed, tried) = failures(around, lay_out_without_loans, 8);
        assert!(failed > 0, "{around:?} notices {failed} of {tried}");
    }
}
