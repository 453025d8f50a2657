//! How long ranks take to add up their numbers, by bytes, and how much slower they compute meanwhile: through the same `Comm` as training.

use crate::kernels::rounded;
use paceline_base::{Result, Staging};
use paceline_comm::{Collective, Comm, GroupId, host, threads};
use paceline_kernels::cpu::Gemm;
use paceline_kernels::cpu::zeros;
use std::time::Instant;

/// How many sizes are measured, at most.
pub(crate) const POINTS: usize = 8;
/// Elements that are added up.
const SIZES: [usize; POINTS] = [3, 1 << 10, 1 << 13, 1 << 15, 1 << 17, 1 << 19, 1 << 21, 1 << 23];
/// Times at least and at most, and the seconds after which no more are needed; and after which nothing larger is tried.
const TIMES: (usize, usize) = (4, 200);
const ENOUGH: f64 = 0.03;
const LONGEST: f64 = 0.15;
/// Rows and columns of the product that is computed meanwhile: tens of microseconds.
const SIDE: usize = 96;

/// What was measured between two ranks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exchange {
    /// Bytes and seconds.
    pub points: Vec<[f64; 2]>,
    /// Share of computing that is lost meanwhile.
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

/// Reads and writes all numbers.
fn touch(data: &mut Staging) {
    for number in data.bytes_mut().as_chunks_mut::<4>().0 {
        *number = (f32::from_ne_bytes(*number) + 1.0).to_ne_bytes();
    }
    std::hint::black_box(data);
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
            let (mut seconds, mut own) = (Vec::with_capacity(times), Vec::with_capacity(times));
            // One buffer for all: training has its buffers, and does not make them. Between two exchanges it is read and written, as gradients and
            // parameters are: what comes out of another core's cache costs its reader, too.
            let mut data = zeros(elements)?;
            for _ in 0..times {
                touch(&mut data);
                let begin = Instant::now();
                touch(&mut data);
                own.push(begin.elapsed().as_secs_f64());
                let begin = Instant::now();
                let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, data)?;
                self.seq += 1;
                data = self.comm.wait(ticket)?;
                touch(&mut data);
                seconds.push(begin.elapsed().as_secs_f64());
            }
            let typical = |mut times: Vec<f64>| {
                times.sort_by(f64::total_cmp);
                times[times.len() * 2 / 5]
            };
            let (whole, own) = (typical(seconds), typical(own));
            let typical = self.agree((whole - own).max(whole / 4.0))?;
            points.push([4.0 * elements as f64, rounded(typical)]);
            if typical > LONGEST {
                break;
            }
        }
        Ok(points)
    }

    /// How much of three times its length computing loses while numbers are added up, in relation to that length.
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
        // The largest that does not take long, where links are busy for most of the time.
        let Some(&[bytes, length]) = points.iter().rev().find(|p| p[1] < LONGEST / 2.0) else { return Ok(0.0) };
        let elements = (bytes / 4.0) as usize;
        compute(self.comm, 50)?;
        let one = compute(self.comm, 50)? / 50.0;
        let times = self.agree(3.0 * length / one)?.max(1.0) as usize;
        let mut lost = Vec::new();
        for _ in 0..3 {
            self.agree(0.0)?;
            let alone = compute(self.comm, times)?;
            self.agree(0.0)?;
            let data = zeros(elements)?;
            let begin = Instant::now();
            let ticket = self.comm.start(Collective::AllReduce.into(), self.group, self.seq, data)?;
            self.seq += 1;
            compute(self.comm, times)?;
            self.comm.wait(ticket)?;
            lost.push((begin.elapsed().as_secs_f64() - alone) / length);
        }
        lost.sort_by(f64::total_cmp);
        Ok(rounded(self.agree(lost[1])?.clamp(0.0, 0.95)))
    }
}
