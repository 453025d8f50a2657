//! The processes of one attempt as `launch` sees them: who has come, what they said, who is late. No sockets, no clock:
//! words and the time come in, orders and failures go out.

use crate::decide::{Failure, How};
use crate::facts::{Facts, check, unseen};
use crate::hosts::{Hosts, is_here};
use crate::word::{Beat, Doing, Hello, LOST, LastWords, Order, Orders, Word};
use paceline_base::Peer;
use std::path::PathBuf;

/// How long things may take, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Without a sign of life.
    pub silence: f64,
    /// Without a step; 0: for ever.
    pub step: f64,
    /// To come up.
    pub start: f64,
}

/// Seconds in which others may still say what they know, after the first sign of a failure.
const GRACE: f64 = 2.5;
/// The same after a death, of which only the starter knows the signal. Open MPI needs up to two seconds to say it, and more
/// where other programs have the cores; it ends with that, so that most restarts do not wait for so long.
const LAST_GRACE: f64 = 8.0;

/// One process.
#[derive(Clone, Debug, Default)]
struct Seat {
    hello: Option<Hello>,
    facts: Option<Facts>,
    skew: f64,
    seen: Option<bool>,
    heard: f64,
    beat: Beat,
    end: Option<(f64, End)>,
}

#[derive(Clone, Debug, PartialEq)]
enum End {
    Done,
    /// Its exit code, its error, and whose failure that passes on.
    Said(u8, String, Option<Peer>),
    /// It no longer heard from `launch`.
    Lost(String),
    Broke,
}

/// All of them.
pub struct Muster {
    hosts: Hosts,
    limits: Limits,
    attempt: u32,
    notes: Vec<String>,
    seats: Vec<Seat>,
    looking: bool,
    begun: bool,
    /// Why it was refused, and when.
    refused: Option<(String, f64)>,
    /// When a word last came.
    heard: f64,
    run_dir: Option<PathBuf>,
    /// One of them has ended before its work was done, as it was asked to.
    stopped: bool,
    warnings: Vec<String>,
}

impl Muster {
    /// Nobody has come yet; time counts from 0.
    pub fn new(hosts: Hosts, limits: Limits, attempt: u32, notes: Vec<String>) -> Self {
        let seats = vec![Seat::default(); hosts.processes()];
        Self {
            hosts,
            limits,
            attempt,
            notes,
            seats,
            looking: false,
            begun: false,
            refused: None,
            heard: 0.0,
            run_dir: None,
            stopped: false,
            warnings: Vec::new(),
        }
    }

    /// A process said something; `clock` is the time of day. Gives an order for all, if one is due.
    pub fn hear(&mut self, process: usize, word: Word, now: f64, clock: f64) -> Option<Order> {
        self.heard = now;
        let seat = self.seats.get_mut(process)?;
        seat.heard = now;
        match word {
            Word::Hello(hello) => seat.hello = Some(hello),
            Word::Facts(facts) => {
                seat.skew = facts.clock - clock;
                seat.facts = Some(*facts);
                return self.compare();
            }
            Word::Seen(seen) => {
                seat.seen = Some(seen);
                return self.look();
            }
            Word::Beat(beat) => seat.beat = beat,
            Word::RunDir(dir) => self.run_dir = Some(dir),
            Word::Failed { code, why, peer } => seat.end = Some((now, End::Said(code, why, peer))),
            Word::Done => seat.end = Some((now, End::Done)),
            Word::Stopped => {
                seat.end = Some((now, End::Done));
                self.stopped = true;
            }
            Word::Progress(_) | Word::AskedToStop(_) => {}
        }
        None
    }

    /// The line of a process ended.
    pub fn broke(&mut self, process: usize, now: f64) {
        if let Some(seat) = self.seats.get_mut(process)
            && seat.end.is_none()
        {
            seat.end = Some((now, End::Broke));
        }
    }

    /// What a process left on standard error: also one that never had a line, or lost it.
    pub fn left(&mut self, words: LastWords, now: f64) {
        let Some(seat) = self.seats.get_mut(words.process) else { return };
        let at = match &seat.end {
            None => now,
            Some((at, End::Broke)) => *at,
            Some(_) => return, // it has said so on its line
        };
        let end = if words.code == LOST { End::Lost(words.why) } else { End::Said(words.code, words.why, words.peer) };
        seat.end = Some((at, end));
    }

    /// Whether any process has said why it ends.
    pub fn has_said(&self) -> bool {
        self.seats.iter().any(|s| matches!(s.end, Some((_, End::Said(..)))))
    }

