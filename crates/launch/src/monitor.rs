//! The processes of one attempt as `launch` sees them: who has come, what they said, who is late. No sockets, no clock:
//! messages of processes and the time come in, answers to them and failures go out.

use crate::decide::{Failure, How};
use crate::facts::{Facts, check, unseen};
use crate::hosts::{Hosts, is_here};
use crate::message::{ClientMessage, Doing, ExitReport, Heartbeat, Hello, LOST, ServerMessage, StartInfo};
use crate::setting::{LaunchSetting, LaunchSettingNames};
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
struct ProcessState {
    hello: Option<Hello>,
    facts: Option<Facts>,
    skew: f64,
    seen: Option<bool>,
    heard: f64,
    heartbeat: Heartbeat,
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
pub(crate) struct JobMonitor {
    hosts: Hosts,
    limits: Limits,
    attempt: u32,
    notes: Vec<String>,
    states: Vec<ProcessState>,
    looking: bool,
    begun: bool,
    /// Why it was refused, and when.
    refused: Option<(String, f64)>,
    /// When a message last came.
    heard: f64,
    run_dir: Option<PathBuf>,
    /// One of them has ended before its work was done, as it was asked to.
    stopped: bool,
    warnings: Vec<String>,
    names: LaunchSettingNames,
}

impl JobMonitor {
    /// Nobody has come yet; time counts from 0.
    pub(crate) fn new(hosts: Hosts, limits: Limits, attempt: u32, notes: Vec<String>) -> Self {
        let states = vec![ProcessState::default(); hosts.processes()];
        Self {
            hosts,
            limits,
            attempt,
            notes,
            states,
            looking: false,
            begun: false,
            refused: None,
            heard: 0.0,
            run_dir: None,
            stopped: false,
            warnings: Vec::new(),
            names: LaunchSettingNames::default(),
        }
    }

    /// The same monitor for a user who calls settings by these names.
    pub(crate) fn naming(self, names: LaunchSettingNames) -> Self {
        Self { names, ..self }
    }

    /// A process said something; `clock` is the time of day. Gives an answer for all, if one is due.
    pub(crate) fn hear(
        &mut self,
        process: usize,
        message: ClientMessage,
        now: f64,
        clock: f64,
    ) -> Option<ServerMessage> {
        self.heard = now;
        let state = self.states.get_mut(process)?;
        state.heard = now;
        match message {
            ClientMessage::Hello(hello) => state.hello = Some(hello),
            ClientMessage::Facts(facts) => {
                state.skew = facts.clock - clock;
                state.facts = Some(*facts);
                return self.compare();
            }
            ClientMessage::Seen(seen) => {
                state.seen = Some(seen);
                return self.look();
            }
            ClientMessage::Heartbeat(heartbeat) => state.heartbeat = heartbeat,
            ClientMessage::RunDir(dir) => self.run_dir = Some(dir),
            ClientMessage::Failed { code, why, peer } => state.end = Some((now, End::Said(code, why, peer))),
            ClientMessage::Done => state.end = Some((now, End::Done)),
            ClientMessage::Stopped => {
                state.end = Some((now, End::Done));
                self.stopped = true;
            }
            ClientMessage::Progress(_) | ClientMessage::AskedToStop(_) => {}
        }
        None
    }

    /// The line of a process ended.
    pub(crate) fn broke(&mut self, process: usize, now: f64) {
        if let Some(state) = self.states.get_mut(process)
            && state.end.is_none()
        {
            state.end = Some((now, End::Broke));
        }
    }

    /// What a process left on standard error: also one that never had a line, or lost it.
    pub(crate) fn left(&mut self, report: ExitReport, now: f64) {
        let Some(state) = self.states.get_mut(report.process) else { return };
        let at = match &state.end {
            None => now,
            Some((at, End::Broke)) => *at,
            Some(_) => return, // it has said so on its line
        };
        let end =
            if report.code == LOST { End::Lost(report.why) } else { End::Said(report.code, report.why, report.peer) };
        state.end = Some((at, end));
    }

