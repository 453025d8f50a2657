//! What the ranks of one process share: lanes for messages, groups for collectives, who failed and who left.

use super::slot::Slot;
use crate::parker::Parker;
use paceline_base::{Error, Peer, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Messages that can be posted from one rank to another and not be taken yet; more queue up at the sender.
pub(super) const LANE: usize = 16;

/// Collectives that can be under way in one group; more queue up at each member.
pub(super) const RING: usize = 64;

/// One for all ranks of a [`threads`](fn@crate::threads) call. It lives until the last rank is dropped, and with it all memory on loan.
pub(super) struct Hub {
    pub(super) size: usize,
    /// More ranks than cores.
    pub(super) crowded: bool,
    pub(super) parker: Parker,
    lanes: Box<[Box<[Slot]>]>,
    groups: Mutex<Groups>,
    ranks: Box<[RankState]>,
    failed: AtomicBool,
    failure: OnceLock<Failure>,
    departed: AtomicUsize,
}

/// By its ranks, and how many groups of the same ranks came before.
type Groups = HashMap<(Vec<usize>, usize), Arc<Group>>;

/// What is known of one rank.
#[repr(align(128))]
struct RankState {
    /// The last sequence number that it started, plus one; 0 before the first.
    reached: AtomicU64,
    left: AtomicBool,
}

struct Failure {
    rank: usize,
    why: String,
}

/// The ranks of a collective and the ring of slots in which they meet.
pub(super) struct Group {
    pub(super) ranks: Box<[usize]>,
    slots: Box<[Slot]>,
}

impl Group {
    /// Where member `index` posts operation `n`.
    pub(super) fn slot(&self, n: u64, index: usize) -> &Slot {
        &self.slots[(n as usize % RING) * self.ranks.len() + index]
    }

    /// The slots of operation `n`, in rank order.
    pub(super) fn row(&self, n: u64) -> &[Slot] {
        let p = self.ranks.len();
        &self.slots[(n as usize % RING) * p..][..p]
    }
}

impl Hub {
    pub(super) fn new(size: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            size,
            crowded: size > cores,
            parker: Parker::new(size),
            lanes: (0..size * size).map(|_| Slot::ring(LANE)).collect(),
            groups: Mutex::default(),
            ranks: (0..size).map(|_| RankState { reached: AtomicU64::new(0), left: AtomicBool::new(false) }).collect(),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            departed: AtomicUsize::new(0),
        }
    }

    /// Where `from` posts its `n`th message to `to`.
    pub(super) fn lane(&self, from: usize, to: usize, n: u64) -> &Slot {
        &self.lanes[from * self.size + to][n as usize % LANE]
    }

    /// The `nth` group of just these ranks, made by whoever asks first.
    pub(super) fn group(&self, ranks: &[usize], nth: usize) -> Arc<Group> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let make = || Arc::new(Group { ranks: ranks.into(), slots: Slot::ring(RING * ranks.len()) });
        Arc::clone(groups.entry((ranks.to_vec(), nth)).or_insert_with(make))
    }

    /// Notes how far `rank` came.
    pub(super) fn reach(&self, rank: usize, seq: u64) {
        self.ranks[rank].reached.store(seq.wrapping_add(1), Ordering::Relaxed);
    }

    /// How far `rank` came, for people.
    pub(super) fn reached(&self, rank: usize) -> String {
        match self.ranks[rank].reached.load(Ordering::Relaxed) {
            0 => "nothing started yet".into(),
            next => format!("last seq {}", next.wrapping_sub(1)),
        }
    }

    /// The first failure is the one that all ranks report.
    pub(super) fn fail(&self, rank: usize, why: &str) {
        // If another was first, its words stand.
        let _ = self.failure.set(Failure { rank, why: why.to_owned() });
        self.failed.store(true, Ordering::Release);
        self.parker.unpark_all();
    }

    /// An error, if any rank failed.
    pub(super) fn check(&self) -> Result<()> {
        if self.failed.load(Ordering::Acquire) { Err(self.failure()) } else { Ok(()) }
    }

    /// Whether any rank failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    fn failure(&self) -> Error {
        let Failure { rank, why } = self.failure.get().expect("set before the flag");
        Error::failure(format!("rank {rank} failed: {why}")).of_peer(Peer::Rank(*rank))
    }

    /// `rank` found ranks at different operations: nobody can go on.
    pub(super) fn mismatch(&self, rank: usize, what: &str) -> Error {
        self.fail(rank, what);
        Error::internal(what)
    }

    /// `rank` is dropped, having completed all it started.
    pub(super) fn leave(&self, rank: usize) {
        self.ranks[rank].left.store(true, Ordering::Release);
        self.departed.fetch_add(1, Ordering::Release);
        self.parker.unpark_all();
    }

    /// Whether `rank` is gone. Whatever it did before can be seen after this.
    pub(super) fn has_left(&self, rank: usize) -> bool {
        self.departed.load(Ordering::Acquire) > 0 && self.ranks[rank].left.load(Ordering::Acquire)
    }
}
