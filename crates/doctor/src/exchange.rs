//! How long ranks take to add up their numbers, by bytes, and how much slower they compute meanwhile: through the same `Comm` as training.

use crate::kernels::rounded;
use paceline_base::Result;
use paceline_comm::{Collective, Comm, GroupId, host, threads};
use paceline_kernels::cpu::Gemm;
use paceline_kernels::cpu::zeros;
use std::time::Instant;

/// How many sizes are measured, at most.
pub(crate) const POINTS: usize = 8;
/// Elements that are added up.
const SIZES: [usize; POINTS] = [3, 1 << 10, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23];
/// Times at least and at most, and the seconds after which no more are needed; and after which nothing larger is tried.
const TIMES: (usize, usize) = (5, 200);
const ENOUGH: f64 = 0.03;
const LONGEST: f64 = 0.15;
/// Elements of a usual bucket; how often computing beside it is measured, and how much it may lose at most.
const BUCKET: f64 = (1 << 21) as f64;
const REPEATS: usize = 5;
const LARGEST: f64 = 10.0;
/// Rows and columns of the product that is computed meanwhile: tens of microseconds.
const SIDE: usize = 96;

/// What was measured between two ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// Bytes and seconds.
    pub points: Vec<[f64; 2]>,
    /// Seconds of computing that are lost for each second of it.
    pub slows: f64,
}

/// Of two threads of this process.
pub(crate) fn of_threads() -> Result<Vec<[f64; 2]>> {
    let found: Vec<Result<Vec<[f64; 2]>>> = std::thread::scope(|scope| {
        let measured = |mut comm: paceline_comm::Threads| {
            let group = comm.group(&[0, 1])?;
            Pair { comm: &mut comm, group, seq: 0 }.points()
        };
        let running: Vec<_> = threads(2).into_iter().map(|comm| scope.spawn(move || measured(comm))).collect();
        let panicked = || Err(paceline_base::Error::internal("a measurement panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
    });
    found.into_iter().next().unwrap_or_else(|| Ok(Vec::new()))
}

/// Between two ranks, which both call it.
pub(crate) struct Pair<'a> {
    pub comm: &'a mut dyn Comm,
    pub group: GroupId,
    pub seq: u64,
}

impl Pair<'_> {
    /// Everything.
    pub(crate) fn measure(&mut self) -> Result<Exchange> {
        let points = self.points()?;
        let slows = self.slows(&points)?;
        Ok(Exchange { points, slows })
    }

    fn add_up(&mut self, elements: usize) -> Result<f64> {
        let data = zeros(elements)?;
        let begin = Instant::now();
        let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, data)?;
        self.seq += 1;
        self.comm.wait(ticket)?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// The mean of both ranks' values, on both.
    fn agree(&mut self, value: f64) -> Result<f64> {
        let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, host::stage(&[value]))?;
        self.seq += 1;
        Ok(host::values::<f64>(&self.comm.wait(ticket)?)[0] / 2.0)
    }

    fn points(&mut self) -> Result<Vec<[f64; 2]>> {
        let mut points = Vec::new();
        for elements in SIZES {
            let first = self.add_up(elements)?;
            let again = self.add_up(elements)?.min(first);
            let expected = self.agree(again)?;
            let times = ((ENOUGH / expected) as usize).clamp(TIMES.0, TIMES.1);
            let mut seconds = Vec::with_capacity(times);
            // One buffer for all: training has its buffers, and does not make them.
            let mut data = zeros(elements)?;
            for _ in 0..times {
                let begin = Instant::now();
                let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, data)?;
                self.seq += 1;
                data = self.comm.wait(ticket)?;
                seconds.push(begin.elapsed().as_secs_f64());
            }
            seconds.sort_by(f64::total_cmp);
            // The quicker quarter: whatever else runs only makes it slower.
            let typical = self.agree(seconds[seconds.len() / 4])?;
            points.push([4.0 * elements as f64, rounded(typical)]);
            if typical > LONGEST {
                break;
            }
        }
        Ok(points)
    }

    /// How much longer computing takes while numbers of the size of a bucket are added up, in relation to how long that takes by itself.
    fn slows(&mut self, points: &[[f64; 2]]) -> Result<f64> {
        let mut gemm = Gemm::new()?;
        let (a, b, mut c) = (vec![0.5; SIDE * SIDE], vec![0.5; SIDE * SIDE], vec![0.0; SIDE * SIDE]);
        let mut compute = |comm: &mut dyn Comm, times: usize| -> Result<f64> {
            let begin = Instant::now();
            for _ in 0..times {
                gemm.add_product([SIDE; 3], &a, &b, &mut c);
                comm.progress()?;
            }
            Ok(begin.elapsed().as_secs_f64())
        };
        let usual = points.iter().rev().find(|p| p[0] <= 4.0 * BUCKET && p[1] < LONGEST / 2.0);
        let Some(&[bytes, length]) = usual else { return Ok(0.0) };
        let elements = (bytes / 4.0) as usize;
        compute(self.comm, 50)?;
        let one = compute(self.comm, 50)? / 50.0;
        // Long enough that it ends meanwhile, also if it gets only some of the cores' time.
        let times = self.agree(4.0 * length / one)?.max(1.0) as usize;
        // The quickest of each: whatever else runs only makes both longer, and their difference uncertain.
        let (mut alone, mut beside) = (f64::INFINITY, f64::INFINITY);
        let mut data = zeros(elements)?;
        for _ in 0..REPEATS {
            self.agree(0.0)?;
            alone = alone.min(compute(self.comm, times)?);
            self.agree(0.0)?;
            let begin = Instant::now();
            let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, data)?;
            self.seq += 1;
            compute(self.comm, times)?;
            data = self.comm.wait(ticket)?;
            beside = beside.min(begin.elapsed().as_secs_f64());
        }
        let lost = (beside - alone) / length;
        Ok(rounded(self.agree(lost)?.clamp(0.0, LARGEST)))
    }
}
