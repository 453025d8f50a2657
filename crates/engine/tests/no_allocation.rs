//! Invariant 10: steady state allocates nothing on compute and communication threads.
//!
//! The counter is the process's, so this is a program of its own (`harness = false`): the threads of the test harness
//! allocate now and then, and would be counted.

mod common;

use common::Toy;
use paceline_base::kernel::StepArgs;
use paceline_base::optim::Rule;
use paceline_data::{Catalogue, ImagesInMemory, Labelled, Lists, Options, Order, Samples, Targets, Visits};
use paceline_engine::checkpoint::initialize;
use paceline_engine::{Batch, Rank};
use paceline_graph::{Graph, presets};
use paceline_kernels::{Cpu, CpuOptions, Device};
use paceline_plan::{Batches, OpPlan, Plan, Settings, lower};
use paceline_prepare::feed::{Augment, Feed, FeedOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

/// Counts every allocation of the process while `COUNTING` is on.
struct Counter;

static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all work is done by the system's allocator; this only counts.
unsafe impl GlobalAlloc for Counter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTING.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counter = Counter;

fn same(row: usize) -> usize {
    row
}

/// Images of bytes that a worker thread makes ready, as it does for samples that must be decoded. One worker: a second
/// could be held up until after the counting has begun, and take its scratch memory then.
fn feed(ranks: usize) -> Feed {
    let options = Options { seed: 1, ..Options::default() };
    let set = Catalogue::with_cache("nowhere").open("fake:6x6:10:100", &options).unwrap();
    let source = ImagesInMemory::new(set.train.memory().unwrap().clone()).unwrap();
    let len = source.len();
    let augment = Augment { flip: true, crop: 0.5, contrast: 0.2, ..Augment::default() };
    let options = FeedOptions {
        visits: Visits::all(Order::new(len, 1)),
        augment: Some((augment, 1)),
        threads: 1,
        rows: 90,
        ranks: 0..ranks,
        start: 0,
        end: u64::MAX,
    };
    Feed::new(Arc::new(source), options).unwrap()
}

fn mlp() -> Graph {
    let layers = presets::mlp(&[32, 16], paceline_base::op::Activation::Relu, 0.2);
    Graph::build("mlp", &layers, &[6, 6], 10, 0.001).unwrap()
}

fn allocations(graph: &Graph, plan: &Plan, threads: usize, fed: bool) -> usize {
    let data = Toy::new(100, &graph.nodes[0].shape, graph.targets.outputs());
    allocations_on(graph, plan, threads, fed, &data)
}

fn allocations_on(graph: &Graph, plan: &Plan, threads: usize, fed: bool, data: &dyn Samples) -> usize {
    let rule = Rule::Adam { beta1: 0.9, beta2: 0.999, eps: 1e-8 };
    let device = || Cpu::new(CpuOptions { threads, ..CpuOptions::default() }).unwrap();
    let batches = Batches { train: vec![32, 4], evaluate: vec![50] };
    let lists = common::room(data);
    let settings = Settings { defer_updates: true, lists, ..Settings::new(rule, device().kind()) };
    let schedule = Arc::new(lower(graph, plan, &batches, &settings).unwrap());
    let feed = fed.then(|| feed(plan.ranks));
    // This thread allocates while it starts the others: they begin when it is done.
    let started = Barrier::new(plan.ranks + 1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = paceline_comm::threads(plan.ranks)
            .into_iter()
            .map(|comm| {
                let (data, schedule, feed, started) = (data, schedule.clone(), feed.as_ref(), &started);
                scope.spawn(move || {
                    started.wait();
                    let mut rank = Rank::new(device(), comm, schedule).unwrap();
                    initialize(&mut rank, graph, 3).unwrap();
                    let mut position = 0;
                    for step in 0..60u64 {
                        // Every kind of step: full, last partial, evaluation.
                        let phase = (step % 3) as usize;
                        let count = rank.schedule.phases[phase].samples;
                        if step == 30 && rank.number() == 0 {
                            COUNTING.store(true, Ordering::SeqCst);
                        }
                        let batch = match feed {
                            Some(feed) => Batch::supplied(feed, position, count),
                            None => Batch::new(data, &same),
                        };
                        position += count as u64;
                        let args = StepArgs { seed: 1, step, rate: 0.01, scale: 1.0 / count as f64 };
                        rank.step(phase, &batch, &args).unwrap();
                        assert!(rank.poll_metrics().unwrap().is_some());
                        if step % 4 == 3 {
                            rank.drain().unwrap();
                        }
                    }
                    if rank.number() == 0 {
                        COUNTING.store(false, Ordering::SeqCst);
                    }
                    // Nobody leaves (and frees, or joins) while rank 0 still counts.
                    let batch = Batch::new(data, &same);
                    let args = StepArgs { seed: 1, step: 60, rate: 0.01, scale: 1.0 / 32.0 };
                    rank.step(0, &batch, &args).unwrap();
                })
            })
            .collect();
        started.wait();
        handles.into_iter().for_each(|h| h.join().unwrap());
    });
    COUNT.swap(0, Ordering::SeqCst)
}

