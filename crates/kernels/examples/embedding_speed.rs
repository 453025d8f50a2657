//! Times the kernels of an embedding on one core: `cargo run --release -p paceline-kernels --example embedding_speed -- LISTS ENTRIES ROWS COLUMNS`,
//! with so many indices in every list. Prints the least microseconds of a forward and of a backward pass. `bench/embedding/run` puts PyTorch beside it.

use paceline_base::kernel::{Arena, BufferId, Call, EmbeddingDims, Kernel, StepArgs, Values};
use paceline_base::random::{Stream, Use};
use paceline_base::sample::IndexWidth;
use paceline_base::units::DType;
use paceline_kernels::{Cpu, CpuOptions, Device};
use std::time::{Duration, Instant};

fn main() {
    let numbers: Option<Vec<usize>> = std::env::args().skip(1).map(|word| word.parse().ok()).collect();
    let Some([rows, each, table, columns]) = numbers.as_deref() else {
        eprintln!("give four numbers: lists, indices in each, rows and columns of the table");
        std::process::exit(2);
    };
    let (rows, each, table, columns) = (*rows, *each, *table, *columns);
    let dims = EmbeddingDims {
        rows,
        first: 0,
        table_rows: table,
        table,
        columns,
        entries: rows * each,
        expected: rows * each,
        width: IndexWidth::Bits32,
        mean: false,
    };
    let (forward, backward) = (Kernel::EmbeddingForward(dims), Kernel::EmbeddingBackward(dims));
    let lens = [dims.lists_len(), table * columns, rows * columns, rows * columns, table * columns];
    let elements =
        [forward.elements(0), forward.elements(1), forward.elements(2), backward.elements(0), backward.elements(2)];
    let mut cpu = Cpu::new(CpuOptions::default()).expect("a cpu");
    cpu.allocate(&Arena::packed(DType::F32, elements.into_iter().zip(lens))).expect("memory");
    let stream = Stream::new(1, Use::Data, 0, 0);
    let indices = (0..rows * each).map(|i| (stream.uniform(i as u64) * table as f64) as u32);
    let lists: Vec<u32> = (0..=rows).map(|row| (row * each) as u32).chain(indices).collect();
    cpu.load(BufferId(0), 0, Values::U32(&lists)).expect("lists");
    for buffer in [1, 3] {
        let values: Vec<f32> = (0..lens[buffer]).map(|i| (i % 1000) as f32 * 1e-3).collect();
        cpu.load(BufferId(buffer as u32), 0, Values::F32(&values)).expect("values");
    }
    let step = StepArgs { seed: 0, step: 0, rate: 0.0, scale: 1.0 };
    let mut least = |kernel: Kernel, args: [u32; 3]| {
        let call = Call { kernel, args: args.map(BufferId).to_vec() };
        let (begin, mut best) = (Instant::now(), f64::INFINITY);
        while begin.elapsed() < Duration::from_millis(200) {
            let from = Instant::now();
            cpu.submit(&call, &step).expect("a kernel");
            best = best.min(from.elapsed().as_secs_f64() * 1e6);
        }
        best
    };
    let (forward, backward) = (least(forward, [0, 1, 2]), least(backward, [3, 0, 4]));
    println!("{forward:.2} {backward:.2}");
}
