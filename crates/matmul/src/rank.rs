//! One rank at work: it sends what others need, receives what it needs, and multiplies meanwhile.
//!
//! While the products of step k run, the blocks of step k + 1 are on their way: there is room for two steps. A block that
//! several ranks need is sent to each from where it lies, without a copy.

use crate::blocks::{Blocks, Matrix, Piece, Placement, Product, Work};
use crate::check::{self, Norms, VECTORS, Verified};
use crate::cost::{Keeping, Speeds};
use crate::factor::Factor;
use crate::npy::Npy;
use crate::slab::Slab;
use paceline_base::Staging;
use paceline_base::random::{Stream, Use};
use paceline_base::{Error, Result};
use paceline_comm::{Collective, Comm, GroupId, Ticket, host};
use paceline_kernels::cpu::{Gemm, add_times_vectors, transposed_dot, zeros};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What all ranks work on.
pub(crate) struct Task<'a> {
    /// A, and B if there is one.
    pub factors: &'a [Factor],
    /// What becomes of them.
    pub keeping: Keeping,
    /// Decides the vectors of the check.
    pub seed: u64,
    /// Where the product goes.
    pub out: Option<&'a Npy>,
    /// Added to one element of the product before it is checked: proves that the check can fail.
    pub inject: Option<f32>,
    /// Set to end early.
    pub stop: &'a AtomicBool,
    /// Told of finished and all operations of this rank.
    pub progress: &'a (dyn Fn(f64, f64) + Sync),
}

/// What one run came to; the same on every rank.
pub(crate) struct Outcome {
    /// From the moment that all were ready to the moment that all were done.
    pub seconds: f64,
    /// Seconds until the blocks that are stored were made or read.
    pub made_seconds: f64,
    /// Seconds of each rank in products.
    pub computing: Vec<f64>,
    /// Seconds of each rank in which it waited for blocks.
    pub waiting: Vec<f64>,
    /// Seconds of each rank in which it copied blocks.
    pub copying: Vec<f64>,
    /// Bytes that each rank received.
    pub received: Vec<u64>,
    /// The trace of the product.
    pub trace: f64,
    /// What the check found; none for a trace alone.
    pub verified: Option<Verified>,
    /// Seconds of the check.
    pub check_seconds: f64,
}

/// The blocks of the product that a rank holds.
type Held = Slab<(usize, usize)>;

/// One rank of a product: it multiplies the blocks of its part, and sends and receives those that others need.
pub(crate) struct Rank {
    comm: Box<dyn Comm>,
    all: GroupId,
    seq: u64,
    gemm: Gemm,
    /// Room that arrived blocks no longer need.
    free: Vec<Staging>,
}

/// Blocks on their way for one step.
#[derive(Default)]
struct Underway {
    incoming: Vec<(Piece, Ticket)>,
    outgoing: Vec<host::Sending>,
}

impl Rank {
    /// A rank among all of `comm`.
    pub(crate) fn new(mut comm: Box<dyn Comm>) -> Result<Self> {
        let everybody: Vec<usize> = (0..comm.size()).collect();
        let all = comm.group(&everybody)?;
        Ok(Self { comm, all, seq: 0, gemm: Gemm::new()?, free: Vec::new() })
    }

    /// Tells the others that this rank gives up.
    pub(crate) fn abort(&mut self, why: &str) {
        self.comm.abort(why);
    }

    /// The sums over all ranks.
    pub(crate) fn sum(&mut self, values: &[f64]) -> Result<Vec<f64>> {
        let ticket = self.comm.start(Collective::AllReduce.into(), self.all, self.seq, host::stage(values))?;
        self.seq += 1;
        Ok(host::values::<f64>(&self.comm.wait(ticket)?).to_vec())
    }

    /// The values of each rank, rank by rank.
    fn collect<const N: usize>(&mut self, mine: [f64; N]) -> Result<Vec<[f64; N]>> {
        let mut all = vec![0.0; N * self.comm.size()];
        all[N * self.comm.rank()..][..N].copy_from_slice(&mine);
        Ok(self.sum(&all)?.as_chunks::<N>().0.to_vec())
    }

