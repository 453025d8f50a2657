//! Pools on every device: against a naive computation and, over random shapes, against the reference.

mod suite;

use paceline_base::kernel::Kernel;
use paceline_base::window::{DEAD, PoolDims};
use proptest::prelude::*;
use suite::shapes::{any_pool, pool, pool_cases};
use suite::{STEP, Which, agree, as_codes, close, codes_of, run, run_all, values};

/// The values of each window with their places, from an image with an explicit frame of `None`.
fn gather(d: &PoolDims, x: &[f64]) -> Vec<Vec<(usize, f64)>> {
    let mut all = Vec::new();
    for n in 0..d.samples {
        let pixel = |y: isize, x_: isize, c: usize| {
            let inside = (0..d.height as isize).contains(&y) && (0..d.width as isize).contains(&x_);
            inside.then(|| x[((n * d.height + y as usize) * d.width + x_ as usize) * d.channels + c])
        };
        for (oy, ox) in (0..d.out_height).flat_map(|y| (0..d.out_width).map(move |x| (y, x))) {
            for c in 0..d.channels {
                let mut window = Vec::new();
                for place in 0..d.window[0] * d.window[1] {
                    let (wy, wx) = (place / d.window[1], place % d.window[1]);
                    let y = (oy * d.stride[0] + wy) as isize - d.pad[0] as isize;
                    let x = (ox * d.stride[1] + wx) as isize - d.pad[1] as isize;
                    window.extend(pixel(y, x, c).map(|v| (place, v)));
                }
                all.push(window);
            }
        }
    }
    all
}