    /// Whether any process has said why it ends.
    pub(crate) fn has_said(&self) -> bool {
        self.states.iter().any(|s| matches!(s.end, Some((_, End::Said(..)))))
    }

    /// When all have said their facts.
    fn compare(&mut self) -> Option<ServerMessage> {
        if self.looking {
            return None;
        }
        let (facts, skews) = (self.facts()?, self.states.iter().map(|s| s.skew).collect::<Vec<_>>());
        self.looking = true;
        let problems = check(&facts, &skews);
        let (fatal, rest): (Vec<_>, Vec<_>) = problems.into_iter().partition(|p| p.fatal);
        self.warnings.extend(rest.into_iter().map(|p| p.words));
        if fatal.is_empty() {
            return Some(ServerMessage::Look);
        }
        Some(self.refuse(fatal.into_iter().map(|p| p.words).collect::<Vec<_>>().join("; ")))
    }

    /// When all have looked.
    fn look(&mut self) -> Option<ServerMessage> {
        let seen: Vec<bool> = self.states.iter().map(|s| s.seen).collect::<Option<_>>()?;
        if let Some(why) = unseen(&self.facts()?, &seen) {
            return Some(self.refuse(why));
        }
        self.begun = true;
        let notes = self.notes.iter().chain(&self.warnings).cloned().collect();
        Some(ServerMessage::Begin(StartInfo { attempt: self.attempt, notes }))
    }

    fn refuse(&mut self, why: String) -> ServerMessage {
        self.refused = Some((why.clone(), self.heard));
        ServerMessage::Refuse { why }
    }

    fn facts(&self) -> Option<Vec<Facts>> {
        self.states.iter().map(|s| s.facts.clone()).collect()
    }

    /// The host of a process, as the list names it.
    pub(crate) fn host_of(&self, process: usize) -> &str {
        self.hosts.of(process)
    }

    /// Whether all had leave to begin.
    pub(crate) fn begun(&self) -> bool {
        self.begun
    }

    /// What to tell a person, once.
    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// The run, once it can be resumed.
    pub(crate) fn run_dir(&self) -> Option<&PathBuf> {
        self.run_dir.as_ref()
    }

    /// Whether they ended before their work was done, as they were asked to.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped
    }

    /// Whether all have done their work, or as much as they were asked to.
    pub(crate) fn done(&self) -> bool {
        self.done_since().is_some()
    }

    /// When the last of them had, if all have.
    pub(crate) fn done_since(&self) -> Option<f64> {
        let ends = self.states.iter().map(|s| s.end.as_ref().filter(|(_, e)| *e == End::Done).map(|(at, _)| *at));
        ends.collect::<Option<Vec<_>>>()?.into_iter().max_by(f64::total_cmp)
    }

    /// Whether nobody has ever come.
    pub(crate) fn nobody(&self) -> bool {
        self.states.iter().all(|s| s.hello.is_none())
    }

    /// Whether a line is still open.
    pub(crate) fn has_open_lines(&self) -> bool {
        self.states.iter().any(|s| s.hello.is_some() && s.end.is_none())
    }

    /// When the first sign of a failure came.
    pub(crate) fn trouble(&self) -> Option<f64> {
        let bad = |s: &ProcessState| match &s.end {
            Some((at, End::Said(..) | End::Lost(_) | End::Broke)) => Some(*at),
            _ => None,
        };
        self.states.iter().filter_map(bad).min_by(f64::total_cmp)
    }

