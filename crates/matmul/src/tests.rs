//! Whole products on threads, against the definition in f64.

use crate::factor::Factor;
use crate::*;
use paceline_base::Kind;
use proptest::prelude::*;
use std::path::Path;

fn run(options: &MatmulOptions) -> Result<MatmulReport> {
    matmul(options, &mut World::alone(), &|_, _| {}, &false.into())
}

fn read(path: &Path, n: usize) -> Vec<f32> {
    let mut all = vec![0.0; n * n];
    Npy::open(path).unwrap().read((0, 0), [n, n], &mut all).unwrap();
    all
}

/// A made factor, whole.
fn made(n: usize, seed: u64, matrix: u32) -> Vec<f64> {
    let mut all = vec![0.0; n * n];
    Factor::Made { seed, matrix }.fill(&Blocks { n, block: n }, (0, 0), &mut all).unwrap();
    all.into_iter().map(f64::from).collect()
}

fn naive(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let element = |at: usize| (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum();
    (0..n * n).map(element).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_cut_over_any_ranks_gives_the_product(
        n in 1usize..70,
        block in 1usize..40,
        ranks in 1usize..=6,
        layout in prop::sample::select(Layout::ALL.to_vec()),
        keeping in prop::sample::select(vec![Keeping::Stored, Keeping::Fresh]),
        square in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("c.npy");
        let product = if square { Product::Aa } else { Product::Ab };
        let options = MatmulOptions {
            n: Some(n), block: Some(block), ranks: Some(ranks), layouts: vec![layout], keeping: Some(keeping), product, seed,
            out: Some(out.clone()), ..MatmulOptions::default()
        };
        let report = run(&options).unwrap();
        let a = made(n, seed, 0);
        let b = if square { a.clone() } else { made(n, seed, 1) };
        let exact = naive(n, &a, &b);
        for (got, exact) in read(&out, n).into_iter().zip(&exact) {
            prop_assert!((f64::from(got) - exact).abs() < 1e-6 * n as f64, "{got} {exact}");
        }
        let this = report.layouts.iter().find(|l| l.layout == layout).unwrap();
        let done = this.run.as_ref().unwrap();
        prop_assert!(done.verified.as_ref().unwrap().right);
        let trace: f64 = (0..n).map(|i| exact[i * n + i]).sum();
        prop_assert!((done.trace - trace).abs() < 1e-5 * n as f64, "{} {trace}", done.trace);
        let predicted: Vec<u64> = this.ranks.iter().map(|b| b.received_bytes).collect();
        prop_assert_eq!(&done.received_bytes, &predicted, "predicted bytes are the bytes that moved");
        prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn the_trace_needs_no_product(n in 1usize..60, block in 1usize..30, ranks in 1usize..=6, seed in any::<u64>()) {
        let options = MatmulOptions {
            n: Some(n), block: Some(block), ranks: Some(ranks), layouts: Layout::ALL.to_vec(), product: Product::Trace, seed,
            ..MatmulOptions::default()
        };
        let report = run(&options).unwrap();
        let a = made(n, seed, 0);
        let exact: f64 = (0..n * n).map(|at| a[at] * a[at % n * n + at / n]).sum();
        for layout in &report.layouts {
            let done = layout.run.as_ref().unwrap();
            prop_assert!((done.trace - exact).abs() < 1e-9 * (1.0 + exact.abs()), "{} {exact}", done.trace);
            prop_assert!(layout.layout == Layout::Summa || done.received_bytes.iter().all(|b| *b == 0));
        }
        prop_assert!(report.reasons.iter().any(|r| r.contains("the product is not needed")));
    }
}

#[test]
fn a_wrong_element_is_found() {
    for inject in [None, Some(1.0), Some(f32::NAN)] {
        let options =
            MatmulOptions { n: Some(120), block: Some(50), ranks: Some(3), inject, ..MatmulOptions::default() };
        let report = run(&options).unwrap();
        let verified = report.layouts[0].run.as_ref().unwrap().verified.clone().unwrap();
        assert_eq!(verified.right, inject.is_none(), "{inject:?}: {verified:?}");
        if inject.is_some() {
            assert_eq!(verified.row, 0);
        } else {
            assert!(
                verified.worst < 0.9 && verified.computed_again == 0,
                "rounding stays below the tolerance: {verified:?}"
            );
        }
    }
}

#[test]
fn sums_that_only_grow_are_within_the_tolerance() {
    // The worst case for rounding: all elements positive, none representable exactly.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ones.npy");
    let n = 400;
    Npy::create(&path, (n, n)).unwrap().write((0, 0), n, &vec![1.1; n * n]).unwrap();
    let options = MatmulOptions {
        a: Some(path.clone()),
        b: Some(path),
        block: Some(150),
        ranks: Some(2),
        ..MatmulOptions::default()
    };
    let verified = run(&options).unwrap().layouts[0].run.as_ref().unwrap().verified.clone().unwrap();
    assert!(verified.right, "{verified:?}");
}

fn verified(options: &MatmulOptions) -> Verified {
    run(options).unwrap().layouts[0].run.as_ref().unwrap().verified.clone().unwrap()
}

#[test]
fn a_flipped_bit_of_one_element_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for (n, block, ranks) in [(120, 50, 3), (300, 100, 2), (257, 64, 1)] {
        let options = MatmulOptions { n: Some(n), block: Some(block), ranks: Some(ranks), ..MatmulOptions::default() };
        let out = folder.path().join(format!("{n}.npy"));
        run(&MatmulOptions { out: Some(out.clone()), ..options.clone() }).unwrap();
        let element = read(&out, n)[0];
        // An element of the usual size; the lowest bits are what rounding decides.
        assert!(element.abs() > 0.1, "{element}");
        for bit in 12..31 {
            let flipped = f32::from_bits(element.to_bits() ^ (1 << bit));
            let found = verified(&MatmulOptions { inject: Some(flipped - element), ..options.clone() });
            assert!(!found.right && found.row == 0, "bit {bit} of {element} at n = {n}: {found:?}");
            assert!(found.column.is_none_or(|c| c == 0), "{found:?}");
        }
    }
}

/// The product of two matrices given by their elements; it must be taken for right.
fn is_right(n: usize, a: impl Fn(usize, usize) -> f64, b: impl Fn(usize, usize) -> f64) -> Verified {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, element: &dyn Fn(usize, usize) -> f64| {
        let path = folder.path().join(name);
        let values: Vec<f32> = (0..n * n).map(|at| element(at / n, at % n) as f32).collect();
        Npy::create(&path, (n, n)).unwrap().write((0, 0), n, &values).unwrap();
        Some(path)
    };
    let options = MatmulOptions {
        a: write("a.npy", &a),
        b: write("b.npy", &b),
        block: Some(90),
        ranks: Some(2),
        ..MatmulOptions::default()
    };
    let found = verified(&options);
    assert!(found.right, "{found:?}");
    found
}

#[test]
fn right_products_of_ill_scaled_matrices_pass() {
    let noise = |i: usize, j: usize| ((i * 7919 + j * 104_729) % 2003) as f64 / 1001.0 - 1.0;
    let n = 300;
    // Rows and columns of very different sizes, down to where f32 loses its bits.
    is_right(
        n,
        |i, j| noise(i, j) * 10f64.powi(i as i32 % 37 - 18),
        |i, j| noise(j, i) * 10f64.powi(j as i32 % 37 - 18),
    );
    // Terms of very different sizes in one sum.
    is_right(n, |i, k| noise(i, k) * 10f64.powi(k as i32 % 13 - 6), noise);
    // Sums that grow, and cancel at the end.
    is_right(n, |i, k| if k < n / 2 { 1.0 + noise(i, k) / 9.0 } else { -1.0 }, |k, j| 1.0 + noise(k, j) / 1e6);
    // Roundings that all go the same way, and powers of two that need none.
    is_right(n, |_, _| 1.1, |_, _| 1.3);
    is_right(n, |_, _| 0.7, |_, _| -1e-3);
    assert_eq!(is_right(n, |_, _| 2.0, |_, _| 0.5).worst, 0.0);
    is_right(n, |i, k| if i == k { 1.0 } else { 0.0 }, noise);
    is_right(n, |_, _| 0.0, noise);
}

#[test]
fn a_wrong_product_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = Some(folder.path().join("c.npy"));
    let base = MatmulOptions { n: Some(80), block: Some(30), ranks: Some(2), out, ..MatmulOptions::default() };
    for inject in [1.0, f32::NAN] {
        assert!(!verified(&MatmulOptions { inject: Some(inject), ..base.clone() }).right);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "neither under its name nor another");
    }
    assert!(verified(&base).right);
    assert!(folder.path().join("c.npy").exists());
}

