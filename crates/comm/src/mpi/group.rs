//! Who takes part in a collective, and which process holds whom.

use super::submission::SubmissionQueue;
use crate::chunk;
use std::ops::Range;

/// A process that takes part, and which members it holds.
#[derive(Debug)]
pub(super) struct Participant {
    pub(super) process: usize,
    /// Whether it runs on this host.
    pub(super) near: bool,
    pub(super) members: Range<usize>,
}

/// The ranks of a collective, and the processes that hold them.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) ranks: Box<[usize]>,
    pub(super) participants: Box<[Participant]>,
    /// Which of them is this process.
    pub(super) me: usize,
}

impl Group {
    /// Finds which process holds which members. `ranks` ascend, and one of them is held by this process.
    pub(super) fn new(ranks: &[usize], queue: &SubmissionQueue) -> Self {
        let mut participants: Vec<Participant> = Vec::new();
        for (member, &rank) in ranks.iter().enumerate() {
            let process = queue.process_of(rank);
            match participants.last_mut() {
                Some(participant) if participant.process == process => participant.members.end = member + 1,
                _ => {
                    let near = queue.hosts[process] == queue.hosts[queue.process];
                    participants.push(Participant { process, near, members: member..member + 1 });
                }
            }
        }
        let me = participants.iter().position(|p| p.process == queue.process).expect("this process takes part");
        Self { ranks: ranks.into(), participants: participants.into(), me }
    }

    /// The elements that the process of `participant` is responsible for.
    pub(super) fn span(&self, len: usize, participant: usize) -> Range<usize> {
        let (n, m) = (self.ranks.len(), &self.participants[participant].members);
        chunk(len, n, m.start).start..chunk(len, n, m.end - 1).end
    }
}