#[test]
fn windows_are_what_they_should_be() {
    for dims in pool_cases() {
        let x = values(3, dims.input_len());
        let windows = gather(&dims, &x);
        let first_largest =
            |w: &Vec<(usize, f64)>| w.iter().copied().reduce(|a, b| if b.1 > a.1 { b } else { a }).unwrap();
        let (codes, y): (Vec<u8>, Vec<f64>) = windows.iter().map(first_largest).map(|(p, v)| (p as u8, v)).unzip();
        let average: Vec<f64> = windows.iter().map(|w| w.iter().map(|w| w.1).sum::<f64>() / 5.0).collect();
        for which in Which::all() {
            let buffers = [x.clone(), vec![5.0; y.len()], vec![5.0; dims.codes_len()]];
            let got = run(which, Kernel::MaxPool { dims, codes: true }, &buffers, &STEP);
            close(&format!("{which:?} {dims:?}"), &got[1], &y, 0.0);
            assert_eq!(codes_of(&got[2]), codes, "{which:?} {dims:?}");
            let got = run(which, Kernel::MaxPool { dims, codes: false }, &buffers[..2], &STEP);
            close(&format!("{which:?} {dims:?} without codes"), &got[1], &y, 0.0);
            let got = run(which, Kernel::AveragePool { dims, divisor: 5 }, &buffers[..2], &STEP);
            close(&format!("{which:?} average {dims:?}"), &got[1], &average, which.tolerance(y.len()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn maxima(dims in any_pool(), seed in 0u64..1000) {
        // 0 x, 1 y, 2 codes, 3 dy, 4 dx. Few different values, so that there are ties.
        let x: Vec<f64> = values(seed, dims.input_len()).iter().map(|x| (x * 3.0).round()).collect();
        let (y, dy) = (vec![5.0; dims.output_len()], values(seed + 1, dims.output_len()));
        let buffers = [x, y.clone(), vec![5.0; dims.codes_len()], dy, vec![5.0; dims.input_len()]];
        let calls = [
            (Kernel::MaxPool { dims, codes: true }, vec![0, 1, 2]),
            (Kernel::MaxPoolBackward { dims }, vec![3, 2, 4]),
        ];
        let expected = agree(&format!("{dims:?}"), &calls, &buffers, &[1, 4], 1);
        let codes = codes_of(&expected[2]);
        for which in Which::cpus() {
            let got = run_all(which, &calls, &buffers, &STEP);
            prop_assert_eq!(&codes_of(&got[2]), &codes, "{:?} {:?}", which, dims);
        }
    }

    #[test]
    fn averages(dims in any_pool(), seed in 0u64..1000, divisor in 1usize..20) {
        let buffers = [
            values(seed, dims.input_len()), vec![5.0; dims.output_len()],
            values(seed + 1, dims.output_len()), vec![5.0; dims.input_len()],
        ];
        let calls = [
            (Kernel::AveragePool { dims, divisor }, vec![0, 1]),
            (Kernel::AveragePoolBackward { dims, divisor }, vec![2, 3]),
        ];
        agree(&format!("{dims:?} over {divisor}"), &calls, &buffers, &[1, 3], 16);
    }
}

#[test]
fn whole_images_are_averaged_exactly_enough() {
    for channels in [1, 3, 10, 16, 40, 128] {
        let dims = pool([2, 56, 56, channels], [56, 56], [1, 1], [0, 0]);
        // Far from zero: what a long sum in f32 gets wrong.
        let x: Vec<f64> = values(1, dims.input_len()).iter().map(|x| (x + 100.0) as f32 as f64).collect();
        let mut expected = vec![0.0; 2 * channels];
        for (at, x) in x.iter().enumerate() {
            expected[at / (56 * 56 * channels) * channels + at % channels] += x / (56.0 * 56.0);
        }
        for which in Which::all() {
            let kernel = Kernel::AveragePool { dims, divisor: 56 * 56 };
            let got = run(which, kernel, &[x.clone(), vec![0.0; 2 * channels]], &STEP);
            close(&format!("{which:?} {channels} channels"), &got[1], &expected, 5e-6);
        }
    }
}

#[test]
fn nan_wins_and_of_equal_values_the_first() {
    let (nan, low) = (f64::NAN, f64::NEG_INFINITY);
    for (window, best, code) in [
        ([1.0, 2.0, 2.0, 0.0], 2.0, 1),
        ([3.0, nan, 4.0, nan], nan, 1),
        ([nan, 9.0, 9.0, 9.0], nan, 0),
        ([low, low, low, low], low, 0),
        ([-0.0, 0.0, 0.0, -0.0], 0.0, 0),
        ([1.0, 2.0, 3.0, nan], nan, 3),
    ] {
        for channels in [1, 5, 8, 16, 19] {
            let dims = pool([1, 2, 2, channels], [2, 2], [2, 2], [0, 0]);
            let x: Vec<f64> = window.iter().flat_map(|v| std::iter::repeat_n(*v, channels)).collect();
            for which in Which::all() {
                let buffers = [x.clone(), vec![5.0; channels], vec![5.0; dims.codes_len()]];
                let got = run(which, Kernel::MaxPool { dims, codes: true }, &buffers, &STEP);
                close(&format!("{which:?} {window:?}"), &got[1], &vec![best; channels], 0.0);
                assert_eq!(codes_of(&got[2]), vec![code; channels], "{which:?} {window:?}");
            }
        }
    }
}

#[test]
fn a_window_outside_the_image_is_dead() {
    // Three windows of one, of which the last lies behind the image.
    let dims = PoolDims { out_width: 3, ..pool([1, 1, 2, 3], [1, 1], [1, 1], [0, 0]) };
    for which in Which::all() {
        let buffers = [values(1, 6), vec![5.0; 9], vec![5.0; 9]];
        let got = run(which, Kernel::MaxPool { dims, codes: true }, &buffers, &STEP);
        assert_eq!(codes_of(&got[2])[6..], [DEAD; 3], "{which:?}");
        assert_eq!(got[1][6..], [f64::NEG_INFINITY; 3], "{which:?}");
    }
}

#[test]
fn dead_maxima_give_nothing_back() {
    for channels in [1, 3, 8, 16, 21] {
        let dims = pool([1, 2, 4, channels], [2, 2], [2, 2], [0, 0]);
        let codes: Vec<u8> = (0..2 * channels).map(|i| if i % 3 == 0 { DEAD } else { (i % 4) as u8 }).collect();
        let dy = values(2, 2 * channels);
        let mut dx = vec![0.0; 8 * channels];
        for (i, code) in codes.iter().enumerate().filter(|(_, code)| **code != DEAD) {
            let (wy, wx) = (usize::from(*code) / 2, usize::from(*code) % 2);
            dx[(wy * 4 + i / channels * 2 + wx) * channels + i % channels] = dy[i];
        }
        for which in Which::all() {
            let buffers = [dy.clone(), as_codes(&codes), vec![5.0; dx.len()]];
            let got = run(which, Kernel::MaxPoolBackward { dims }, &buffers, &STEP);
            close(&format!("{which:?} {channels} channels"), &got[2], &dx, 0.0);
        }
    }
}
