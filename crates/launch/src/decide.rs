//! What went wrong with an attempt, and what follows from it: a pure function of both.

use crate::hosts::Hosts;
use crate::setting::{LaunchSetting, LaunchSettingNames};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// How an attempt failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The processes do not agree, or one cannot see what it must.
    Refused,
    /// A process said why, and ended with this exit code.
    Said(u8),
    /// A process ended without a word.
    Died,
    /// A process no longer heard from `launch`, and ended itself.
    Lost,
    /// A process gives no sign of life.
    Silent,
    /// Nor does any other on its host.
    HostSilent,
    /// Signs of life, but no steps.
    Stuck,
    /// A process never came up.
    Absent,
    /// What starts processes ended by itself.
    Starter,
}

/// Which process failed, where, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// The process; none if it is not one.
    pub process: Option<usize>,
    /// Its host, as it was named.
    pub host: Option<String>,
    /// How.
    pub how: How,
    /// Why, in words.
    pub why: String,
    /// Steps that it had done.
    pub step: u64,
}

impl Failure {
    /// "process 1 on b was killed by signal 9"
    pub fn words(&self) -> String {
        match (self.process, &self.host) {
            (Some(process), Some(host)) => format!("process {process} on {host} {}", self.why),
            (None, Some(host)) => format!("host {host} {}", self.why),
            _ => self.why.clone(),
        }
    }
}

/// Where a job stands when an attempt fails.
#[derive(Clone, Debug)]
pub struct State {
    /// The hosts of the attempt.
    pub hosts: Hosts,
    /// Restarts so far, and at most.
    pub restarts: u32,
    /// Attempts in a row, after the job had run, in which it did not come up; they are no restarts.
    pub waits: u32,
    /// At most.
    pub max_restarts: u32,
    /// Whether fewer processes will do.
    pub elastic: bool,
    /// How many there must be then.
    pub min_ranks: usize,
    /// The run, once it can be resumed.
    pub run_dir: Option<PathBuf>,
    /// Whether any attempt had leave to begin.
    pub began: bool,
    /// Whether this one had.
    pub trained: bool,
    /// The person asked for the end.
    pub stopping: bool,
    /// Failures of earlier attempts.
    pub earlier: Vec<Failure>,
    /// What the user calls the settings, for the reasons.
    pub names: LaunchSettingNames,
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Start again.
    Restart {
        /// There.
        hosts: Hosts,
        /// From this run's last checkpoint; from the beginning if there is none.
        from: Option<PathBuf>,
        /// After a pause, for a host to come back.
        pause: Duration,
        /// Whether it is one of the restarts that were asked for; trying whether a host is back is not.
        counts: bool,
    },
    /// End.
    GiveUp,
}

/// Attempts to find a host again before the job gives up: four and a half minutes of pauses.
const WAITS: u32 = 12;

