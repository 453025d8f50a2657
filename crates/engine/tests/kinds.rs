//! Samples of every kind: numbers and lists of indices as features, classes and numbers, one or several, as targets. Whatever the plan, N ranks
//! give what one rank gives.

mod common;

use common::nets::net_for;
use common::{Around, Steps, random_plan, room, run, same, schedule, simulator_agrees, train_on, two_plans};
use paceline_base::kernel::{Elements, StepArgs};
use paceline_base::optim::Rule;
use paceline_base::region::Region;
use paceline_base::units::GlobalBatch;
use paceline_base::{Kind, Result};
use paceline_data::{Features, Labelled, Lists, Order, Samples, Table, Target, Targets, Visits};
use paceline_engine::checkpoint::{Snapshot, gather, initialize};
use paceline_engine::{
    Batch, CheckpointEvery, Control, EpochEvent, Input, Observer, Rank, StepEvent, TrainJob, TrainOptions, TrainState,
    train,
};
use paceline_graph::Graph;
use paceline_kernels::{Cpu, CpuOptions, Device, Reference};
use paceline_plan::{
    Await, Batches, Buffer, ListRoom, MicroBatches, OpPlan, PhaseKind, Phases, Plan, Schedule, Segment, Settings, Task,
    TaskKey, TaskKind, UpdateMode, lay_out_again, lower,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const MOMENTUM: Rule = Rule::Momentum { momentum: 0.9 };
const TABLE: u64 = 11;
const SAMPLES: usize = 23;

fn cpu() -> Cpu {
    Cpu::new(CpuOptions::default()).unwrap()
}

/// Targets of some kind; all are functions of the sample.
fn targets(kind: usize) -> Targets {
    let class = |i: usize| (i * 13 + i / 3) as u32 % 4;
    let number = |i: usize| ((i * 7919) % 401) as f32 / 200.0 - 1.0;
    match kind {
        0 => Targets::classes((0..SAMPLES).map(class).collect(), 4),
        1 => Targets::several((0..3 * SAMPLES).map(class).collect(), 3, 4),
        2 => Targets::numbers((0..SAMPLES).map(number).collect(), 1),
        _ => Targets::numbers((0..3 * SAMPLES).map(number).collect(), 3),
    }
    .unwrap()
}

/// Lists from none to five indices, some more than once in a list.
fn lists(kind: usize, wide: bool) -> Lists {
    let index = |i: usize, k: usize| ((i * 31 + k * k * 17 + k) as u64) % TABLE;
    let list = |i: usize| (0..(i * 5) % 6).map(|k| index(i, k)).collect::<Vec<_>>();
    // Of the same lists, stored as what 32 bits do not hold.
    let bound = if wide { 1 << 33 } else { TABLE };
    Lists::new((0..SAMPLES).map(list), bound, targets(kind)).unwrap()
}

/// Wide lists, of which the model is told that their indices are small.
struct Narrowed(Lists);

impl Labelled for Narrowed {
    paceline_data::forward_to!(0: len, shape, class_names, label, fingerprint, target_kind, target);

    fn feature_kind(&self) -> paceline_base::sample::FeatureKind {
        let width = paceline_base::sample::IndexWidth::Bits64;
        paceline_base::sample::FeatureKind::Lists { width, bound: TABLE }
    }
}

impl Samples for Narrowed {
    fn features(&self, index: usize) -> Features<'_> {
        self.0.features(index)
    }
}

fn embedding(data: &dyn Samples, mean: bool) -> Graph {
    let kind = data.sample_kind();
    let loss =
        if matches!(data.target(0), Target::Numbers(_)) { "mean-squared-error" } else { "softmax-cross-entropy" };
    let mode = if mean { "mean" } else { "sum" };
    let text = format!(
        "words embedding columns=6 mode=\"{mode}\"\nact tanh\nout dense units={}\nloss {loss}",
        kind.targets.outputs()
    );
    net_for(&text, &kind)
}

fn data_and_graph(kind: usize, wide: bool, mean: bool) -> (Box<dyn Samples>, Graph) {
    let data: Box<dyn Samples> =
        if wide { Box::new(Narrowed(lists(kind, true))) } else { Box::new(lists(kind, false)) };
    let graph = embedding(&*data, mean);
    (data, graph)
}

