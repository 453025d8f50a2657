//! The order of samples: a bijection for every size, without visible bias, and never silently another one.

use crate::Order;
use proptest::prelude::*;
use std::collections::HashMap;

fn check_bijection(n: usize, seed: u64, epoch: u64) {
    let order = Order::new(n, seed);
    let mut seen = vec![false; n];
    for position in 0..n {
        let index = order.at(epoch, position);
        assert!(!std::mem::replace(&mut seen[index], true), "n {n} seed {seed} epoch {epoch}: {index} twice");
    }
}

#[test]
fn small_sizes_are_bijections() {
    for n in 0..200 {
        check_bijection(n, 5, 0);
        check_bijection(n, u64::MAX, u64::MAX);
    }
    for n in [1023, 1024, 1025, 4095, 4096, 60_000, 65_535, 65_536, 65_537] {
        check_bijection(n, 1, 2);
    }
    assert!(Order::new(0, 1).len() == 0);
    assert_eq!(Order::new(1, 9).at(3, 0), 0);
}

proptest! {
    #[test]
    fn any_size_is_a_bijection(n in 0usize..5000, seed in any::<u64>(), epoch in any::<u64>()) {
        check_bijection(n, seed, epoch);
    }

    #[test]
    fn huge_sizes_stay_in_range(n in 1usize..1 << 48, seed in any::<u64>(), at in any::<prop::sample::Index>()) {
        prop_assert!(Order::new(n, seed).at(0, at.index(n)) < n);
    }
}

#[test]
fn sizes_beyond_32_bits_do_not_collide() {
    // Around the point where the reciprocal gives way to a true division.
    for n in [(1usize << 32) - 70_000, 1 << 32, (1 << 32) + 1, 1 << 40] {
        let order = Order::new(n, 3);
        let mut seen: Vec<usize> = (0..10_000).map(|i| order.at(0, n - 1 - i)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000, "n {n}");
    }
}

#[test]
fn epochs_and_seeds_differ() {
    let n = 1000;
    let orders: Vec<Vec<usize>> = [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0)]
        .map(|(seed, epoch)| (0..n).map(|p| Order::new(n, seed).at(epoch, p)).collect())
        .to_vec();
    for (i, a) in orders.iter().enumerate() {
        for b in &orders[..i] {
            // Two random permutations agree in one place on average.
            assert!(a.iter().zip(b).filter(|(x, y)| x == y).count() < 8);
        }
    }
}

/// The statistic of a table of counts that should be equal, minus its mean, in standard deviations.
fn chi_square(counts: &[usize], expected: f64) -> f64 {
    let chi: f64 = counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    (chi - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn no_bias_is_visible() {
    // Where positions of one sixteenth go, how far neighbours lie apart, and where one position goes over epochs.
    for n in [1000usize, 1024, 60_000, 65_536] {
        let order = Order::new(n, 11);
        let bucket = |x: usize| x * 16 / n;
        let (mut places, mut steps, mut first) = (vec![0; 256], vec![0; 16], vec![0; 16]);
        let epochs = 200_000_usize.div_ceil(n) as u64;
        for epoch in 0..epochs {
            for p in 0..n {
                let x = order.at(epoch, p);
                places[bucket(p) * 16 + bucket(x)] += 1;
                steps[bucket((order.at(epoch, (p + 1) % n) + n - x) % n)] += 1;
            }
        }
        for epoch in 0..32_000 {
            first[bucket(order.at(epoch, n / 3))] += 1;
        }
        // Bucket sizes differ by at most one sample in n / 16, which is far below the noise.
        let total = (epochs as usize * n) as f64;
        for (what, table, total) in [("places", places, total), ("steps", steps, total), ("epochs", first, 32_000.0)] {
            let deviation = chi_square(&table, total / table.len() as f64);
            assert!(deviation < 5.0, "n {n}: {what} off by {deviation:.1} standard deviations");
        }
    }
}

#[test]
fn tiny_sets_see_all_permutations() {
    for (n, factorial) in [(2, 2), (3, 6), (4, 24), (5, 120), (6, 720)] {
        let mut counts: HashMap<Vec<usize>, usize> = HashMap::new();
        let order = Order::new(n, 4);
        let draws = 1000 * factorial;
        for epoch in 0..draws as u64 {
            *counts.entry((0..n).map(|p| order.at(epoch, p)).collect()).or_default() += 1;
        }
        assert_eq!(counts.len(), factorial, "n {n}");
        let deviation = chi_square(&counts.into_values().collect::<Vec<_>>(), 1000.0);
        assert!(deviation < 5.0, "n {n}: off by {deviation:.1} standard deviations");
    }
}

#[test]
fn unshuffled_is_the_identity() {
    let order = Order::unshuffled(10);
    assert!(!order.is_shuffled());
    assert!((0..10).all(|p| order.at(p as u64, p) == p));
}

#[test]
#[should_panic(expected = "position 10 of an order of 10 samples")]
fn positions_beyond_the_end_panic() {
    Order::new(10, 0).at(0, 10);
}

/// The values were computed by a second implementation. If this fails, saved runs would resume with other samples: do not change the expected values, undo the change.
#[test]
fn the_order_never_changes() {
    let take = |n, seed, epoch| (0..6).map(|p| Order::new(n, seed).at(epoch, p)).collect::<Vec<_>>();
    assert_eq!(take(10, 0, 0), [5, 6, 0, 1, 2, 7]);
    assert_eq!(take(60_000, 42, 0), [1_755, 58_685, 20_161, 7_580, 2_409, 23_437]);
    assert_eq!(take(60_000, 42, 1), [9_680, 54_308, 14_421, 17_672, 12_335, 52_531]);
    assert_eq!(
        take(1 << 40, 7, 3),
        [681_049_037_507, 367_177_357_607, 428_250_368_067, 869_624_348_178, 916_577_752_471, 1_098_412_541_322]
    );
}