/// What to do after a failure, and why.
pub fn decide(state: &State, failure: &Failure) -> (Decision, String) {
    let give_up = |why: &str| (Decision::GiveUp, why.to_string());
    match failure.how {
        How::Refused | How::Said(2) => return give_up("the input is wrong: it would fail again"),
        _ if state.stopping => return give_up("it was being stopped"),
        How::Absent | How::Starter if !state.began => {
            return give_up("the job never ran: it would fail again in the same way");
        }
        _ => {}
    }
    if let How::Said(_) = failure.how
        && state.earlier.last().is_some_and(|e| e.why == failure.why && e.step == failure.step)
    {
        return give_up("it failed in the same way, at the same step, as before");
    }
    // Processes that did not come up: a host is still away. Where they had come up and begun, it is a failure like others.
    let away = matches!(failure.how, How::Absent | How::Starter) && !state.trained;
    if away && state.waits >= WAITS {
        return give_up(&format!("it has not come up again in {WAITS} attempts"));
    }
    if state.restarts >= state.max_restarts && !(away && state.max_restarts > 0) {
        let name = state.names.of(LaunchSetting::MaxRestarts);
        return give_up(&match state.max_restarts {
            0 => format!("no restarts were asked for ({name})"),
            n => format!("all {n} restarts are used up ({name})"),
        });
    }
    let from = state.run_dir.clone();
    let place = match &from {
        Some(dir) => format!("from the last checkpoint of {}", dir.display()),
        None => "from the beginning: there is no run to resume yet".into(),
    };
    let (hosts, about) = match fewer(state, failure) {
        Fewer::No => (state.hosts.clone(), format!("with the same {} processes", state.hosts.processes())),
        Fewer::On(hosts, why) => {
            let about = format!("with {} processes on {hosts}, {why}", hosts.processes());
            (hosts, about)
        }
        Fewer::TooFew(why) => return (Decision::GiveUp, why),
    };
    // A host that is gone may come back; a process can be started again at once.
    let same = hosts == state.hosts;
    let gone = (away || failure.how == How::HostSilent) && same;
    let pause = if gone { Duration::from_secs((2 << state.waits.min(4)).min(30)) } else { Duration::ZERO };
    let wait = if gone { format!(", in {} s", pause.as_secs()) } else { String::new() };
    let counts = !(away && same);
    let count = match counts {
        true => format!("restart {} of {}", state.restarts + 1, state.max_restarts),
        false => "another attempt, which does not count as a restart,".into(),
    };
    (Decision::Restart { hosts, from, pause, counts }, format!("{count} {place}, {about}{wait}"))
}

enum Fewer {
    No,
    On(Hosts, String),
    TooFew(String),
}

