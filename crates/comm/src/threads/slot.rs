//! The handshake: one slot where an owner posts a buffer and others work on it, many times over.
//!
//! A slot serves the operations `n`, `n + ring`, `n + 2·ring`, … of its lane or group. Its only shared word is `state`,
//! which grows:
//!
//! 1. `2n + 1`, stored by the owner (release): the post of operation `n` can be read, and the buffer behind it worked
//!    on.
//! 2. `2n + 2`, stored by whoever works last on behalf of this slot (release): that work is finished. For a message
//!    this is the receiver, which has copied; for a collective it is the owner, which has summed its chunk of *every*
//!    member's buffer.
//! 3. The owner takes its loan back when nobody can touch the buffer any more (a message was copied; *all* members of a
//!    collective are finished). Only then is the slot free for operation `n + ring`.
//!
//! The loan stays in the slot until step 3, and the slot lives as long as the hub. So when a rank fails, a peer that
//! is in the middle of its buffer reads and writes memory that is still there.

use crate::Exchange;
use paceline_base::Staging;
use paceline_base::units::DType;
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an owner tells the others of its operation.
#[derive(Clone, Copy)]
pub(super) struct Post {
    /// Where the buffer is.
    pub(super) data: NonNull<u8>,
    /// Its length.
    pub(super) bytes: usize,
    /// The operation's number in the schedule.
    pub(super) seq: u64,
    /// The type of its elements.
    pub(super) dtype: DType,
    /// Which collective, if it is one.
    pub(super) what: Option<Exchange>,
}

impl Post {
    /// The post for a buffer.
    pub(super) fn new(data: &Staging, seq: u64, what: Option<Exchange>) -> Self {
        Self { data: data.as_ptr(), bytes: data.bytes().len(), seq, dtype: data.dtype(), what }
    }

    /// How two ranks' ideas of one operation differ, naming both ranks and both numbers.
    pub(super) fn disagreement(&self, rank: usize, other: &Post, other_rank: usize) -> Option<String> {
        let differ = |a: String, b: String| Some(format!("rank {rank} has {a}, but rank {other_rank} has {b}"));
        if self.seq != other.seq {
            differ(format!("seq {}", self.seq), format!("seq {}", other.seq))
        } else if self.what != other.what {
            let name = |p: &Post| p.what.map_or("a message".into(), |w| w.to_string());
            differ(format!("{} at seq {}", name(self), self.seq), format!("{} at seq {}", name(other), other.seq))
        } else if self.bytes != other.bytes || self.dtype != other.dtype {
            let size = |p: &Post| format!("{} bytes of {:?} at seq {}", p.bytes, p.dtype, p.seq).to_lowercase();
            differ(size(self), size(other))
        } else {
            None
        }
    }
}

/// Memory that only the slot's owner touches, on a cache line of its own.
#[repr(align(64))]
struct Owned<T>(UnsafeCell<T>);

/// Where one owner posts every `ring`th of its operations. Two cache lines (processors fetch pairs): what is shared, and what is the owner's.
#[repr(C, align(128))]
pub(super) struct Slot {
    state: AtomicU64,
    post: UnsafeCell<Option<Post>>,
    loan: Owned<Option<Staging>>,
}

// SAFETY: `post` is written only while the slot is free and read only between steps 1 and 2, which `state` orders by
// release and acquire; `loan` is touched by the owner alone, and dropped with the hub, when no rank is left.
unsafe impl Sync for Slot {}
// SAFETY: a `Staging` is `Send`, and a `Post` is a copy of numbers and of the address that the staging guards.
unsafe impl Send for Slot {}

impl Slot {
    /// A ring of free slots.
    pub(super) fn ring(length: usize) -> Box<[Slot]> {
        let free =
            || Slot { state: AtomicU64::new(0), post: UnsafeCell::new(None), loan: Owned(UnsafeCell::new(None)) };
        (0..length).map(|_| free()).collect()
    }

    /// Whether operation `n` can be posted here, in a ring of `ring`.
    ///
    /// # Safety
    /// Only the owner may call this.
    pub(super) unsafe fn is_free(&self, n: u64, ring: usize) -> bool {
        let before = n.checked_sub(ring as u64).map_or(0, |m| 2 * m + 2);
        // SAFETY: the loan is the owner's.
        self.state.load(Ordering::Acquire) == before && unsafe { (*self.loan.0.get()).is_none() }
    }

    /// Step 1. With `finished`, also step 2 at once: for a member with nothing to do.
    ///
    /// # Safety
    /// Only the owner may call this, and only while [`is_free`](Self::is_free).
    pub(super) unsafe fn post(&self, n: u64, post: Post, loan: Staging, finished: bool) {
        // SAFETY: the slot is free: nobody reads the post until the store below, and the loan is the owner's.
        unsafe {
            *self.post.get() = Some(post);
            *self.loan.0.get() = Some(loan);
        }
        self.state.store(2 * n + 1 + u64::from(finished), Ordering::Release);
    }

    /// Whether operation `n` was posted.
    pub(super) fn is_posted(&self, n: u64) -> bool {
        self.state.load(Ordering::Acquire) > 2 * n
    }

    /// The post of operation `n`.
    ///
    /// # Safety
    /// After [`is_posted`](Self::is_posted), and before the caller has finished its own part in operation `n` (which
    /// keeps the owner from posting the next).
    pub(super) unsafe fn read(&self) -> Post {
        // SAFETY: posted, and the owner cannot overwrite it before the caller's part is finished.
        unsafe { (*self.post.get()).expect("a posted slot holds a post") }
    }

    /// Step 2.
    pub(super) fn finish(&self, n: u64) {
        self.state.store(2 * n + 2, Ordering::Release);
    }

    /// Whether step 2 of operation `n` was taken.
    pub(super) fn is_finished(&self, n: u64) -> bool {
        self.state.load(Ordering::Acquire) >= 2 * n + 2
    }

    /// Step 3.
    ///
    /// # Safety
    /// Only the owner may call this, and only when nobody will touch the buffer of the current operation any more.
    pub(super) unsafe fn take(&self) -> Staging {
        // SAFETY: the loan is the owner's.
        unsafe { (*self.loan.0.get()).take().expect("a posted slot holds a loan") }
    }
}