    /// When all have said their facts.
    fn compare(&mut self) -> Option<Order> {
        if self.looking {
            return None;
        }
        let (facts, skews) = (self.facts()?, self.seats.iter().map(|s| s.skew).collect::<Vec<_>>());
        self.looking = true;
        let problems = check(&facts, &skews);
        let (fatal, rest): (Vec<_>, Vec<_>) = problems.into_iter().partition(|p| p.fatal);
        self.warnings.extend(rest.into_iter().map(|p| p.words));
        if fatal.is_empty() {
            return Some(Order::Look);
        }
        Some(self.refuse(fatal.into_iter().map(|p| p.words).collect::<Vec<_>>().join("; ")))
    }

    /// When all have looked.
    fn look(&mut self) -> Option<Order> {
        let seen: Vec<bool> = self.seats.iter().map(|s| s.seen).collect::<Option<_>>()?;
        if let Some(why) = unseen(&self.facts()?, &seen) {
            return Some(self.refuse(why));
        }
        self.begun = true;
        let notes = self.notes.iter().chain(&self.warnings).cloned().collect();
        Some(Order::Begin(Orders { attempt: self.attempt, notes }))
    }

    fn refuse(&mut self, why: String) -> Order {
        self.refused = Some((why.clone(), self.heard));
        Order::Refuse { why }
    }

    fn facts(&self) -> Option<Vec<Facts>> {
        self.seats.iter().map(|s| s.facts.clone()).collect()
    }

    /// The host of a process, as the list names it.
    pub fn host_of(&self, process: usize) -> &str {
        self.hosts.of(process)
    }

    /// Whether all had leave to begin.
    pub fn begun(&self) -> bool {
        self.begun
    }

    /// What to tell a person, once.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The run, once it can be resumed.
    pub fn run_dir(&self) -> Option<&PathBuf> {
        self.run_dir.as_ref()
    }

    /// Whether they ended before their work was done, as they were asked to.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Whether all have done their work, or as much as they were asked to.
    pub fn done(&self) -> bool {
        self.done_since().is_some()
    }

    /// When the last of them had, if all have.
    pub fn done_since(&self) -> Option<f64> {
        let ends = self.seats.iter().map(|s| s.end.as_ref().filter(|(_, e)| *e == End::Done).map(|(at, _)| *at));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max_by(f64::total_cmp)
    }

    /// Whether nobody has ever come.
    pub fn nobody(&self) -> bool {
        self.seats.iter().all(|s| s.hello.is_none())
    }

    /// Whether a line is still open.
    pub fn has_open_lines(&self) -> bool {
        self.seats.iter().any(|s| s.hello.is_some() && s.end.is_none())
    }

    /// When the first sign of a failure came.
    pub fn trouble(&self) -> Option<f64> {
        let bad = |s: &Seat| match &s.end {
            Some((at, End::Said(..) | End::Lost(_) | End::Broke)) => Some(*at),
            _ => None,
        };
        self.seats.iter().filter_map(bad).min_by(f64::total_cmp)
    }

    /// The failure, if there is one to act on now. `over`: what starts processes has ended, so nobody else will speak.
    pub fn verdict(&self, now: f64, over: bool) -> Option<Failure> {
        if let Some((why, at)) = &self.refused {
            // Process 0 first takes away the file that it has shown the others.
            let ready = over || self.seats[0].end.is_some() || now - at > GRACE;
            return ready.then(|| Failure { process: None, host: None, how: How::Refused, why: why.clone(), step: 0 });
        }
        if let Some(at) = self.trouble() {
            let cause = self.cause();
            // Of a death the starter has more to tell, however many others have spoken.
            let told = cause.how != How::Died && self.seats.iter().all(|s| s.end.is_some());
            let grace = if cause.how == How::Died { LAST_GRACE } else { GRACE };
            return (over || told || now - at > grace).then_some(cause);
        }
        self.silent(now).or_else(|| self.absent(now)).or_else(|| self.stuck())
    }

    /// The process that failed first, unless it only tells of another that did.
    ///
    /// A starter ends all others when one has ended, and these may be seen first. So whoever said what cannot follow from
    /// another's end comes before lines that only ended: wrong input, anything before the processes were connected, and the
    /// loss of the line to `launch`.
    fn cause(&self) -> Failure {
        let mut ends: Vec<(f64, usize, &End)> = self
            .seats
            .iter()
            .enumerate()
            .filter_map(|(p, s)| s.end.as_ref().filter(|(_, e)| *e != End::Done).map(|(at, e)| (*at, p, e)))
            .collect();
        let apart = |p: usize, e: &End| match e {
            End::Said(code, ..) => *code == 2 || !self.begun || self.seats[p].hello.is_none(),
            End::Lost(_) => true,
            _ => false,
        };
        ends.sort_by(|a, b| apart(b.1, b.2).cmp(&apart(a.1, a.2)).then(a.0.total_cmp(&b.0)));
        let own = |e: &End| !matches!(e, End::Said(_, _, Some(_)));
        let Some(&(_, process, end)) = ends.iter().find(|(_, _, e)| own(e)).or(ends.first()) else {
            return self.failure(0, How::Died, "failed".into());
        };
        match end {
            End::Said(code, why, _) => self.failure(process, How::Said(*code), format!("failed: {why}")),
            End::Lost(why) => self.failure(process, How::Lost, why.clone()),
            _ => self.failure(process, How::Died, "ended without a word (killed, or crashed)".into()),
        }
    }