/// Ten numbers a sample.
fn numbers(kind: usize) -> (Table, Graph) {
    let values = (0..SAMPLES * 10).map(|i| ((i * 7919 + i * i * 31) % 2003) as f32 / 1001.5 - 1.0).collect();
    let data = Table::with_targets(vec![10], values, targets(kind)).unwrap();
    let sample = data.sample_kind();
    let loss = if kind < 2 { "softmax-cross-entropy" } else { "mean-squared-error" };
    let text = format!("h dense units=7\nact tanh\nout dense units={}\nloss {loss}", sample.targets.outputs());
    let graph = net_for(&text, &sample);
    (data, graph)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_of_an_embedding_equals_one_worker(
        kind in 0usize..4, wide: bool, mean: bool, ranks in 1usize..7, batch in 1usize..14, dice: u64, sharded: bool, fused: bool,
    ) {
        let (data, graph) = data_and_graph(kind, wide, mean);
        let update = if sharded { UpdateMode::Sharded } else { UpdateMode::Replicated };
        let device = || if fused { Reference::with_fusions() } else { Reference::new() };
        let one = run(&graph, &Plan::data_parallel(1), MOMENTUM, Reference::new, &*data, &Steps::new(batch, 4));
        for plan in two_plans(&graph, ranks, dice, update, 40) {
            let many = run(&graph, &plan, MOMENTUM, device, &*data, &Steps::new(batch, 4));
            prop_assert_eq!(same(&many, &one, 1e-10), Ok(()), "{:?}", plan);
            let fast = run(&graph, &plan, MOMENTUM, cpu, &*data, &Steps::new(batch, 4));
            prop_assert_eq!(same(&fast, &one, 2e-5), Ok(()), "{:?}", plan);
        }
    }

    #[test]
    fn any_plan_with_targets_of_any_kind_equals_one_worker(kind in 0usize..4, ranks in 1usize..7, batch in 1usize..14, dice: u64) {
        let (data, graph) = numbers(kind);
        let one = run(&graph, &Plan::data_parallel(1), MOMENTUM, Reference::new, &data, &Steps::new(batch, 4));
        let plan = random_plan(&graph, ranks, dice, UpdateMode::Replicated, 40);
        let many = run(&graph, &plan, MOMENTUM, Reference::with_fusions, &data, &Steps::new(batch, 4));
        prop_assert_eq!(same(&many, &one, 1e-10), Ok(()), "{:?}", plan);
        let fast = run(&graph, &plan, MOMENTUM, cpu, &data, &Steps::new(batch, 4));
        prop_assert_eq!(same(&fast, &one, 2e-5), Ok(()), "{:?}", plan);
    }
}

/// Each split by itself, and both ways of splitting the table at once.
#[test]
fn an_embedding_is_split_over_samples_rows_and_columns() {
    for (kind, mean) in [(0, false), (3, true)] {
        let (data, graph) = data_and_graph(kind, false, mean);
        let one = run(&graph, &Plan::data_parallel(1), MOMENTUM, Reference::new, &*data, &Steps::new(5, 6));
        for split in [
            &[("sample", 3)][..],
            &[("row", 3)],
            &[("out", 3)],
            &[("row", 2), ("out", 2)],
            &[("sample", 2), ("row", 3)],
        ] {
            let parts: usize = split.iter().map(|s| s.1).product();
            let split: BTreeMap<String, usize> = split.iter().map(|(name, n)| (name.to_string(), *n)).collect();
            let plan = OpPlan { split: split.clone(), ranks: Some((0..parts).map(|part| part % 3).collect()) };
            let mut all = Plan::data_parallel(3);
            all.operators.insert("words".into(), plan);
            let many = run(&graph, &all, MOMENTUM, cpu, &*data, &Steps::new(5, 6));
            assert_eq!(same(&many, &one, 2e-5), Ok(()), "{split:?}");
        }
    }
}

#[test]
fn micro_batches_of_lists_are_the_batch() {
    for (kind, mean) in [(0, true), (3, false)] {
        let (data, graph) = data_and_graph(kind, false, mean);
        let one = run(&graph, &Plan::data_parallel(1), MOMENTUM, Reference::new, &*data, &Steps::new(5, 6));
        for ranks in 1..4 {
            let steps = Steps { micro_batches: MicroBatches::InTurn(2), ..Steps::new(5, 6) };
            let plan = random_plan(&graph, ranks, 7 + ranks as u64, UpdateMode::Replicated, 40);
            let many = run(&graph, &plan, MOMENTUM, Reference::new, &*data, &steps);
            assert_eq!(same(&many, &one, 1e-10), Ok(()), "{plan:?}");
        }
    }
}

#[test]
fn memory_of_lists_is_predicted() {
    for dice in 0..6 {
        let (data, graph) = data_and_graph(dice % 4, dice % 2 == 0, false);
        simulator_agrees(&graph, &*data, MOMENTUM, dice as u64, &Steps::new(23, 3));
    }
}

