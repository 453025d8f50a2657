//! How fast the product of large matrices is on one core, beside the core's peak.
//!
//!     cargo run --release -p paceline-kernels --example gemm_speed [isa …] [n=2000]
//!
//! The processor time of this thread is taken, so that others on the same core do not count.

use paceline_kernels::Isa;
use paceline_kernels::cpu::{Gemm, peak_flops};
use std::time::{Duration, Instant};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let given = args.iter().find_map(|a| a.strip_prefix("n=")).map(|n| n.parse().expect("n=N"));
    let sizes = given.map_or(vec![96, 250, 500, 1000, 2000], |n| vec![n]);
    let named = |isa: &Isa| args.contains(&isa.to_string());
    let any = Isa::ALL.iter().any(named);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available() && (!any || named(isa))) {
        let mut gemm = Gemm::with_isa(isa).expect("room for panels");
        for &n in &sizes {
            let values = |salt: usize| (0..n * n).map(|i| ((i * 7919 + salt) % 1000) as f32 * 1e-3 - 0.5).collect();
            let (a, b): (Vec<f32>, Vec<f32>) = (values(1), values(2));
            let mut c = vec![0.0; n * n];
            // In turn, and medians: what runs on a neighbouring core slows both down alike.
            let (mut times, mut peaks) = (Vec::new(), Vec::new());
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(3) {
                let from = processor_time();
                gemm.add_product([n; 3], &a, &b, &mut c);
                times.push(processor_time() - from);
                peaks.push(peak_flops(isa).unwrap_or(f64::NAN));
            }
            let median = |values: &mut Vec<f64>| {
                values.sort_by(f64::total_cmp);
                values[values.len() / 2]
            };
            let flops = 2.0 * (n as f64).powi(3);
            let (usual, best) = (flops / median(&mut times), flops / times[0]);
            let share = 100.0 * usual / median(&mut peaks);
            println!("{isa} {n:5}  {:7.1} GFLOP/s, at best {:7.1}  {share:3.0} % of the peak", usual / 1e9, best / 1e9);
        }
    }
}

/// Seconds that this thread has computed.
fn processor_time() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}