#[test]
fn what_a_killed_job_left_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".c.npy.4242.tmp"), "half").unwrap();
    let out = Some(folder.path().join("c.npy"));
    run(&MatmulOptions { n: Some(20), ranks: Some(1), out, ..MatmulOptions::default() }).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

fn refused(options: MatmulOptions, expected: &str) {
    let error = run(&options).expect_err(expected);
    assert!(error.message().contains(expected), "{error}");
    assert_eq!(error.kind(), Kind::User);
}

#[test]
fn wrong_input_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    Npy::create(&path("a.npy"), (20, 20)).unwrap();
    Npy::create(&path("b.npy"), (30, 30)).unwrap();
    Npy::create(&path("wide.npy"), (20, 30)).unwrap();
    Npy::create(&path("empty.npy"), (0, 0)).unwrap();
    let base = || MatmulOptions { n: Some(40), ranks: Some(2), ..MatmulOptions::default() };
    let file = |name: &str| MatmulOptions { n: None, a: Some(path(name)), ..base() };
    refused(MatmulOptions { n: None, ..base() }, "give n");
    refused(MatmulOptions { n: Some(0), ..base() }, "n is 0");
    refused(MatmulOptions { n: Some(2_000_000), ..base() }, "more than a million");
    refused(MatmulOptions { block: Some(0), ..base() }, "block is 0");
    refused(MatmulOptions { n: Some(5000), block: Some(1), ..base() }, "block 10 or more");
    refused(MatmulOptions { ranks: Some(0), ..base() }, "no ranks");
    refused(MatmulOptions { layouts: vec![], ..base() }, "no layout");
    refused(file("wide.npy"), "20×30; only square");
    refused(file("empty.npy"), "without elements");
    refused(file("absent.npy"), "no such file");
    refused(MatmulOptions { b: Some(path("b.npy")), ..file("a.npy") }, "different sizes: 20 and 30");
    refused(MatmulOptions { n: Some(40), ..file("a.npy") }, "different sizes: 20 and 40");
    refused(MatmulOptions { b: Some(path("a.npy")), product: Product::Aa, ..file("a.npy") }, "leave b out");
    refused(MatmulOptions { out: Some(path("a.npy")), ..base() }, "exists");
    refused(MatmulOptions { out: Some(path("absent/c.npy")), ..base() }, "no such file or folder");
    refused(MatmulOptions { out: Some(path("c.npy")), product: Product::Trace, ..base() }, "no product to write");
    refused(MatmulOptions { memory: Some(1000), ..base() }, "memory allows");
    let limit = MatmulOptions { n: Some(1200), block: Some(100), memory: Some(24_000_000), ..base() };
    refused(MatmulOptions { keeping: Some(Keeping::Stored), ..limit.clone() }, "keeping fresh takes");
    assert_eq!(run(&limit).unwrap().keeping, Keeping::Fresh, "without a wish, factors that do not fit are made anew");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left behind");
}

#[test]
fn a_stopped_product_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = Some(folder.path().join("c.npy"));
    let options = MatmulOptions { n: Some(50), block: Some(20), ranks: Some(3), out, ..MatmulOptions::default() };
    let error = matmul(&options, &mut World::alone(), &|_, _| {}, &true.into()).unwrap_err();
    assert!(error.message().contains("stopped"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
