//! The operations under way in one process, and how they move on: pieces of collectives, messages, notices, and who is
//! missing. Whoever locks this state makes progress: the progress thread, or a rank that waits.

use super::collective::{CollectiveOp, TaggedComm};
use super::ffi::Communicator;
use super::notice::{Notice, NoticeChannel};
use super::point_to_point::PointToPoint;
use super::submission::{Completion, OpKind, Submission, SubmissionQueue};
use crate::tickets::ROOM;
use paceline_base::{Error, Peer, Result};
use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Collectives that move at the same time. One whose number is lower than all of them moves anyway, so that the lowest one
/// of all never waits for room: nothing can deadlock.
const ACTIVE: usize = 4;

/// Shortest and longest pause beside ranks that compute, in microseconds.
const PAUSES: (u64, u64) = (20, 320);

/// How often notices are looked for.
const NOTICE_INTERVAL: Duration = Duration::from_millis(5);

/// How long those who are asked may take to answer, and the last notices to leave.
const ANSWER: Duration = Duration::from_secs(2);

/// How long messages of a process that has left may still take.
const GRACE: Duration = Duration::from_secs(2);

/// How operations make progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProgressSettings {
    /// Bytes that travel at a time.
    pub(super) piece: usize,
    /// How long a rank may wait without any news.
    pub(super) timeout: Duration,
    /// Number of different tags.
    pub(super) tags: u64,
}

/// Ranks that are waited for, and whether they have begun.
type Missing = Vec<(usize, bool)>;

struct Question {
    asked: Instant,
    missing: Missing,
    /// By process.
    answers: Vec<Option<String>>,
    waited: Duration,
    what: String,
}

/// The operations under way in this process, and what is needed to move them on. Whoever locks it makes progress.
pub(super) struct ProgressState {
    queue: Arc<SubmissionQueue>,
    comm: Communicator,
    notices: NoticeChannel,
    settings: ProgressSettings,
    /// Submissions that were taken.
    pub(super) seen: u64,
    submitted: Vec<Submission>,
    collectives: Vec<CollectiveOp>,
    spare_collectives: Vec<CollectiveOp>,
    /// Where pieces arrive. As large as most collectives need from the start: memory that is not touched costs nothing.
    pool: Vec<Vec<u8>>,
    messages: Vec<PointToPoint>,
    spare_messages: Vec<PointToPoint>,
    /// Messages within this process, of which only one end is here.
    unmatched: Vec<Submission>,
    departed: Vec<bool>,
    question: Option<Question>,
    notices_read: Instant,
    idle: Option<Instant>,
    stalled: Option<Instant>,
    pause: u64,
}

impl ProgressState {
    pub(super) fn new(
        queue: Arc<SubmissionQueue>,
        comm: Communicator,
        notice_comm: Communicator,
        settings: ProgressSettings,
    ) -> Self {
        let processes = queue.first.len() - 1;
        let mut spare_collectives = Vec::with_capacity(ROOM);
        spare_collectives.extend((0..ROOM / 4).map(|_| CollectiveOp::new(queue.local(), processes)));
        let mut spare_messages = Vec::with_capacity(ROOM);
        spare_messages.extend((0..ROOM / 4).map(|_| PointToPoint::new()));
        let mut pool = Vec::with_capacity(ROOM);
        pool.extend((0..2 * ACTIVE).map(|_| vec![0; CollectiveOp::scratch(processes, settings.piece)]));
        Self {
            queue,
            comm,
            notices: NoticeChannel::new(notice_comm),
            settings,
            seen: 0,
            submitted: Vec::with_capacity(ROOM),
            collectives: Vec::with_capacity(ROOM),
            spare_collectives,
            pool,
            messages: Vec::with_capacity(ROOM),
            spare_messages,
            unmatched: Vec::with_capacity(ROOM),
            departed: vec![false; processes],
            question: None,
            notices_read: Instant::now(),
            idle: None,
            stalled: None,
            pause: PAUSES.0,
        }
    }

    /// Moves all operations on, and asks for those who are missing: how long there has been no news.
    pub(super) fn advance(&mut self) -> Duration {
        match self.advance_all() {
            Ok(true) => {
                (self.idle, self.stalled, self.pause) = (None, None, PAUSES.0);
                return Duration::ZERO;
            }
            Ok(false) => {}
            Err(e) => {
                let message = format!("process {} on {}: {}", self.queue.process, self.host(), e.message());
                self.queue.fail(message, e.peer());
            }
        }
        let idle = self.idle.get_or_insert_with(Instant::now).elapsed();
        if self.queue.some_wait() {
            let stalled = self.stalled.get_or_insert_with(Instant::now).elapsed();
            if let Err(e) = self.ask_missing(stalled) {
                self.queue.fail(e.message().into(), e.peer());
            }
        } else {
            self.stalled = None;
        }
        idle
    }