fn main() {
    COUNTING.store(true, Ordering::SeqCst);
    drop(std::hint::black_box(vec![1u8; 100]));
    COUNTING.store(false, Ordering::SeqCst);
    assert!(COUNT.swap(0, Ordering::SeqCst) > 0, "the counter counts");

    assert_eq!(allocations(&mlp(), &Plan::data_parallel(1), 1, false), 0, "single");
    assert_eq!(allocations(&mlp(), &Plan::data_parallel(1), 2, false), 0, "single, two threads");
    assert_eq!(allocations(&mlp(), &Plan::data_parallel(2), 1, false), 0, "mirrored");
    assert_eq!(allocations(&mlp(), &Plan::data_parallel(1), 1, true), 0, "single, fed");
    assert_eq!(allocations(&mlp(), &Plan::data_parallel(2), 1, true), 0, "mirrored, fed");
    let split = |name: &str| OpPlan { split: BTreeMap::from([(name.to_string(), 2)]), ranks: None };
    let mut hybrid = Plan::data_parallel(2);
    hybrid.operators.insert("hidden1".into(), split("out"));
    hybrid.operators.insert("hidden2".into(), split("in"));
    assert_eq!(allocations(&mlp(), &hybrid, 1, false), 0, "hybrid");
    assert_eq!(allocations(&mlp(), &hybrid, 1, true), 0, "hybrid, fed");
    let cnn = common::nets::net(common::nets::RESIDUAL, &[7, 6, 4]);
    assert_eq!(allocations(&cnn, &Plan::data_parallel(1), 2, false), 0, "convolutions, two threads");
    assert_eq!(allocations(&cnn, &Plan::data_parallel(2), 1, false), 0, "convolutions, mirrored");
    let mut rows = Plan::data_parallel(2);
    rows.operators.insert("c1".into(), split("height"));
    rows.operators.insert("c2".into(), split("width"));
    assert_eq!(allocations(&cnn, &rows, 1, false), 0, "convolutions with halos");
    let list = |i: u64| (0..i * 7 % 23).map(|k| (i + k * k) % 40).collect::<Vec<_>>();
    let numbers = Targets::numbers((0..100).map(|i| i as f32 / 100.0).collect(), 1).unwrap();
    let data = Lists::new((0..100).map(list), 40, numbers).unwrap();
    let text = "words embedding columns=6 mode=\"mean\"\nout dense units=1\nloss mean-squared-error";
    let graph = common::nets::net_for(text, &data.sample_kind());
    for ranks in 1..3 {
        assert_eq!(allocations_on(&graph, &Plan::data_parallel(ranks), 1, false, &data), 0, "lists, {ranks} ranks");
    }
    println!("a step allocates nothing ... ok");
}