    /// Returns when all are here.
    fn meet(&mut self) -> Result<()> {
        self.sum(&[0.0]).map(drop)
    }

    /// What the ranks can do, all at once; the slowest counts.
    pub(crate) fn measure(&mut self, placement: &Placement, task: &Task<'_>, overlap: bool) -> Result<Speeds> {
        let side = placement.blocks.extent(0).min(1500);
        let (mut a, b, mut c) = (vec![0.5; side * side], vec![0.5; side * side], vec![0.0; side * side]);
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        // Blocks of some size take their time; small ones are repeated.
        let repeats = (2e8 / (side as f64).powi(3)).clamp(1.0, 1000.0) as usize;
        self.meet()?;
        let mut times = Vec::new();
        for _ in 0..4 {
            let begin = Instant::now();
            for _ in 0..repeats {
                if placement.product == Product::Trace {
                    std::hint::black_box(transposed_dot([side; 2], &a, &b));
                } else {
                    self.gemm.add_product([side; 3], &a, &b, &mut c);
                }
            }
            times.push(begin.elapsed().as_secs_f64() / repeats as f64);
        }
        let power = if placement.product == Product::Trace { 2 } else { 3 };
        let flops = 2.0 * (side as f64).powi(power) / median(times[1..].to_vec());
        let begin = Instant::now();
        task.factors[0].fill(&Blocks { n: placement.blocks.n, block: side }, (0, 0), &mut a)?;
        let make = (side * side) as f64 / begin.elapsed().as_secs_f64();
        let mut link = f64::INFINITY;
        let (rank, size) = (self.comm.rank(), self.comm.size());
        if size > 1 {
            let content = Arc::new(a);
            let mut room = zeros(content.len())?;
            let mut times = Vec::new();
            for _ in 0..5 {
                self.meet()?;
                let begin = Instant::now();
                let sending =
                    host::send_shared(&mut *self.comm, (rank + 1) % size, self.seq, &content, 0..content.len())?;
                let ticket = self.comm.receive((rank + size - 1) % size, self.seq, room)?;
                self.seq += 1;
                room = self.comm.wait(ticket)?;
                host::wait_sent(&mut *self.comm, sending)?;
                times.push(begin.elapsed().as_secs_f64());
            }
            link = 4.0 * content.len() as f64 / median(times[1..].to_vec());
        }
        let all = self.collect([flops, link.min(1e18), make])?;
        let least = |i: usize| all.iter().map(|s| s[i]).fold(f64::INFINITY, f64::min);
        Ok(Speeds { flops: least(0), link: least(1), make: least(2), overlap })
    }

    /// Computes one product, or a trace.
    pub(crate) fn run(&mut self, placement: &Placement, task: &Task<'_>) -> Result<Outcome> {
        let me = self.comm.rank();
        let begin = Instant::now();
        let mut stored = Slab::empty()?;
        if task.keeping == Keeping::Stored {
            let held = placement.factors().iter();
            let pieces: Vec<Piece> =
                held.flat_map(|&matrix| placement.held(me).iter().map(move |&at| Piece { matrix, at })).collect();
            stored.renew(pieces.iter().map(|piece| (*piece, placement.blocks.len(piece.at))))?;
            for piece in pieces {
                self.check_stop(task)?;
                fill(placement, task, piece, stored.get_mut(piece).expect("placed above"))?;
            }
        }
        let stored = Arc::new(stored);
        let mut product: Held = Slab::empty()?;
        if placement.product != Product::Trace {
            product.renew(placement.held(me).iter().map(|&at| (at, placement.blocks.len(at))))?;
            product.clear();
        }
        self.meet()?;
        let made_seconds = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let before = self.comm.counters().clone();
        let (computing, pairs) = self.multiply(placement, task, &stored, &mut product)?;
        let after = self.comm.counters().clone();
        self.meet()?;
        let seconds = begin.elapsed().as_secs_f64();
        self.free.clear();

        let received: u64 = after.received.iter().sum::<u64>() - before.received.iter().sum::<u64>();
        let waiting = (after.waiting - before.waiting).as_secs_f64();
        let copying = (after.moving - before.moving).as_secs_f64();
        let mine = [computing, waiting, copying, received as f64, pairs + diagonal(placement, &product)];
        let all = self.collect(mine)?;
        let column = |i: usize| all.iter().map(|r| r[i]).collect::<Vec<f64>>();

        let begin = Instant::now();
        let mut verified = None;
        if placement.product != Product::Trace {
            if let (Some(error), Some(block)) = (task.inject, product.get_mut((0, 0))) {
                block[0] += error;
            }
            verified = Some(self.verify(placement, task, &stored, &product)?);
        }
        let check_seconds = begin.elapsed().as_secs_f64();
        if let (Some(out), true) = (task.out, verified.as_ref().is_none_or(|v| v.right)) {
            let blocks = &placement.blocks;
            for ((i, j), values) in product.iter() {
                out.write((blocks.start(i), blocks.start(j)), blocks.extent(j), values)?;
            }
            out.sync()?;
            self.meet()?;
        }
        Ok(Outcome {
            seconds,
            made_seconds,
            computing: column(0),
            waiting: column(1),
            copying: column(2),
            received: column(3).into_iter().map(|bytes| bytes as u64).collect(),
            trace: column(4).into_iter().sum(),
            verified,
            check_seconds,
        })
    }