    /// How long the thread may park when there was no news; it doubles until there is.
    pub(super) fn next_pause(&mut self) -> Duration {
        if !self.has_work() {
            return Duration::from_millis(20);
        }
        self.pause = (2 * self.pause).min(PAUSES.1);
        Duration::from_micros(self.pause / 2)
    }

    fn host(&self) -> &str {
        &self.queue.hosts[self.queue.process]
    }

    pub(super) fn is_over(&self) -> bool {
        self.queue.all_left() && !self.has_work() && !self.queue.has_submitted(self.seen)
    }

    fn has_work(&self) -> bool {
        !(self.collectives.is_empty() && self.messages.is_empty() && self.unmatched.is_empty())
    }

    /// Moves all operations on, without waiting; true if there was any news.
    fn advance_all(&mut self) -> Result<bool> {
        let mut news = self.take_submitted()?;
        self.activate();
        let Self { queue, comm, settings, collectives, messages, pool, .. } = self;
        let mut at = 0;
        while at < collectives.len() {
            let collective = &mut collectives[at];
            if collective.active && collective.advance(tagged(*comm, settings, collective.seq), queue, &mut news)? {
                collective.close(queue, pool);
                self.spare_collectives.push(collectives.remove(at));
            } else {
                at += 1;
            }
        }
        at = 0;
        while at < messages.len() {
            match messages[at].advance(queue, &mut news)? {
                Some(done) => {
                    let message = messages.swap_remove(at);
                    queue.complete(message.local, done);
                    self.spare_messages.push(message);
                }
                None => at += 1,
            }
        }
        if self.notices_read.elapsed() >= NOTICE_INTERVAL {
            self.notices_read = Instant::now();
            self.read_notices()?;
        }
        Ok(news)
    }

    fn take_submitted(&mut self) -> Result<bool> {
        let mut submitted = std::mem::take(&mut self.submitted);
        let any = self.queue.take_submitted(&mut self.seen, &mut submitted);
        for submission in submitted.drain(..) {
            self.accept(submission)?;
        }
        self.submitted = submitted;
        Ok(any)
    }

    fn accept(&mut self, submission: Submission) -> Result<()> {
        let Submission { kind, seq, data, local, index } = submission;
        match kind {
            OpKind::Collective { what, group } => {
                let (local_ranks, processes) = (self.queue.local(), self.departed.len());
                let at = self.collectives.iter().position(|c| c.seq == seq).unwrap_or_else(|| {
                    let mut collective =
                        self.spare_collectives.pop().unwrap_or_else(|| CollectiveOp::new(local_ranks, processes));
                    collective.open(seq, what, group);
                    self.collectives.push(collective);
                    self.collectives.len() - 1
                });
                self.collectives[at].join(local, index, what, data)
            }
            OpKind::Send { to: peer } | OpKind::Receive { from: peer } => {
                let sends = matches!(kind, OpKind::Send { .. });
                let process = self.queue.process_of(peer);
                if process == self.queue.process {
                    return self.match_locally(Submission { kind, seq, data, local, index });
                }
                let mut message = self.spare_messages.pop().unwrap_or_else(PointToPoint::new);
                let me = self.queue.first[self.queue.process] + local;
                let tag = message_tag(&self.settings, &self.queue, seq, if sends { (me, peer) } else { (peer, me) });
                message.begin(self.comm, tag, sends, (peer, process), (local, index), seq, data)?;
                self.messages.push(message);
                Ok(())
            }
        }
    }