/// Of an elastic job: without a host that is gone, or with one process less on a host that failed twice in a row.
fn fewer(state: &State, failure: &Failure) -> Fewer {
    let (true, Some(host)) = (state.elastic, &failure.host) else { return Fewer::No };
    let again = state.earlier.last().is_some_and(|e| e.host.as_ref() == Some(host));
    let (rest, why) = match failure.how {
        How::HostSilent | How::Absent => (state.hosts.without(host), format!("without {host}")),
        _ if again => (state.hosts.one_less(host), format!("one less on {host}, which failed twice")),
        _ => return Fewer::No,
    };
    match rest {
        Some(hosts) if hosts.processes() >= state.min_ranks => Fewer::On(hosts, why),
        Some(hosts) => Fewer::TooFew(format!(
            "only {} processes would be left, and {} is {}",
            hosts.processes(),
            state.names.of(LaunchSetting::MinRanks),
            state.min_ranks
        )),
        None => Fewer::TooFew("no host is left".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State {
            hosts: Hosts::parse("a:2,b:2").unwrap(),
            restarts: 0,
            waits: 0,
            max_restarts: 3,
            elastic: false,
            min_ranks: 1,
            run_dir: Some("runs/x".into()),
            began: true,
            trained: true,
            stopping: false,
            earlier: Vec::new(),
            names: LaunchSettingNames::default(),
        }
    }

    /// Of an attempt in which processes did not come up, after others that had begun.
    fn waiting() -> State {
        State { trained: false, ..state() }
    }

    fn failure(how: How) -> Failure {
        Failure { process: Some(3), host: Some("b".into()), how, why: "was killed by signal 9".into(), step: 40 }
    }

    fn restarts(state: &State, how: How, hosts: &str, words: &[&str]) -> Duration {
        let (decision, reason) = decide(state, &failure(how));
        words.iter().for_each(|w| assert!(reason.contains(w), "{w} in: {reason}"));
        let Decision::Restart { hosts: on, from, pause, .. } = decision else { panic!("gave up: {reason}") };
        assert_eq!((on.to_string().as_str(), &from), (hosts, &state.run_dir), "{reason}");
        pause
    }

    fn gives_up(state: &State, how: How, word: &str) {
        let (decision, reason) = decide(state, &failure(how));
        assert_eq!(decision, Decision::GiveUp, "{reason}");
        assert!(reason.contains(word), "{word} in: {reason}");
    }

    #[test]
    fn a_dead_process_is_started_again_at_once() {
        for how in [How::Died, How::Lost, How::Silent, How::Stuck, How::Said(1), How::Starter] {
            let words = ["restart 1 of 3", "last checkpoint of runs/x", "same 4 processes"];
            assert_eq!(restarts(&state(), how, "a:2,b:2", &words), Duration::ZERO);
        }
        let early = State { run_dir: None, ..state() };
        restarts(&early, How::Died, "a:2,b:2", &["from the beginning"]);
    }

    #[test]
    fn what_would_fail_again_is_not_started_again() {
        gives_up(&state(), How::Said(2), "input is wrong");
        gives_up(&state(), How::Refused, "input is wrong");
        let never = State { began: false, ..waiting() };
        gives_up(&never, How::Absent, "never ran");
        gives_up(&never, How::Starter, "never ran");
        restarts(&waiting(), How::Starter, "a:2,b:2", &["another attempt", "does not count"]);
        gives_up(&State { max_restarts: 0, ..waiting() }, How::Starter, "(max_restarts)");
        gives_up(&State { stopping: true, ..state() }, How::Died, "stopped");
        gives_up(&State { restarts: 3, ..state() }, How::Died, "all 3 restarts");
        gives_up(&State { max_restarts: 0, ..state() }, How::Died, "(max_restarts)");
        let same = State { earlier: vec![failure(How::Said(1))], restarts: 1, ..state() };
        gives_up(&same, How::Said(1), "same step");
        restarts(&same, How::Died, "a:2,b:2", &["restart 2 of 3"]);
    }

    #[test]
    fn an_attempt_that_trained_is_a_restart_whatever_ended_it() {
        for how in [How::Starter, How::Absent] {
            let (decision, reason) = decide(&state(), &failure(how.clone()));
            assert!(matches!(decision, Decision::Restart { counts: true, .. }), "{reason}");
            gives_up(&State { restarts: 3, ..state() }, how.clone(), "all 3 restarts");
            // Many attempts that trained are not many attempts to come up.
            let many = State { restarts: 20, max_restarts: 30, waits: WAITS, ..state() };
            restarts(&many, how, "a:2,b:2", &["restart 21 of 30"]);
        }
    }

    #[test]
    fn a_host_that_is_gone_is_waited_for_or_left_out() {
        let pause = restarts(&state(), How::HostSilent, "a:2,b:2", &["in 2 s"]);
        assert_eq!(pause, Duration::from_secs(2));
        // An outage takes one restart, however long: attempts that find the host still away do not count.
        let later = State { restarts: 3, waits: 2, ..waiting() };
        assert_eq!(restarts(&later, How::Absent, "a:2,b:2", &["does not count", "in 8 s"]), Duration::from_secs(8));
        gives_up(&State { waits: WAITS, ..later.clone() }, How::Absent, "not come up again in 12 attempts");
        gives_up(&State { trained: true, ..later }, How::HostSilent, "all 3 restarts");
        let elastic = State { elastic: true, ..state() };
        assert_eq!(restarts(&elastic, How::HostSilent, "a:2", &["2 processes", "without b"]), Duration::ZERO);
        restarts(&elastic, How::Died, "a:2,b:2", &["same 4"]);
        let twice = State { earlier: vec![failure(How::Died)], ..elastic.clone() };
        restarts(&twice, How::Died, "a:2,b:1", &["failed twice"]);
        gives_up(&State { min_ranks: 3, ..elastic.clone() }, How::HostSilent, "min_ranks is 3");
        let alone = State { hosts: Hosts::parse("b:1").unwrap(), ..elastic };
        gives_up(&alone, How::HostSilent, "no host is left");
    }
}
