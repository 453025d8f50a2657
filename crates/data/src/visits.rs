//! Which sample stands where in training or evaluation, and which of these places this process reads.
//!
//! Usually all processes see the same samples: a position means the same one everywhere, and a process reads its
//! [`Portion`] of them. Where every process has files of its own, the positions that a process reads are counted, and the
//! count walks through its own order, pass after pass: each of its samples has its turn before any has a second one,
//! whatever its share of a batch.

use crate::Order;
use paceline_base::portion::Portion;

/// What stands at every position of a run, for one process.
///
/// ```
/// use paceline_base::portion::Portion;
/// use paceline_data::{Order, Visits};
///
/// // Passes of 6 samples in batches of 3. Another process has 4 of these samples, this one 2: row 2 of every batch.
/// let visits = Visits::own(Order::unshuffled(2), Portion::new(6, 3, [2..3], []));
/// let seen: Vec<_> = [2, 5, 8].map(|position| visits.at(position / 6, position % 6)).into();
/// assert_eq!(seen, [(0, 0), (0, 1), (1, 0)]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visits {
    order: Order,
    portion: Portion,
    whose: Whose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    /// All processes have the same samples.
    Shared,
    /// This process has its own, and goes on where the pass before ended.
    Own,
    /// This process has its own, and begins again with every pass.
    Again,
}

impl Visits {
    /// Everything is read here.
    pub fn all(order: Order) -> Self {
        let portion = Portion::all(order.len());
        Self::shared(order, portion)
    }

    /// All processes have the samples of `order`; this one reads its portion of them.
    ///
    /// # Panics
    /// If a pass of the portion is not as long as the order.
    pub fn shared(order: Order, portion: Portion) -> Self {
        assert_eq!(order.len() as u64, portion.pass(), "a pass visits every sample once");
        Self { order, portion, whose: Whose::Shared }
    }

    /// This process has samples of its own, in this order, and visits them one after another where its portion says.
    pub fn own(order: Order, portion: Portion) -> Self {
        Self { order, portion, whose: Whose::Own }
    }

    /// The same, but every pass visits the same samples, as evaluations have to be comparable.
    pub fn own_again(order: Order, portion: Portion) -> Self {
        Self { order, portion, whose: Whose::Again }
    }

    /// Samples of a pass, over all processes.
    pub fn len(&self) -> usize {
        self.portion.pass() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which positions are read here.
    pub fn portion(&self) -> &Portion {
        &self.portion
    }

    /// What is visited at this place of a pass: the epoch of the order (it decides how a sample is augmented) and the
    /// sample. If the samples are this process's own, only for what it reads.
    #[inline]
    pub fn at(&self, pass: u64, place: u64) -> (u64, usize) {
        let (epoch, at) = match self.whose {
            Whose::Shared => (pass, place),
            Whose::Own => {
                let (count, len) = (self.portion.before(pass * self.portion.pass() + place), self.order.len() as u64);
                (count / len, count % len)
            }
            Whose::Again => (pass, self.portion.before(place) % self.order.len() as u64),
        };
        (epoch, self.order.at(epoch, at as usize))
    }
}