/// Linear regression with a squared error, every update by its formula.
#[test]
fn numbers_are_met_by_the_updates_of_the_formula() {
    let (rows, inputs, each) = (6, 3, 2);
    let x: Vec<f32> = (0..rows * inputs).map(|i| ((i * 37) % 17) as f32 / 8.0 - 1.0).collect();
    let t: Vec<f32> = (0..rows * each).map(|i| ((i * 53) % 19) as f32 / 9.0 - 1.0).collect();
    let data = Table::with_targets(vec![inputs], x.clone(), Targets::numbers(t.clone(), each).unwrap()).unwrap();
    let graph = net_for("out dense units=2\nloss mean-squared-error", &data.sample_kind());
    let trained = run(&graph, &Plan::data_parallel(1), Rule::Sgd, Reference::new, &data, &Steps::new(rows, 4));
    let settings = Settings::new(Rule::Sgd, Reference::new().kind());
    let batches = Batches { train: vec![rows], evaluate: Vec::new() };
    let first = lower(&graph, &Plan::data_parallel(1), &batches, &settings).unwrap();
    let mut rank = Rank::new(Reference::new(), paceline_comm::single(), Arc::new(first)).unwrap();
    initialize(&mut rank, &graph, 3).unwrap();
    let start = gather(&mut rank, &graph).unwrap().unwrap();
    let mut w = common::values(&start.model[0].data);
    let mut b = common::values(&start.model[1].data);
    let (mut losses, mut distances) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let (mut dw, mut db, mut loss, mut distance) = (vec![0.0; w.len()], vec![0.0; each], 0.0, 0.0);
        for r in 0..rows {
            for o in 0..each {
                let x = &x[r * inputs..][..inputs];
                let y: f64 = b[o] + (0..inputs).map(|i| w[o * inputs + i] * f64::from(x[i])).sum::<f64>();
                let d = y - f64::from(t[r * each + o]);
                loss += d * d / (rows * each) as f64;
                distance += d.abs() / (rows * each) as f64;
                let g = 2.0 * d / (rows * each) as f64;
                db[o] += g;
                (0..inputs).for_each(|i| dw[o * inputs + i] += g * f64::from(x[i]));
            }
        }
        w.iter_mut().zip(&dw).for_each(|(w, g)| *w -= 0.05 * g);
        b.iter_mut().zip(&db).for_each(|(b, g)| *b -= 0.05 * g);
        losses.push(loss);
        distances.push(distance);
    }
    for (step, metrics) in trained.results[..4].iter().enumerate() {
        assert!((metrics.value("loss").unwrap() - losses[step]).abs() < 1e-12);
        assert!((metrics.value("absolute error").unwrap() - distances[step]).abs() < 1e-12);
        assert_eq!((metrics.value("samples"), metrics.value("accuracy")), (Some(rows as f64), None));
    }
    for (got, expected) in [(&trained.snapshot.model[0], &w), (&trained.snapshot.model[1], &b)] {
        for (got, expected) in common::values(&got.data).iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got} {expected}");
        }
    }
}

struct Silent;

impl Observer for Silent {
    fn step(&mut self, _: &StepEvent) {}
    fn epoch(&mut self, _: &EpochEvent) {}
    fn checkpoint(&mut self, _: f64) {}
    fn wish(&mut self) -> Control {
        Control::default()
    }
}