    fn check_stop(&self, task: &Task<'_>) -> Result<()> {
        if task.stop.load(Ordering::Relaxed) {
            Err(Error::stopped("stopped on request before the end; nothing is kept"))
        } else {
            Ok(())
        }
    }

    /// All steps. Returns the seconds in products, and the sum of what pairs of blocks have in a trace.
    fn multiply(
        &mut self,
        placement: &Placement,
        task: &Task<'_>,
        stored: &Arc<Slab<Piece>>,
        product: &mut Held,
    ) -> Result<(f64, f64)> {
        let me = self.comm.rank();
        let steps = placement.steps();
        let all: f64 = (0..steps).flat_map(|k| placement.work(k, me)).map(|w| placement.flops(&w)).sum();
        let (mut computing, mut trace, mut done) = (0.0, 0.0, 0.0);
        let mut next = self.begin(placement, task, stored, 0)?;
        let mut came: HashMap<Piece, Staging> = HashMap::new();
        let mut made: Slab<Piece> = Slab::empty()?;
        for k in 0..steps {
            self.free.extend(came.drain().map(|(_, room)| room));
            for (piece, ticket) in next.incoming {
                came.insert(piece, self.comm.wait(ticket)?);
            }
            let outgoing = next.outgoing;
            next = self.begin(placement, task, stored, k + 1)?;
            if task.keeping == Keeping::Fresh {
                let pieces = placement.needs(k, me);
                made.renew(pieces.iter().map(|piece| (*piece, placement.blocks.len(piece.at))))?;
                for piece in pieces {
                    fill(placement, task, piece, made.get_mut(piece).expect("placed above"))?;
                }
            }
            for work in placement.work(k, me) {
                self.check_stop(task)?;
                self.comm.progress()?;
                let [left, right] = [work.left, work.right].map(|piece| {
                    let own = stored.get(piece).or_else(|| made.get(piece));
                    own.or_else(|| came.get(&piece).map(host::values::<f32>))
                });
                let (Some(left), Some(right)) = (left, right) else {
                    return Err(Error::internal(format!("step {k} of rank {me} lacks a block of {work:?}")));
                };
                let begin = Instant::now();
                trace += self.work(placement, &work, left, right, product);
                computing += begin.elapsed().as_secs_f64();
                done += placement.flops(&work);
                (task.progress)(done, all);
            }
            for message in outgoing {
                host::wait_sent(&mut *self.comm, message)?;
            }
        }
        Ok((computing, trace))
    }