    /// The failure, if there is one to act on now. `over`: what starts processes has ended, so nobody else will speak.
    pub(crate) fn verdict(&self, now: f64, over: bool) -> Option<Failure> {
        if let Some((why, at)) = &self.refused {
            // Process 0 first takes away the file that it has shown the others.
            let ready = over || self.states[0].end.is_some() || now - at > GRACE;
            return ready.then(|| Failure { process: None, host: None, how: How::Refused, why: why.clone(), step: 0 });
        }
        if let Some(at) = self.trouble() {
            let cause = self.cause();
            // Of a death the starter has more to tell, however many others have spoken.
            let told = cause.how != How::Died && self.states.iter().all(|s| s.end.is_some());
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
            .states
            .iter()
            .enumerate()
            .filter_map(|(p, s)| s.end.as_ref().filter(|(_, e)| *e != End::Done).map(|(at, e)| (*at, p, e)))
            .collect();
        let apart = |p: usize, e: &End| match e {
            End::Said(code, ..) => *code == 2 || !self.begun || self.states[p].hello.is_none(),
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
        let step = self.states[process].heartbeat.step;
        Failure { process: Some(process), host: Some(self.hosts.of(process).into()), how, why, step }
    }

    /// Processes on one host, as the list names it.
    fn on<'a>(&'a self, host: &'a str) -> impl Iterator<Item = &'a ProcessState> + 'a {
        self.states.iter().enumerate().filter(move |(p, _)| self.hosts.of(*p) == host).map(|(_, s)| s)
    }

    fn silent(&self, now: f64) -> Option<Failure> {
        let quiet = |s: &ProcessState| s.hello.is_some() && s.end.is_none() && now - s.heard > self.limits.silence;
        let process = self.states.iter().position(quiet)?;
        let (host, seconds) = (self.hosts.of(process), now - self.states[process].heard);
        let others_there = self.hosts.all().len() > 1;
        // Signs of life come twice a second: a host that is cut off falls silent as a whole within one.
        let late = |s: &ProcessState| s.end.is_some() || now - s.heard > self.limits.silence - 1.0;
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
        let process = self.states.iter().position(|s| s.hello.is_none())?;
        let why = format!(
            "has not come up in {:.0} s; does its host start programs without asking for a password, and can it reach this \
             machine? ({} gives it longer)",
            self.limits.start,
            self.names.of(LaunchSetting::StartLimit)
        );
        Some(self.failure(process, How::Absent, why))
    }

    /// No step anywhere for too long: the process that is furthest behind, and computes while others wait.
    fn stuck(&self) -> Option<Failure> {
        let open = || self.states.iter().enumerate().filter(|(_, s)| s.end.is_none());
        let steps = |d: Doing| matches!(d, Doing::Training | Doing::Waiting);
        let late = |s: &ProcessState| steps(s.heartbeat.doing) && s.heartbeat.since > self.limits.step;
        if self.limits.step <= 0.0 || !self.begun || open().count() == 0 || !open().all(|(_, s)| late(s)) {
            return None;
        }
        let least = open().map(|(_, s)| s.heartbeat.step).min()?;
        let behind = || open().filter(|(_, s)| s.heartbeat.step == least);
        let (process, state) = behind().find(|(_, s)| s.heartbeat.doing != Doing::Waiting).or(behind().next())?;
        let others = open().count() - behind().count();
        let whom = if others > 0 { format!("while {others} others wait for it") } else { "nor has any other".into() };
        let why = format!(
            "has done no step for {:.0} s ({}), {whom}; it is {} after step {least}",
            state.heartbeat.since,
            self.names.of(LaunchSetting::StepLimit),
            state.heartbeat.doing.word()
        );
        Some(self.failure(process, How::Stuck, why))
    }

    /// Adds to a failure by death what the starter said of it and what is known of memory. `killed_here`: processes of the
    /// control group of `launch` that the kernel has killed for memory meanwhile.
    pub(crate) fn explain(&self, mut failure: Failure, said: &str, killed_here: u64) -> Failure {
        if failure.how != How::Died {
            return failure;
        }
        let Some(process) = failure.process else { return failure };
        let host = self.hosts.of(process);
        let held = self.states[process].heartbeat.resident;
        // Only kills in the job's own groups: what else the kernel of a machine kills for memory is not ours.
        let for_memory = (is_here(host) && killed_here > 0) || self.on(host).any(|s| s.heartbeat.oom_kills > 0);
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
