//! What a placement costs, from its steps: blocks and memory of each rank, bytes between them, and the likely time. The steps are the ones that are run,
//! so that bytes are exact; the time is a model with measured speeds.

use crate::blocks::{Placement, Product};
use paceline_kernels::cpu::Gemm;
use serde::{Deserialize, Serialize};

/// Bytes of an element.
const ELEMENT: u64 = 4;

/// What becomes of factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keeping {
    /// Every rank makes or reads the blocks that it holds once, keeps them, and sends them to those who need them.
    Stored,
    /// Whoever needs a block makes or reads it, in every step anew: nothing is kept, and nothing moves.
    Fresh,
}

/// What ranks were measured to do, the slowest of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speeds {
    /// Floating-point operations per second of one rank's product of blocks, while all multiply.
    pub flops: f64,
    /// Bytes per second from one rank to the next, while all send.
    pub link: f64,
    /// Elements per second that a rank makes or reads.
    pub make: f64,
    /// Whether blocks travel while the ranks compute; threads copy with the core that computes.
    pub overlap: bool,
}

/// What one rank has to bear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Burden {
    /// Blocks held, of all matrices; those of C and, if they are stored, of the factors.
    pub blocks: usize,
    /// Most memory at once.
    pub memory_bytes: u64,
    /// Bytes that come in.
    pub received_bytes: u64,
    /// Bytes that go out.
    pub sent_bytes: u64,
    /// Floating-point operations.
    pub flops: f64,
    /// Elements that are made or read while it multiplies.
    pub made: u64,
}

/// What a placement costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// By rank.
    pub ranks: Vec<Burden>,
    /// Operations of the fullest rank in each step, bytes through the busiest rank, elements made by the busiest.
    #[serde(skip)]
    steps: Vec<[f64; 3]>,
}

impl Cost {
    /// Walks the steps.
    pub fn of(placement: &Placement, keeping: Keeping) -> Self {
        let mut ranks = vec![Burden::default(); placement.ranks];
        let mut panels = vec![(0u64, 0u64); placement.ranks]; // the largest, and the one before
        let mut steps = Vec::with_capacity(placement.steps());
        let kept = if keeping == Keeping::Stored { placement.factors().len() } else { 0 };
        let results = usize::from(placement.product != Product::Trace);
        for (rank, burden) in ranks.iter_mut().enumerate() {
            for &at in placement.held(rank) {
                burden.blocks += kept + results;
                burden.memory_bytes += (kept + results) as u64 * placement.blocks.len(at) as u64 * ELEMENT;
            }
            burden.memory_bytes += Gemm::working_bytes() as u64;
        }
        for k in 0..placement.steps() {
            let mut incoming = vec![0u64; placement.ranks];
            let mut outgoing = vec![0u64; placement.ranks];
            let mut made = vec![0u64; placement.ranks];
            if keeping == Keeping::Stored {
                for m in placement.moves(k) {
                    let bytes = placement.blocks.len(m.piece.at) as u64 * ELEMENT;
                    incoming[m.to] += bytes;
                    outgoing[m.from] += bytes;
                }
            } else {
                for (rank, made) in made.iter_mut().enumerate() {
                    *made = placement.needs(k, rank).iter().map(|p| placement.blocks.len(p.at) as u64).sum();
                }
            }
            let mut fullest = [0.0f64; 3];
            for (rank, burden) in ranks.iter_mut().enumerate() {
                let flops: f64 = placement.work(k, rank).iter().map(|w| placement.flops(w)).sum();
                burden.flops += flops;
                burden.received_bytes += incoming[rank];
                burden.sent_bytes += outgoing[rank];
                burden.made += made[rank];
                // Two steps' blocks are there at once: those in use, and those that arrive for the next.
                let here = incoming[rank] + made[rank] * ELEMENT;
                let (most, before) = &mut panels[rank];
                let both = if keeping == Keeping::Stored { here + *before } else { here };
                (*most, *before) = ((*most).max(both), here);
                let busy = [flops, incoming[rank].max(outgoing[rank]) as f64, made[rank] as f64];
                for (most, busy) in fullest.iter_mut().zip(busy) {
                    *most = most.max(busy);
                }
            }
            steps.push(fullest);
        }
        for (burden, (most, _)) in ranks.iter_mut().zip(&panels) {
            burden.memory_bytes += most;
        }
        Self { ranks, steps }
    }

    /// The most that any rank has to bear.
    pub fn most(&self, what: impl Fn(&Burden) -> u64) -> u64 {
        self.ranks.iter().map(what).max().unwrap_or(0)
    }

    /// Seconds, at these speeds. The first step's blocks are waited for; later ones travel behind the products, where they can.
    pub fn seconds(&self, speeds: &Speeds) -> f64 {
        let transfer = |k: usize| self.steps.get(k).map_or(0.0, |s| s[1] / speeds.link);
        let step = |(k, s): (usize, &[f64; 3])| {
            let compute = s[0] / speeds.flops + s[2] / speeds.make;
            if speeds.overlap { compute.max(transfer(k + 1)) } else { compute + transfer(k + 1) }
        };
        transfer(0) + self.steps.iter().enumerate().map(step).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::{Blocks, Layout};

    fn cost(layout: Layout, product: Product, ranks: usize, keeping: Keeping) -> Cost {
        Cost::of(&Placement::new(layout, product, Blocks { n: 400, block: 50 }, ranks), keeping)
    }

    #[test]
    fn a_grid_of_four_costs_what_can_be_counted() {
        let cost = cost(Layout::Summa, Product::Ab, 4, Keeping::Stored);
        // 2 × 2: each rank holds a quarter of three matrices, receives a quarter of A and of B, and has room for two steps of two half panels.
        let quarter = 4 * 400 * 400 / 4;
        for burden in &cost.ranks {
            assert_eq!(burden.blocks, 3 * 16);
            assert_eq!((burden.received_bytes, burden.sent_bytes), (2 * quarter, 2 * quarter));
            let panels = burden.memory_bytes - 3 * quarter - Gemm::working_bytes() as u64;
            // In every other step a rank holds the panel of A, and in every other the one of B: together half of them come.
            assert_eq!(panels, 2 * 4 * 200 * 50);
            assert_eq!(burden.flops, 2.0 * 400f64.powi(3) / 4.0);
        }
        let speeds = Speeds { flops: 1e9, link: 1e9, make: 1e9, overlap: true };
        let compute = 2.0 * 400f64.powi(3) / 4.0 / 1e9;
        assert!(cost.seconds(&speeds) > compute && cost.seconds(&speeds) < 1.01 * compute);
        assert!(cost.seconds(&Speeds { overlap: false, ..speeds }) > cost.seconds(&speeds));
        let slow = Speeds { link: 1e4, ..speeds };
        assert!(cost.seconds(&slow) > 2.0 * quarter as f64 / 1e4);
    }

    #[test]
    fn fresh_factors_are_not_kept_and_do_not_move() {
        let cost = cost(Layout::Diagonal, Product::Aa, 3, Keeping::Fresh);
        assert_eq!(cost.most(|b| b.received_bytes), 0);
        assert!(cost.most(|b| b.made) > 0);
        assert!(cost.most(|b| b.blocks as u64) < 3 * 64 / 3);
    }
}