    /// Multiplies two blocks; returns what they have in the trace, if only that is wanted.
    fn work(&mut self, placement: &Placement, work: &Work, left: &[f32], right: &[f32], product: &mut Held) -> f64 {
        let ((i, k), (_, j)) = (work.left.at, work.right.at);
        let [rows, terms, columns] = [i, k, j].map(|at| placement.blocks.extent(at));
        match work.to.and_then(|at| product.get_mut(at)) {
            Some(block) => {
                self.gemm.add_product([rows, terms, columns], left, right, block);
                0.0
            }
            None => {
                // A(k, j) and A(j, k) stand for two terms of the sum, but on the diagonal for one.
                let twice = if i == k { 1.0 } else { 2.0 };
                twice * transposed_dot([rows, terms], left, right)
            }
        }
    }

    /// Starts all messages of step `k` that concern this rank.
    fn begin(
        &mut self,
        placement: &Placement,
        task: &Task<'_>,
        stored: &Arc<Slab<Piece>>,
        k: usize,
    ) -> Result<Underway> {
        let mut underway = Underway::default();
        if k >= placement.steps() || task.keeping == Keeping::Fresh {
            return Ok(underway);
        }
        let me = self.comm.rank();
        let moves = placement.moves(k);
        for (i, m) in moves.iter().enumerate() {
            let seq = self.seq + i as u64;
            if m.from == me {
                let place = stored.place(m.piece).expect("the sender holds what it sends");
                underway.outgoing.push(host::send_shared(&mut *self.comm, m.to, seq, stored, place)?);
            } else if m.to == me {
                let len = placement.blocks.len(m.piece.at);
                let at = self.free.iter().position(|room| room.len() == len);
                let room = at.map_or_else(|| zeros(len), |at| Ok(self.free.swap_remove(at)))?;
                underway.incoming.push((m.piece, self.comm.receive(m.from, seq, room)?));
            }
        }
        self.seq += moves.len() as u64;
        Ok(underway)
    }

    /// See [`check`].
    fn verify(
        &mut self,
        placement: &Placement,
        task: &Task<'_>,
        stored: &Arc<Slab<Piece>>,
        product: &Held,
    ) -> Result<Verified> {
        let n = placement.blocks.n;
        let signs = Stream::new(task.seed ^ 0x5eed, Use::Matrix, 2, 0);
        let x: Vec<f64> = (0..n * VECTORS)
            .map(|at| if signs.bits((at / 32) as u64) >> (at % 32) & 1 == 0 { 1.0 } else { -1.0 })
            .collect();
        let right = *placement.factors().last().expect("at least A");
        // Each pass: the product with the vectors, and after it the squared norms of the rows.
        let (y, right_squares) = self.pass(placement, &x, |at| factor(placement, task, stored, right, at))?;
        let (z, left_squares) = self.pass(placement, &y, |at| factor(placement, task, stored, Matrix::A, at))?;
        let (w, squares) =
            self.pass(placement, &x, |at| Ok(Block::Lent(product.get(at).expect("a rank checks what it holds"))))?;
        let roundings = Gemm::roundings((0..placement.steps()).map(|k| placement.blocks.extent(k)));
        let norms = Norms { left: &left_squares, right: right_squares.iter().sum(), product: &squares, roundings };
        let mut compared = check::compare(&z, &w, &norms);
        for row in std::mem::take(&mut compared.doubtful) {
            let found = self.compute_again(placement, task, stored, product, row, roundings)?;
            compared.verified.computed_again(row, found);
        }
        Ok(compared.verified)
    }

