//! Lists of indices on every device: sums over rows of a table, their gradient, what cannot be followed, and buffers whose length varies.

mod suite;

use paceline_base::Kind;
use paceline_base::kernel::{Arena, BufferId, Call, EmbeddingDims, Kernel, Slot, Values};
use paceline_base::op::Loss;
use paceline_base::sample::{IndexWidth, TargetKind};
use paceline_base::staging::{Lend, values as numbers_of};
use paceline_base::units::DType;
use proptest::prelude::*;
use suite::{STEP, Which, agree, close, run, values};

/// The buffer of some lists.
fn buffer(lists: &[Vec<u64>]) -> Vec<f64> {
    let ends = lists.iter().scan(0, |end, list| {
        *end += list.len();
        Some(*end as f64)
    });
    let indices = lists.iter().flatten().map(|index| *index as f64);
    std::iter::once(0.0).chain(ends).chain(indices).collect()
}

fn dims(
    lists: &[Vec<u64>],
    table: usize,
    rows: std::ops::Range<usize>,
    columns: usize,
    wide: bool,
    mean: bool,
) -> EmbeddingDims {
    EmbeddingDims {
        rows: lists.len(),
        first: rows.start,
        table_rows: rows.len(),
        table,
        columns,
        entries: lists.iter().map(Vec::len).sum(),
        expected: 0,
        width: if wide { IndexWidth::Bits64 } else { IndexWidth::Bits32 },
        mean,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sums_over_rows_and_their_gradient(
        lists in prop::collection::vec(prop::collection::vec(0u64..30, 0..9), 0..20),
        first in 0usize..30, columns in 1usize..40, seed in 0u64..1000, wide: bool, mean: bool,
    ) {
        let rows = first..30.min(first + 1 + seed as usize % 30);
        let d = dims(&lists, 30, rows.clone(), columns, wide, mean);
        let (w, dy) = (values(seed, d.table_rows * columns), values(seed + 1, d.rows * columns));
        let mut y = vec![0.0; d.rows * columns];
        let mut dw = vec![0.0; w.len()];
        for (i, list) in lists.iter().enumerate() {
            let factor = if mean { 1.0 / list.len() as f64 } else { 1.0 };
            for index in list.iter().map(|j| *j as usize).filter(|j| rows.contains(j)) {
                for c in 0..columns {
                    y[i * columns + c] += factor * w[(index - first) * columns + c];
                    dw[(index - first) * columns + c] += factor * dy[i * columns + c];
                }
            }
        }
        let buffers = [buffer(&lists), w.clone(), vec![5.0; y.len()], dy, vec![5.0; dw.len()]];
        let calls = [(Kernel::EmbeddingForward(d), vec![0, 1, 2]), (Kernel::EmbeddingBackward(d), vec![3, 0, 4])];
        let got = agree("embedding", &calls, &buffers, &[2, 4], 30);
        close("y", &got[2], &y, 1e-12);
        close("dw", &got[4], &dw, 1e-12);
    }

    #[test]
    fn losses_of_numbers_and_of_several_classes(rows in 0usize..90, each in 1usize..5, classes in 1usize..20, seed in 0u64..1000, gradient: bool) {
        let (y, t) = (values(seed, rows * each), values(seed + 1, rows * each));
        let mut args = vec![y.clone(), t.clone(), vec![1.0, 2.0, 3.0]];
        if gradient { args.push(vec![5.0; y.len()]); }
        let mean = |f: &dyn Fn(f64) -> f64| y.iter().zip(&t).map(|(y, t)| f(y - t)).sum::<f64>() / each as f64;
        let metrics = [1.0 + mean(&|d| d * d), 2.0 + mean(&f64::abs), 3.0 + rows as f64];
        let dy: Vec<f64> = y.iter().zip(&t).map(|(y, t)| 2.0 * (y - t) / each as f64 * STEP.scale).collect();
        for which in Which::all() {
            let kernel = Kernel::Loss { loss: Loss::MeanSquaredError, targets: TargetKind::Numbers { each }, rows, gradient };
            let got = run(which, kernel, &args, &STEP);
            let tolerance = if which == Which::Reference { 1e-9 } else { 3e-6 };
            close(&format!("{which:?}"), &got[2], &metrics, tolerance);
            if gradient { close(&format!("{which:?}"), &got[3], &dy, tolerance); }
        }
        // Several classes of a sample are as many samples with one class each, whose mean counts.
        let outputs = values(seed + 2, rows * each * classes);
        let labels: Vec<f64> = (0..rows * each).map(|r| ((r * 7 + seed as usize) % classes) as f64).collect();
        for loss in [Loss::SoftmaxCrossEntropy, Loss::MeanSquaredError] {
            let of = |rows: usize, each: usize| {
                let kernel = Kernel::Loss { loss, targets: TargetKind::Classes { classes, each }, rows, gradient: true };
                let args = vec![outputs.clone(), labels.clone(), vec![0.0; 3], vec![5.0; outputs.len()]];
                agree("loss", &[(kernel, vec![0, 1, 2, 3])], &args, &[2, 3], 30)
            };
            let (several, single) = (of(rows, each), of(rows * each, 1));
            let part = |values: &[f64]| values.iter().map(|x| x / each as f64).collect::<Vec<_>>();
            close("metrics", &several[2], &part(&single[2]), 1e-9);
            close("gradient", &several[3], &part(&single[3]), 1e-9);
        }
    }
}

/// A class that is none gives no loss; a buffer of lists that are none gives an error, and nothing beyond the table is read.
#[test]
fn what_cannot_be_followed_is_an_error() {
    let lists = vec![vec![1, 2], vec![0, 29]];
    let d = dims(&lists, 30, 0..30, 4, false, false);
    let good = buffer(&lists);
    let with = |at: usize, value: f64| {
        let mut changed = good.clone();
        changed[at] = value;
        changed
    };
    for which in Which::all() {
        for (elements, words, kind) in [
            (
                with(6, 30.0),
                "holds index 30, but the embedding's table has 30 rows; give it rows = 31 or more",
                Kind::User,
            ),
            (with(3, 4_294_967_295.0), "holds index 4294967295", Kind::User),
            (with(0, 1.0), "holds no 2 lists", Kind::Internal),
            (with(1, 9.0), "holds no 2 lists", Kind::Internal),
            (with(2, 5.0), "holds no 2 lists", Kind::Internal),
        ] {
            let mut device = which.make();
            let kernels = [Kernel::EmbeddingForward(d), Kernel::EmbeddingBackward(d)];
            let lens = [good.len(), 120, 8, 8, 120];
            let elements_of = [
                kernels[0].elements(0),
                kernels[0].elements(1),
                kernels[0].elements(2),
                kernels[1].elements(0),
                kernels[1].elements(2),
            ];
            device.allocate(&Arena::packed(device.dtype(), elements_of.into_iter().zip(lens))).unwrap();
            suite::load(&mut *device, BufferId(0), DType::U32, &elements);
            for (kernel, args) in kernels.into_iter().zip([[0, 1, 2], [3, 0, 4]]) {
                let call = Call { kernel, args: args.map(BufferId).to_vec() };
                let error = device.submit(&call, &STEP).expect_err("lists that are none");
                assert!(error.message().contains(words) && error.kind() == kind, "{which:?}: {error}");
            }
        }
    }
}

/// A buffer whose length varies is lent as long as what it holds, and is as long as what comes back.
#[test]
fn lengths_travel_with_loans() {
    for which in [Which::Reference, Which::cpus()[0]] {
        let mut device = which.make();
        let slot = Slot { varies: true, ..Slot::new(64, 10, DType::U32) };
        device.allocate(&Arena { bytes: 192, slots: vec![slot, Slot { at: 128, ..slot }] }).unwrap();
        let (here, there) = (BufferId(0), BufferId(1));
        device.load(here, 0, Values::U32(&[7, 8, 9])).unwrap();
        let sent = device.pack_now(here, Lend::Read).unwrap();
        assert_eq!(numbers_of::<u32>(&sent), [7, 8, 9], "{which:?}");
        let mut room = device.pack_now(there, Lend::Overwrite).unwrap();
        assert!(room.varies() && room.largest() == 10, "{which:?}");
        room.set_len(3);
        paceline_base::staging::values_mut::<u32>(&mut room).copy_from_slice(numbers_of(&sent));
        device.unpack(there, room).unwrap();
        device.unpack(here, sent).unwrap();
        let back = device.pack_now(there, Lend::Read).unwrap();
        assert_eq!(numbers_of::<u32>(&back), [7, 8, 9], "{which:?}");
        device.unpack(there, back).unwrap();
        device.load(here, 0, Values::U32(&[1; 10])).unwrap();
        assert_eq!(device.pack_now(here, Lend::Read).unwrap().len(), 10, "{which:?}");
    }
}

/// Values go only into a buffer of their type.
#[test]
fn values_of_another_type_are_refused() {
    for which in [Which::Reference, Which::cpus()[0]] {
        for (dtype, wrong) in
            [(DType::U32, Values::F64(&[1.0])), (DType::U8, Values::U32(&[1])), (DType::U64, Values::U32(&[1]))]
        {
            let mut device = which.make();
            device.allocate(&Arena { bytes: 64, slots: vec![Slot::new(0, 4, dtype)] }).unwrap();
            let load = std::panic::AssertUnwindSafe(|| device.load(BufferId(0), 0, wrong));
            assert!(std::panic::catch_unwind(load).is_err(), "{which:?} {dtype:?}");
        }
        let mut device = which.make();
        let other = if device.dtype() == DType::F32 { DType::F64 } else { DType::F32 };
        let error = device.allocate(&Arena { bytes: 64, slots: vec![Slot::new(0, 4, other)] }).unwrap_err();
        assert!(error.message().contains("computes in"), "{error}");
    }
}