/// The training loop, with this room for lists before the first step, and what each rank's memory was before and after it.
fn trained(
    graph: &Graph,
    data: &dyn Samples,
    ranks: usize,
    around: Around,
    lists: ListRoom,
) -> Result<(Snapshot, Vec<[usize; 2]>)> {
    let options = TrainOptions {
        seed: 1,
        epochs: 2,
        batch: Arc::new(|_, _| GlobalBatch::new(5).unwrap()),
        eval_batch: 9,
        rate: Arc::new(|_| 0.05),
        monitor: Default::default(),
        patience: 0,
        min_delta: 0.0,
        max_steps: u64::MAX,
        checkpoint: CheckpointEvery::Never,
    };
    let plan = Plan::data_parallel(ranks);
    let settings = Settings { defer_updates: true, lists, ..Settings::new(MOMENTUM, Reference::new().kind()) };
    let batches = Batches { train: vec![5, 3], evaluate: vec![9, 5] };
    let phases = Phases::new(graph, &plan, batches, settings)?;
    let visits = Visits::all(Order::new(data.len(), 1));
    let unshuffled = Visits::all(Order::unshuffled(data.len()));
    let mut outs = Vec::new();
    std::thread::scope(|scope| {
        let handles: Vec<_> = paceline_comm::threads(ranks)
            .into_iter()
            .map(|comm| {
                let (phases, options, visits, unshuffled) = (&phases, &options, &visits, &unshuffled);
                scope.spawn(move || -> Result<_> {
                    let mut rank = Rank::new(around.wrap(Reference::new()), comm, phases.first())?;
                    initialize(&mut rank, graph, 3)?;
                    let before = rank.device.allocated_bytes();
                    let job = TrainJob {
                        graph,
                        training: Input::Memory { samples: data, visits },
                        validation: Input::Memory { samples: data, visits: unshuffled },
                        options,
                        saver: None,
                        phases: Some(phases),
                    };
                    train(&mut rank, &job, TrainState::default(), &mut Silent)?;
                    let memory = [before, rank.device.allocated_bytes()];
                    Ok((gather(&mut rank, graph)?, memory))
                })
            })
            .collect();
        outs = handles.into_iter().map(|h| h.join().unwrap()).collect();
    });
    let mut outs = outs.into_iter().collect::<Result<Vec<_>>>()?;
    let memory = outs.iter().map(|o| o.1).collect();
    Ok((outs.swap_remove(0).0.unwrap(), memory))
}

/// Memory that begins without room for lists grows between steps, and the results are those of a run with room for all.
#[test]
fn room_for_lists_grows_between_steps() {
    let list = |i: u64| (0..i * 61 % 400).map(|k| (i + k * k) % TABLE).collect::<Vec<_>>();
    let data = Lists::new((0..SAMPLES as u64).map(list), TABLE, targets(0)).unwrap();
    let (graph, enough) = (embedding(&data, true), room(&data));
    for ranks in 1..4 {
        let (whole, _) = trained(&graph, &data, ranks, Around::Nothing, enough.clone()).unwrap();
        for around in Around::ALL {
            let (grown, memory) = trained(&graph, &data, ranks, around, ListRoom::new(0)).unwrap();
            assert_eq!(common::distance(&grown, &whole).0, 0.0, "{ranks} ranks, {around:?}");
            assert!(memory.iter().all(|[before, after]| before < after), "{memory:?}");
        }
        let (_, memory) = trained(&graph, &data, ranks, Around::Nothing, enough.clone()).unwrap();
        assert!(memory.iter().all(|[before, after]| before == after), "{memory:?}");
    }
}

/// One list of a million indices among short ones: the room is that of the longest lists, not of as many as the longest.
#[test]
fn a_list_of_a_million_takes_room_once() {
    let mut all: Vec<Vec<u64>> = (0..40).map(|i| vec![i % TABLE; 3]).collect();
    all[7] = (0..1_000_000).map(|i| i * 7 % TABLE).collect();
    let targets = Targets::classes((0..40).map(|i| i % 4).collect(), 4).unwrap();
    let data = Lists::new(all, TABLE, targets).unwrap();
    let graph = embedding(&data, true);
    let one = run(&graph, &Plan::data_parallel(1), MOMENTUM, cpu, &data, &Steps::new(20, 2));
    assert!(one.allocated[0] < 2 * 4 * 1_000_200, "{} bytes", one.allocated[0]);
    let two = run(&graph, &Plan::data_parallel(2), MOMENTUM, cpu, &data, &Steps::new(20, 2));
    assert_eq!(same(&two, &one, 2e-4), Ok(()));
}

/// Lists that one rank loads and sends to another: their length travels with the message.
#[test]
fn lists_are_sent_as_long_as_they_are() {
    let (data, graph) = data_and_graph(2, false, false);
    let mut plan = Plan::data_parallel(2);
    let on = |rank| OpPlan { split: BTreeMap::new(), ranks: Some(vec![rank]) };
    for name in ["words", "act", "out", "loss"] {
        plan.operators.insert(name.into(), on(1));
    }
    let steps = Steps::new(5, 7);
    let expected = run(&graph, &plan, MOMENTUM, cpu, &*data, &steps);
    for around in Around::ALL {
        let make = || around.wrap(cpu());
        let mut sent = schedule(&graph, &plan, MOMENTUM, &make, &*data, &steps);
        sent.phases.iter_mut().for_each(|phase| phase.segments.iter_mut().for_each(load_on_rank_0_and_send));
        assert!(sent.phases[0].tasks().any(|(_, task)| task.is_message()));
        lay_out_again(&mut sent);
        let got = train_on(&graph, sent, &make, &*data, &steps);
        assert_eq!(got.results, expected.results, "{around:?}");
        assert_eq!(common::distance(&got.snapshot, &expected.snapshot).0, 0.0, "{around:?}");
        // All lists of all steps, with their offsets; nothing of the room that they do not fill.
        let order = Order::new(SAMPLES, 5);
        let entries: usize = (0..7)
            .map(|step| {
                let (epoch, start) = (step / 5, step % 5 * 5);
                let rows = 5.min(SAMPLES - start);
                rows + 1 + (0..rows).map(|row| data.features(order.at(epoch as u64, start + row)).len()).sum::<usize>()
            })
            .sum();
        let evaluated = SAMPLES + 1 + (0..SAMPLES).map(|i| data.features(i).len()).sum::<usize>();
        let others = expected.received[1][0];
        assert_eq!(got.received[1][0], others + 4 * (entries + evaluated) as u64, "{around:?}");
    }
}