    /// A message between two ranks of this process: copied when both ends are here. The ends of a message are known by its
    /// number and by who sends to whom: several pairs of ranks may use the same number at a time, as in a ring.
    fn match_locally(&mut self, submission: Submission) -> Result<()> {
        let (base, ends) = (self.queue.first[self.queue.process], self.ends(&submission));
        let sends = |o: &Submission| matches!(o.kind, OpKind::Send { .. });
        let fits = |o: &Submission| o.seq == submission.seq && self.ends(o) == ends && sends(o) != sends(&submission);
        let Some(at) = self.unmatched.iter().position(fits) else {
            self.unmatched.push(submission);
            return Ok(());
        };
        let other = self.unmatched.remove(at); // in order: the same pair may have sent again under this number
        let (source, mut target) = if sends(&submission) { (submission, other) } else { (other, submission) };
        let (sent, expected) = (source.data.bytes().len(), target.data.bytes().len());
        let room = target.data.largest() * target.data.dtype().size();
        let same_type = source.data.dtype() == target.data.dtype();
        if target.data.varies() && same_type && sent <= room {
            target.data.set_len(source.data.len());
        } else if sent != expected || !same_type {
            return Err(Error::internal(format!(
                "message of seq {} from rank {} to rank {}: {sent} bytes were sent, {expected} were expected",
                source.seq, ends.0, ends.1
            )));
        }
        target.data.bytes_mut().copy_from_slice(source.data.bytes());
        self.queue.count(target.local, base + source.local, sent);
        let there = Instant::now();
        for submission in [source, target] {
            self.queue.complete(submission.local, Completion { index: submission.index, data: submission.data, there });
        }
        Ok(())
    }

    /// Who sends to whom.
    fn ends(&self, submission: &Submission) -> (usize, usize) {
        let me = self.queue.first[self.queue.process] + submission.local;
        match submission.kind {
            OpKind::Send { to } => (me, to),
            OpKind::Receive { from } => (from, me),
            OpKind::Collective { .. } => (me, me),
        }
    }

    /// Lets collectives begin that all ranks of the process have come to, in the order of their numbers.
    fn activate(&mut self) {
        loop {
            let active = self.collectives.iter().filter(|c| c.active);
            let (count, lowest) = active.fold((0, u64::MAX), |(n, low), c| (n + 1, low.min(c.seq)));
            let waiting = self.collectives.iter_mut().filter(|c| !c.active && c.is_ready());
            let Some(next) = waiting.min_by_key(|c| c.seq) else { return };
            if count >= ACTIVE && next.seq > lowest {
                return;
            }
            next.begin(self.settings.piece, &mut self.pool);
        }
    }

    fn read_notices(&mut self) -> Result<()> {
        self.notices.flush()?;
        while let Some((from, notice)) = self.notices.receive()? {
            match notice {
                Notice::Failed { rank, why } => {
                    self.departed.fill(true); // they know
                    self.queue.fail(why, Some(Peer::Rank(rank)));
                }
                Notice::Leave => self.departed[from] = true,
                Notice::Ask => {
                    let lines: Vec<String> = (0..self.queue.local()).map(|l| self.queue.last_did(l)).collect();
                    self.notices.send(from, &Notice::Answer(lines.join("\n")))?;
                }
                Notice::Answer(text) => {
                    if let Some(question) = &mut self.question {
                        question.answers[from] = Some(text);
                    }
                }
            }
        }
        Ok(())
    }

    /// The operation with the lowest number that is not complete, and who is missing in it.
    fn oldest(&self) -> Option<(u64, String, Missing)> {
        let collective = self.collectives.iter().min_by_key(|c| c.seq);
        let message = self.messages.iter().min_by_key(|p| p.seq);
        let unmatched = self.unmatched.iter().min_by_key(|o| o.seq);
        let candidates = [
            collective.map(|c| (c.seq, format!("the {}", c.what), c.missing(&self.queue))),
            message.map(|p| {
                let way = if p.sends { "to" } else { "from" };
                (p.seq, format!("the message {way} rank {}", p.peer), vec![(p.peer, false)])
            }),
            unmatched.map(|o| match o.kind {
                OpKind::Send { to } => (o.seq, format!("the message to rank {to}"), vec![(to, false)]),
                OpKind::Receive { from } => (o.seq, format!("the message from rank {from}"), vec![(from, false)]),
                OpKind::Collective { .. } => (o.seq, String::new(), Vec::new()),
            }),
        ];
        candidates.into_iter().flatten().min_by_key(|c| c.0)
    }