    /// Computes one row of the product again, on the ranks that hold it. Gives the first column in which it has other bits, or is further
    /// from the sum in f64 than the roundings of its element can bring it; none if there is none. The same on every rank.
    fn compute_again(
        &mut self,
        placement: &Placement,
        task: &Task<'_>,
        stored: &Arc<Slab<Piece>>,
        product: &Held,
        row: usize,
        roundings: usize,
    ) -> Result<Option<usize>> {
        let (blocks, me) = (&placement.blocks, self.comm.rank());
        let (i, within) = (row / blocks.block, row % blocks.block);
        let mut first = f64::INFINITY;
        for &(_, j) in placement.held(me).iter().filter(|(at, _)| *at == i) {
            let columns = blocks.extent(j);
            let (mut again, mut exact, mut most) =
                (vec![0.0f32; columns], vec![0.0f64; columns], vec![0.0f64; columns]);
            // In the order of the steps: sums are rounded as they were.
            let work = (0..placement.steps()).flat_map(|k| placement.work(k, me)).filter(|w| w.to == Some((i, j)));
            for work in work {
                let left = factor(placement, task, stored, work.left.matrix, work.left.at)?;
                let right = factor(placement, task, stored, work.right.matrix, work.right.at)?;
                let terms = blocks.extent(work.left.at.1);
                let left = &left.values()[within * terms..][..terms];
                self.gemm.add_product([1, terms, columns], left, right.values(), &mut again);
                for (a, row) in left.iter().zip(right.values().chunks(columns)) {
                    for ((exact, most), b) in exact.iter_mut().zip(&mut most).zip(row) {
                        let term = f64::from(*a) * f64::from(*b);
                        *exact += term;
                        *most += term.abs();
                    }
                }
            }
            let held = &product.get((i, j)).expect("a rank checks what it holds")[within * columns..][..columns];
            let wrong = (0..columns).find(|&c| {
                held[c].to_bits() != again[c].to_bits()
                    || !check::explains(f64::from(held[c]) - exact[c], most[c], roundings)
            });
            first = wrong.map_or(first, |c| first.min((blocks.start(j) + c) as f64));
        }
        let all = self.collect([if first.is_finite() { first } else { -1.0 }])?;
        Ok(all.iter().filter(|[at]| *at >= 0.0).map(|[at]| *at as usize).min())
    }

    /// A matrix times vectors, and the squared norms of its rows, on all ranks.
    fn pass<'b>(
        &mut self,
        placement: &Placement,
        x: &[f64],
        block: impl Fn((usize, usize)) -> Result<Block<'b>>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let blocks = &placement.blocks;
        let (n, me) = (blocks.n, self.comm.rank());
        let mut sums = vec![0.0; n * (VECTORS + 1)];
        let (y, squares) = sums.split_at_mut(n * VECTORS);
        for &(i, j) in placement.held(me) {
            let values = block((i, j))?;
            let values = values.values();
            let ((row, rows), (column, columns)) =
                ((blocks.start(i), blocks.extent(i)), (blocks.start(j), blocks.extent(j)));
            let x = &x[column * VECTORS..(column + columns) * VECTORS];
            add_times_vectors([rows, columns], values, x, &mut y[row * VECTORS..(row + rows) * VECTORS]);
            for (to, values) in squares[row..].iter_mut().zip(values.chunks(columns)) {
                *to +=
                    values.chunks(8).map(|v| v.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>()).sum::<f64>();
            }
        }
        let mut sums = self.sum(&sums)?;
        let squares = sums.split_off(n * VECTORS);
        Ok((sums, squares))
    }
}

/// A block that lies somewhere, or was made for one use.
enum Block<'a> {
    Lent(&'a [f32]),
    Made(Vec<f32>),
}

impl Block<'_> {
    fn values(&self) -> &[f32] {
        match self {
            Block::Lent(values) => values,
            Block::Made(values) => values,
        }
    }
}

fn factor<'a>(
    placement: &Placement,
    task: &Task<'_>,
    stored: &'a Slab<Piece>,
    matrix: Matrix,
    at: (usize, usize),
) -> Result<Block<'a>> {
    let piece = Piece { matrix, at };
    if let Some(block) = stored.get(piece) {
        return Ok(Block::Lent(block));
    }
    let mut values = vec![0.0; placement.blocks.len(at)];
    fill(placement, task, piece, &mut values)?;
    Ok(Block::Made(values))
}

fn fill(placement: &Placement, task: &Task<'_>, piece: Piece, values: &mut [f32]) -> Result<()> {
    let which = if piece.matrix == Matrix::A { 0 } else { 1 };
    task.factors[which].fill(&placement.blocks, piece.at, values)
}

/// What a rank's blocks of the product have in its trace.
fn diagonal(placement: &Placement, product: &Held) -> f64 {
    let count = placement.blocks.count();
    let blocks = (0..count).filter_map(|i| product.get((i, i)).map(|block| (placement.blocks.extent(i), block)));
    blocks.map(|(n, block)| (0..n).map(|i| f64::from(block[i * n + i])).sum::<f64>()).sum()
}