    fn failure(&self, process: usize, how: How, why: String) -> Failure {
        let step = self.seats[process].beat.step;
        Failure { process: Some(process), host: Some(self.hosts.of(process).into()), how, why, step }
    }

    /// Processes on one host, as the list names it.
    fn on<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a Seat> + 'a {
        self.seats.iter().enumerate().filter(move |(p, _)| self.hosts.of(*p) == host).map(|(_, s)| s)
    }

    fn silent(&self, now: f64) -> Option<Failure> {
        let quiet = |s: &Seat| s.hello.is_some() && s.end.is_none() && now - s.heard > self.limits.silence;
        let process = self.seats.iter().position(quiet)?;
        let (host, seconds) = (self.hosts.of(process), now - self.seats[process].heard);
        let others_there = self.hosts.all().len() > 1;
        // Signs of life come twice a second: a host that is cut off falls silent as a whole within one.
        let late = |s: &Seat| s.end.is_some() || now - s.heard > self.limits.silence - 1.0;
        let words = format!("gives no sign of life for {seconds:.0} s");
        if others_there && self.on(host).all(late) {
            let mut f = self.failure(process, How::HostSilent, format!("{words} (cut off, down, or frozen)"));
            f.process = None;
            return Some(f);
        }
        Some(self.failure(process, How::Silent, format!("{words} (stopped, or its machine is frozen)")))
    }

    fn absent(&self, now: f64) -> Option<Failure> {
        if self.begun || now <= self.limits.start {
            return None;
        }
        // Processes that came may take long to open their data; those that never did are lost.
        let process = self.seats.iter().position(|s| s.hello.is_none())?;
        let why = format!(
            "has not come up in {:.0} s; does its host start programs without asking for a password, and can it reach this \
             machine? (--start-timeout gives it longer)",
            self.limits.start
        );
        Some(self.failure(process, How::Absent, why))
    }

    /// No step anywhere for too long: the process that is furthest behind, and computes while others wait.
    fn stuck(&self) -> Option<Failure> {
        let open = || self.seats.iter().enumerate().filter(|(_, s)| s.end.is_none());
        let steps = |d: Doing| matches!(d, Doing::Training | Doing::Waiting);
        let late = |s: &Seat| steps(s.beat.doing) && s.beat.since > self.limits.step;
        if self.limits.step <= 0.0 || !self.begun || open().count() == 0 || !open().all(|(_, s)| late(s)) {
            return None;
        }
        let least = open().map(|(_, s)| s.beat.step).min()?;
        let behind = || open().filter(|(_, s)| s.beat.step == least);
        let (process, seat) = behind().find(|(_, s)| s.beat.doing != Doing::Waiting).or(behind().next())?;
        let others = open().count() - behind().count();
        let whom = if others > 0 { format!("while {others} others wait for it") } else { "nor has any other".into() };
        let why = format!(
            "has done no step for {:.0} s (--step-timeout), {whom}; it is {} after step {least}",
            seat.beat.since,
            seat.beat.doing.word()
        );
        Some(self.failure(process, How::Stuck, why))
    }

    /// Adds to a failure by death what the starter said of it and what is known of memory. `killed_here`: processes of the
    /// control group of `launch` that the kernel has killed for memory meanwhile.
    pub fn explain(&self, mut failure: Failure, said: &str, killed_here: u64) -> Failure {
        if failure.how != How::Died {
            return failure;
        }
        let Some(process) = failure.process else { return failure };
        let host = self.hosts.of(process);
        let held = self.seats[process].beat.resident;
        // Only kills in the job's own groups: what else the kernel of a machine kills for memory is not ours.
        let for_memory = (is_here(host) && killed_here > 0) || self.on(host).any(|s| s.beat.oom_kills > 0);
        failure.why = match signal_in(said, process) {
            Some(9) if for_memory => format!(
                "was killed for memory by the kernel (it held {}); give it fewer samples a step, or a larger machine",
                paceline_base::text::bytes(held)
            ),
            Some(signal) => format!("was killed by signal {signal}{}", signal_name(signal)),
            None => failure.why,
        };
        failure
    }
}

/// The signal that ended a process, in the words of Open MPI or MPICH.
fn signal_in(said: &str, process: usize) -> Option<i32> {
    let after = |text: &str, word: &str| -> Option<i32> {
        let rest = text.split_once(word)?.1;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    said.lines().find_map(|line| {
        let of_process = after(line, "process rank ").is_none_or(|p| p as usize == process);
        after(line, "on signal ").filter(|_| of_process).or_else(|| after(line, "(signal "))
    })
}

fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal).map_or(String::new(), |s| format!(" ({s})"))
}