    /// A rank waits, and nothing comes: fails if a peer has left; after the timeout asks those who are missing where they
    /// are, and fails with what they say.
    fn ask_missing(&mut self, stalled: Duration) -> Result<()> {
        let enough = stalled >= self.settings.timeout.min(GRACE);
        if !enough {
            return Ok(());
        }
        if let Some(question) = &self.question {
            let silent = |&(rank, _): &(usize, bool)| {
                let process = self.queue.process_of(rank);
                process != self.queue.process && question.answers[process].is_none()
            };
            if question.asked.elapsed() < ANSWER && question.missing.iter().any(silent) {
                return Ok(());
            }
            return Err(Error::failure(self.timeout_message(question)));
        }
        let Some((seq, what, missing)) = self.oldest() else { return Ok(()) };
        let what = format!("{what} of seq {seq}");
        if let Some(&(gone, _)) = missing.iter().find(|m| self.departed[self.queue.process_of(m.0)])
            && stalled >= GRACE
        {
            let me = self.queue.name(self.queue.first[self.queue.process]);
            let message = format!("{} failed: it left while {me} waits for {what}", self.queue.name(gone));
            return Err(Error::failure(message).of_peer(Peer::Rank(gone)));
        }
        if stalled < self.settings.timeout {
            return Ok(());
        }
        for &(rank, _) in &missing {
            let process = self.queue.process_of(rank);
            if process != self.queue.process {
                self.notices.send(process, &Notice::Ask)?;
            }
        }
        let answers = vec![None; self.departed.len()];
        self.question = Some(Question { asked: Instant::now(), missing, answers, waited: stalled, what });
        Ok(())
    }

    fn timeout_message(&self, question: &Question) -> String {
        let name = |&(rank, begun): &(usize, bool)| {
            let process = self.queue.process_of(rank);
            let local = rank - self.queue.first[process];
            let did = match &question.answers[process] {
                _ if process == self.queue.process => self.queue.last_did(local),
                Some(lines) => lines.lines().nth(local).unwrap_or("says nothing").to_string(),
                None => "it does not answer".into(),
            };
            format!("{} ({}{did})", self.queue.name(rank), if begun { "begun, not finished; " } else { "" })
        };
        let names: Vec<_> = question.missing.iter().map(name).collect();
        format!(
            "{} waited {:.1} s for {}; missing: {}; find out what holds it up, or allow a longer strategy.timeout",
            self.queue.name(self.queue.first[self.queue.process]),
            question.waited.as_secs_f64(),
            question.what,
            names.join(", "),
        )
    }

    /// Tells all others of the failure. What is under way stays in memory: the library may still write to it.
    pub(super) fn give_up(&mut self) {
        let error = self.queue.check().err();
        let why = error.as_ref().map_or(String::new(), |e| e.message().to_string());
        let rank = match error.and_then(|e| e.peer()) {
            Some(Peer::Rank(rank)) => rank,
            _ => self.queue.first[self.queue.process],
        };
        for process in (0..self.departed.len()).filter(|&p| p != self.queue.process && !self.departed[p]) {
            let _ = self.notices.send(process, &Notice::Failed { rank, why: why.clone() }); // it may be gone
        }
        self.flush_notices();
        let Self { collectives, messages, submitted, unmatched, .. } = self;
        std::mem::forget((take(collectives), take(messages), take(submitted), take(unmatched)));
    }

    pub(super) fn announce_end(&mut self) {
        for process in (0..self.departed.len()).filter(|&p| p != self.queue.process) {
            let _ = self.notices.send(process, &Notice::Leave); // whoever is gone does not need it
        }
        self.flush_notices();
    }

    /// Waits until the last notices have left.
    fn flush_notices(&mut self) {
        let begin = Instant::now();
        while begin.elapsed() < ANSWER && !self.notices.flush().unwrap_or(true) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Tags of summands and sums of one collective. (Every third tag is left to messages.)
fn tags(settings: &ProgressSettings, seq: u64) -> [i32; 2] {
    let base = (seq % settings.tags) as i32 * 3;
    [base, base + 1]
}

/// The tag of a message. MPI knows processes only: which of their ranks write to each other must be in it, since several
/// pairs may use the same number at a time.
fn message_tag(settings: &ProgressSettings, queue: &SubmissionQueue, seq: u64, (from, to): (usize, usize)) -> i32 {
    let crowd = queue.largest as u64;
    let within = |rank: usize| (rank - queue.first[queue.process_of(rank)]) as u64;
    let number = seq.wrapping_mul(crowd * crowd).wrapping_add(within(from) * crowd + within(to));
    (number % settings.tags) as i32 * 3 + 2
}

fn tagged(comm: Communicator, settings: &ProgressSettings, seq: u64) -> TaggedComm {
    TaggedComm { comm, tags: tags(settings, seq) }
}