/// Lets rank 0 load what rank 1 reads, and send it.
fn load_on_rank_0_and_send(segment: &mut Arc<Segment>) {
    let Some(at) = segment.tasks.iter().position(|task| matches!(task.kind, TaskKind::LoadLists { .. })) else {
        return;
    };
    let TaskKind::LoadLists { buffer, rows, entries, width } = segment.tasks[at].kind.clone() else { return };
    let segment = Arc::make_mut(segment);
    let mut here = buffer;
    here.piece += 1;
    let room = *segment.buffers.iter().find(|b| b.key == buffer).unwrap();
    segment.buffers.push(Buffer { key: here, rank: 0, ..room });
    let region = Region::new([rows.clone()]);
    let load = TaskKind::LoadLists { buffer: here, rows, entries, width };
    let send = TaskKind::Transfer { to: 1, source: here, target: buffer, region, elements: Elements::Index(width) };
    let task = |index: u32, kind: TaskKind, awaited: Vec<Await>| Task {
        index,
        rank: 0,
        part: 0,
        kind,
        size: room.len,
        stage: 0,
        awaited,
    };
    let index = segment.tasks.len() as u32;
    let reader = match segment.key {
        paceline_plan::SegmentKey::Read { reader, micro, .. } => {
            paceline_plan::SegmentKey::Forward { node: reader, micro }
        }
        other => panic!("lists are read in {other:?}"),
    };
    let before = Await::Before(TaskKey { segment: reader, index: 0 });
    segment.tasks[at] = task(segment.tasks[at].index, load, Vec::new());
    segment.tasks.push(task(index, send, vec![Await::StepEnd, before]));
    segment.messages += 1;
}

fn one_step<D: Device>(graph: &Graph, device: D, data: &dyn Samples, lists: ListRoom) -> Result<Schedule> {
    let batches = Batches { train: vec![4], evaluate: Vec::new() };
    let settings = Settings { lists, ..Settings::new(Rule::Sgd, device.kind()) };
    let schedule = lower(graph, &Plan::data_parallel(1), &batches, &settings)?;
    let mut rank = Rank::new(device, paceline_comm::single(), Arc::new(schedule.clone()))?;
    initialize(&mut rank, graph, 3)?;
    let phase = rank.schedule.phase(PhaseKind::Train, 4).unwrap();
    let args = StepArgs { seed: 9, step: 0, rate: 0.1, scale: 0.25 };
    rank.step_now(phase, &Batch::new(data, &|row| row), &args)?;
    Ok(schedule)
}

/// What data can hold that a model was not built for is an error, never a read beyond the table.
#[test]
fn what_does_not_fit_is_refused() {
    let (data, graph) = data_and_graph(0, false, false);
    let beyond = Lists::new((0..4).map(|i| vec![i, 70]), 71, Targets::classes(vec![0; 4], 4).unwrap()).unwrap();
    for device in [Box::new(cpu()) as Box<dyn Device>, Box::new(Reference::new())] {
        let error = one_step(&graph, device, &beyond, ListRoom::new(9)).unwrap_err();
        assert_eq!(error.kind(), Kind::User);
        assert!(error.message().contains("index 70") && error.message().contains("rows = 71"), "{error}");
    }
    let error = one_step(&graph, cpu(), &*data, ListRoom::new(1)).unwrap_err();
    assert!(error.message().contains("room for 4"), "{error}");
    let others = lists(2, false);
    let error = one_step(&graph, cpu(), &others, room(&others)).unwrap_err();
    assert!(error.message().contains("targets of another kind"), "{error}");
    let (dense, _) = numbers(0);
    let error = one_step(&graph, cpu(), &dense, ListRoom::new(9)).unwrap_err();
    assert!(error.message().contains("not a list of indices"), "{error}");
}
