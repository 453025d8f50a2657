//! A job from its first attempt to its end: checks, attempts, what is said of them.

use crate::children::{self, ChildProcesses, Stream};
use crate::decide::{Decision, Failure, How, State, decide};
use crate::hosts::Hosts;
use crate::message::{ClientMessage, ExitReport, Progress, ServerMessage, VARIABLE};
use crate::monitor::{JobMonitor, Limits};
use crate::mpirun::{Start, Starter, find, variables_to_pass};
use crate::output::{self, LOG_VARIABLE};
use crate::ports::Ports;
use crate::reach::{self, Answering};
use crate::scheduler::Scheduler;
use crate::server::{Heard, Place, Server, to_channel};
use crate::setting::LaunchSettingNames;
use crate::stop_signals::{Asked, StopRequests, StopSignal};
use crate::{facts, secret};
use paceline_base::{Error, Result};
use paceline_system::machine;
use serde::Serialize;
use std::net::IpAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What is to be started, and how it is watched.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Where.
    pub hosts: Hosts,
    /// Who gave the hosts, if a scheduler did.
    pub scheduler: Option<Scheduler>,
    /// Arguments of the program, from its subcommand on.
    pub arguments: Vec<String>,
    /// Whether it writes a checkpoint when it is asked to stop.
    pub checkpoints: bool,
    /// Restarts at most.
    pub max_restarts: u32,
    /// Whether fewer processes will do.
    pub elastic: bool,
    /// How many there must be then.
    pub min_ranks: usize,
    /// The starter; found if not given.
    pub mpirun: Option<PathBuf>,
    /// Further arguments of it.
    pub mpirun_arguments: Vec<String>,
    /// Stands in for ssh.
    pub agent: Option<PathBuf>,
    /// Where processes reach this program.
    pub address: Option<IpAddr>,
    /// Where this program listens; `address` if not given.
    pub listen: Option<IpAddr>,
    /// At which port; 0: any.
    pub port: u16,
    /// Ports that this program and the processes may listen at; any if not given.
    pub ports: Option<Ports>,
    /// The network that processes use among themselves.
    pub interface: Option<String>,
    /// `NAME` or `NAME=VALUE` for the processes.
    pub environment: Vec<String>,
    /// Where the output of each process is kept, if it is.
    pub log_dir: Option<PathBuf>,
    /// Time limits.
    pub limits: Limits,
    /// What the user calls the settings, for errors and reasons.
    pub names: LaunchSettingNames,
}

/// What is told while a job goes.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "launch")]
pub enum Notice {
    /// An attempt starts.
    Starting {
        /// From 1.
        attempt: u32,
        /// `a:2,b:2`
        hosts: String,
        /// The whole command.
        command: String,
    },
    /// Something to know.
    Warning {
        /// In words.
        words: String,
    },
    /// All processes agree and begin.
    Began {
        /// From 1.
        attempt: u32,
        /// Since it was started.
        seconds: f64,
    },
    /// An attempt failed.
    Failed {
        /// From 1.
        attempt: u32,
        /// What happened.
        failure: Failure,
        /// In words.
        words: String,
    },
    /// What follows from it.
    Decided {
        /// Whether there is another attempt.
        restart: bool,
        /// Why.
        reason: String,
        /// The run that can be resumed, if there is one.
        run_dir: Option<PathBuf>,
    },
    /// The person asked for the end.
    Stopping,
    /// The end.
    Finished {
        /// Attempts in all.
        attempts: u32,
        /// Where the run is, if it said so.
        run_dir: Option<PathBuf>,
    },
}

/// Is shown a job while it goes.
pub trait LaunchView {
    /// A line of the processes.
    fn line(&self, stream: Stream, text: &str);
    /// What `launch` itself has to say.
    fn notice(&self, notice: &Notice);
    /// How far process 0 is.
    fn progress(&self, progress: &Progress);
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchEnd {
    /// All did their work.
    Done,
    /// Ended before that, as this signal asked, with a checkpoint if there was one to write.
    Stopped(StopSignal),
    /// Ended at once by this signal: on the second request, or where there was nothing to save.
    Interrupted(StopSignal),
}

/// Seconds in which processes that have done their work must end.
const FAREWELL: f64 = 30.0;

/// How long lines may outlast the starter.
const LINGER: Duration = Duration::from_secs(2);

enum Event {
    Heard(Heard),
    Line(Stream, String),
}

impl From<Heard> for Event {
    fn from(heard: Heard) -> Self {
        Self::Heard(heard)
    }
}

/// Starts a job and watches over it to its end. `stop` has requests to end: the first asks processes to write a
/// checkpoint, the second kills. `resume` gives the arguments that go on with a run.
pub fn launch(
    job: &Launch,
    resume: &dyn Fn(&Path) -> Vec<String>,
    view: &dyn LaunchView,
    stop: &StopRequests,
) -> Result<LaunchEnd> {
    let starter = find(&job.hosts, job.mpirun.as_deref(), job.scheduler == Some(Scheduler::Slurm), job.names)?;
    if job.agent.is_none() && job.scheduler.is_none() {
        reach::by_ssh(&job.hosts, job.names)?;
    }
    let interface = job.interface.as_deref();
    let interface_name =
        interface.map(|network| reach::in_network(network, job.names)).transpose()?.map(|(_, name)| name);
    let address = job.address.map_or_else(|| reach::own_address(&job.hosts, interface, job.names), Ok)?;
    if let Some(ports) = job.ports {
        ports.enough(&job.hosts, job.names)?;
    }
    let logs = job.log_dir.as_deref().map(output::folder).transpose()?;
    let program = std::env::current_exe().map_err(|e| Error::failure(format!("this program's file is gone: {e}")))?;
    let (sender, events) = channel();
    let ports = match (job.port, job.ports) {
        (0, Some(Ports { first, last })) => first..=last,
        (port, _) => port..=port,
    };
    let place = Place { listen: job.listen.unwrap_or(address), address, ports, names: job.names };
    let server = Server::listen(&place, to_channel(sender.clone()))?;
    let ports = job.ports.map(|ports| ports.behind(server.port(), &job.hosts, job.names)).transpose()?;
    // Meanwhile, since a host behind a firewall takes its time not to answer.
    let (hosts, agent, ours) = (job.hosts.clone(), job.agent.clone(), job.scheduler.is_none());
    let answering =
        (ours && !hosts.are_here()).then(|| std::thread::spawn(move || Answering::ask(&hosts, agent.as_deref())));
    let mut run = Run {
        job,
        starter,
        program,
        logs,
        interface_name,
        server,
        ports,
        asked: answering,
        answering: None,
        sender,
        events,
        view,
        stop,
    };
    run.all_attempts(resume)
}

struct Run<'a> {
    job: &'a Launch,
    starter: Starter,
    program: PathBuf,
    /// Where the output of each process is kept.
    logs: Option<PathBuf>,
    interface_name: Option<String>,
    server: Server,
    /// Of the processes, and of what starts them.
    ports: Option<Ports>,
    /// Which hosts answered when the job began, until it is known; then what it found.
    asked: Option<JoinHandle<Answering>>,
    answering: Option<Answering>,
    sender: Sender<Event>,
    events: Receiver<Event>,
    view: &'a dyn LaunchView,
    stop: &'a StopRequests,
}

/// How an attempt ended.
enum Attempt {
    Done,
    /// All ended before their work was done, as they were asked to.
    Stopped,
    Interrupted(StopSignal),
    /// It could not be watched any longer.
    Unwatched,
    Failed(Failure),
}

impl Run<'_> {
    fn all_attempts(&mut self, resume: &dyn Fn(&Path) -> Vec<String>) -> Result<LaunchEnd> {
        let job = self.job;
        let mut state = State {
            hosts: job.hosts.clone(),
            restarts: 0,
            waits: 0,
            max_restarts: job.max_restarts,
            elastic: job.elastic,
            min_ranks: job.min_ranks,
            run_dir: None,
            began: false,
            trained: false,
            stopping: false,
            earlier: Vec::new(),
            names: job.names,
        };
        let mut arguments = job.arguments.clone();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let failure = match self.attempt(attempt, &mut state, &arguments)? {
                Attempt::Done => {
                    self.view.notice(&Notice::Finished { attempts: attempt, run_dir: state.run_dir });
                    return Ok(LaunchEnd::Done);
                }
                Attempt::Stopped => {
                    self.view.notice(&Notice::Finished { attempts: attempt, run_dir: state.run_dir });
                    // Processes tell of all signals but those that a starter may send to end them.
                    return Ok(LaunchEnd::Stopped(self.stop.signal().unwrap_or(StopSignal::Terminate)));
                }
                Attempt::Interrupted(signal) => return Ok(LaunchEnd::Interrupted(signal)),
                Attempt::Unwatched => return Err(Error::internal("the channel of a job's events is closed")),
                Attempt::Failed(failure) => failure,
            };
            state.stopping = self.stop.asked().is_some();
            let (decision, reason) = decide(&state, &failure);
            let restart = decision != Decision::GiveUp;
            let words = failure.words();
            self.view.notice(&Notice::Failed { attempt, words: words.clone(), failure: failure.clone() });
            self.view.notice(&Notice::Decided { restart, reason, run_dir: state.run_dir.clone() });
            state.earlier.push(failure.clone());
            match decision {
                Decision::GiveUp if matches!(failure.how, How::Refused | How::Said(2)) => {
                    return Err(Error::user(words));
                }
                Decision::GiveUp => return Err(Error::failure(words)),
                Decision::Restart { hosts, from, pause, counts } => {
                    self.pause(pause);
                    if let Some(signal) = self.stop.signal() {
                        return Ok(LaunchEnd::Stopped(signal));
                    }
                    if let Some(dir) = &from {
                        arguments = resume(dir);
                    }
                    state.hosts = hosts;
                    (state.restarts, state.waits) =
                        if counts { (state.restarts + 1, 0) } else { (state.restarts, state.waits + 1) };
                }
            }
        }
    }

    fn pause(&self, pause: Duration) {
        let begin = Instant::now();
        while begin.elapsed() < pause && self.stop.asked().is_none() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn command(&self, attempt: u32, hosts: &Hosts, arguments: &[String], variable: &str) -> Command {
        let job = self.job;
        let name = |v: &String| v.split_once('=').map_or(v.clone(), |(n, _)| n.to_string());
        let mut set: Vec<String> = std::env::vars_os().filter_map(|(n, _)| n.into_string().ok()).collect();
        set.extend(job.environment.iter().map(name));
        set.extend(self.logs.iter().map(|_| LOG_VARIABLE.to_string()));
        let mut variables = variables_to_pass(set.iter().cloned());
        variables.extend(job.environment.iter().map(name));
        let start = Start {
            hosts,
            program: &self.program,
            arguments,
            agent: job.agent.as_deref(),
            interface: job.interface.as_deref(),
            interface_name: self.interface_name.as_deref(),
            variables: &variables,
            more: &job.mpirun_arguments,
            root: nix::unistd::geteuid().is_root(),
            ports: self.ports,
            set: &set,
        };
        let mut command = Command::new(self.starter.program(&start));
        command.args(self.starter.arguments(&start)).env(VARIABLE, variable).envs(self.starter.variables(&start));
        if std::env::var_os("UCX_LOG_FILE").is_none() {
            command.env("UCX_LOG_FILE", "stderr"); // warnings of MPICH's transport do not belong into results
        }
        command.envs(job.environment.iter().filter_map(|v| v.split_once('=')));
        if self.starter.is_shielded() {
            paceline_system::process::block_termination(&mut command);
        }
        if let Some(folder) = &self.logs {
            command.env(LOG_VARIABLE, output::variable(attempt, folder));
        }
        command
    }

    fn attempt(&mut self, attempt: u32, state: &mut State, arguments: &[String]) -> Result<Attempt> {
        let token = secret::random()?;
        let limits = self.job.limits;
        let hosts = state.hosts.clone();
        let variable = self.server.admit(attempt, &token, hosts.processes(), limits.silence);
        let command = self.command(attempt, &hosts, arguments, &variable);
        let line = std::iter::once(command.get_program()).chain(command.get_args());
        let line = line.map(|w| w.to_string_lossy()).collect::<Vec<_>>().join(" ");
        self.view.notice(&Notice::Starting { attempt, hosts: hosts.to_string(), command: line });
        let notes = state.earlier.iter().map(|f| format!("restarted: {}", f.words())).collect();
        let mut watch = Watch {
            monitor: JobMonitor::new(hosts, limits, attempt, notes).naming(self.job.names),
            attempt,
            begin: Instant::now(),
            oom: machine::oom_kills(),
            said: Default::default(),
            muted: false,
            framed: false,
            stopping: false,
        };
        let mut children =
            ChildProcesses::start(command, &token, self.starter.end_signal(), &self.sender, Event::Line)?;
        let end = self.watch(&mut watch, &mut children);
        watch.muted = true;
        self.server.cut();
        let seen = Instant::now();
        match end {
            Attempt::Interrupted(_) | Attempt::Unwatched => children.kill(),
            // It would wait for the daemon of a host that is gone.
            Attempt::Failed(Failure { how: How::HostSilent | How::Silent, .. }) => children.end(Duration::from_secs(1)),
            _ => children.end(Duration::from_secs(3)),
        }
        while let Ok(event) = self.events.try_recv() {
            self.take(&mut watch, event);
        }
        self.view.progress(&Progress::default());
        if let Some(dir) = watch.monitor.run_dir() {
            state.run_dir = Some(dir.clone());
        }
        state.trained = watch.monitor.begun();
        state.began |= state.trained;
        let Attempt::Failed(failure) = end else { return Ok(end) };
        let oom = machine::oom_kills().unwrap_or(0).saturating_sub(watch.oom.unwrap_or(u64::MAX));
        let failure = watch.monitor.explain(failure, &watch.said.make_contiguous().join("\n"), oom);
        let failure = self.outage(state, failure);
        if matches!(failure.how, How::Starter | How::Absent) {
            // Where a host is known to be away, what the starter says of it adds nothing.
            let known = state.began && failure.host.is_some();
            for text in watch.said.iter().filter(|l| !l.is_empty()) {
                match known {
                    true => tracing::debug!("{text}"),
                    false => self.view.line(Stream::Err, text),
                }
            }
        }
        tracing::debug!("everything ended in {:.2} s", seen.elapsed().as_secs_f64());
        Ok(Attempt::Failed(failure))
    }

    /// Where processes did not come up: the host that does not answer, if there is one.
    fn outage(&mut self, state: &State, failure: Failure) -> Failure {
        if state.trained || !matches!(failure.how, How::Starter | How::Absent) {
            return failure;
        }
        if let Some(asked) = self.asked.take() {
            self.answering = asked.join().ok();
        }
        let missing = self.answering.as_ref().map(|a| a.missing(&state.hosts)).unwrap_or_default();
        match reach::missing_words(&missing) {
            Some((host, why)) => Failure { process: None, host: Some(host), how: How::Absent, why, step: failure.step },
            None => failure,
        }
    }

    /// Until the attempt is over or must be ended.
    fn watch(&self, watch: &mut Watch, children: &mut ChildProcesses) -> Attempt {
        let mut looked = Instant::now();
        loop {
            if looked.elapsed() > Duration::from_secs(1) {
                // This program itself did not run (it was suspended): what came meanwhile is read before anyone is judged.
                while let Ok(event) = self.events.recv_timeout(Duration::from_millis(500)) {
                    self.take(watch, event);
                    if looked.elapsed() > Duration::from_secs(5) {
                        break;
                    }
                }
            }
            looked = Instant::now();
            match self.events.recv_timeout(Duration::from_millis(50)) {
                Ok(event) => {
                    self.take(watch, event);
                    // What else has come, before anyone is found silent; not for ever, where processes talk much.
                    for event in self.events.try_iter().take(10_000) {
                        self.take(watch, event);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Attempt::Unwatched,
            }
            match self.stop.asked() {
                None => {}
                Some(Asked::AtOnce(signal)) => return Attempt::Interrupted(signal),
                // Before the first step there is nothing to save.
                Some(Asked::Stop(signal)) if !watch.monitor.begun() || !self.job.checkpoints => {
                    return Attempt::Interrupted(signal);
                }
                Some(Asked::Stop(_)) if watch.stopping => {}
                Some(Asked::Stop(_)) => {
                    watch.stopping = true;
                    self.view.notice(&Notice::Stopping);
                    self.server.tell(&ServerMessage::Stop);
                }
            }
            let now = watch.now();
            let ended = children.ended();
            if ended.is_some() {
                // What was said before the end is still on its way: until lines have ended too, but not for ever, where
                // processes have outlived the starter.
                let begin = Instant::now();
                let quiet = || if begin.elapsed() < LINGER { Duration::from_millis(100) } else { Duration::ZERO };
                loop {
                    match self.events.recv_timeout(quiet()) {
                        Ok(event) => self.take(watch, event),
                        Err(_) if watch.monitor.has_open_lines() && begin.elapsed() < LINGER => {}
                        Err(_) => break,
                    }
                }
            }
            watch.muted |= watch.monitor.trouble().is_some();
            if let Some(signal) = ended.and_then(|status| status.signal()) {
                match self.starter {
                    Starter::Direct => watch.keep(format!("process rank 0 exited on signal {signal}")),
                    // It was killed: processes that ended, ended with it.
                    _ if !watch.monitor.has_said() && !watch.monitor.done() => return self.starter_ended(watch, ended),
                    _ => {}
                }
            }
            if let Some(failure) = watch.monitor.verdict(now, ended.is_some()) {
                return Attempt::Failed(failure);
            }
            if watch.monitor.done_since().is_some_and(|at| now - at > FAREWELL) {
                return watch.ended(); // what is left of it is ended
            }
            if let Some(status) = ended {
                if watch.monitor.done() || (watch.monitor.nobody() && status.success()) {
                    return watch.ended();
                }
                return self.starter_ended(watch, ended);
            }
        }
    }

    /// The starter has ended, and no process has told why.
    fn starter_ended(&self, watch: &Watch, status: Option<ExitStatus>) -> Attempt {
        let ended = status.map_or_else(|| "ended".into(), children::words);
        let early = if watch.monitor.nobody() { " before any process came up" } else { "" };
        if self.starter == Starter::Direct && !watch.monitor.nobody() {
            let host = Some(watch.monitor.host_of(0).into());
            return Attempt::Failed(Failure { process: Some(0), host, how: How::Died, why: ended, step: 0 });
        }
        let why = format!("{} {ended}{early}", self.starter.name());
        Attempt::Failed(Failure { process: None, host: None, how: How::Starter, why, step: 0 })
    }

    fn take(&self, watch: &mut Watch, event: Event) {
        let now = watch.now();
        match event {
            Event::Heard(Heard::Message(attempt, process, message)) if attempt == watch.attempt => {
                if let (ClientMessage::Progress(progress), 0) = (&message, process) {
                    self.view.progress(progress);
                    return;
                }
                if let ClientMessage::AskedToStop(signal) = message {
                    self.stop.hear(signal);
                    return;
                }
                let begun = watch.monitor.begun();
                if let Some(answer) = watch.monitor.hear(process, message, now, facts::clock()) {
                    for words in watch.monitor.take_warnings() {
                        self.view.notice(&Notice::Warning { words });
                    }
                    self.server.tell(&answer);
                }
                if watch.monitor.begun() && !begun {
                    self.view.notice(&Notice::Began { attempt, seconds: now });
                }
            }
            Event::Heard(Heard::Broke(attempt, process)) if attempt == watch.attempt => {
                watch.monitor.broke(process, now)
            }
            Event::Heard(_) => {}
            Event::Line(Stream::Out, text) if self.starter.says(&text) => watch.keep(text),
            Event::Line(Stream::Out, text) => self.view.line(Stream::Out, &text),
            Event::Line(Stream::Err, text) => {
                if let Some(report) = ExitReport::parse(&text) {
                    watch.monitor.left(report, now);
                    return;
                }
                let frame = self.starter.frames(&text);
                let own = frame || watch.framed || self.starter.mutters(&text);
                watch.framed ^= frame;
                if !own && !watch.muted && !watch.monitor.nobody() {
                    self.view.line(Stream::Err, &text);
                }
                watch.keep(text);
            }
        }
    }
}

/// What is known of an attempt.
struct Watch {
    monitor: JobMonitor,
    attempt: u32,
    begin: Instant,
    /// Kills for memory in this process's control group before it.
    oom: Option<u64>,
    /// What came on standard error, and what the starter said, for causes.
    said: std::collections::VecDeque<String>,
    /// Something failed: what is said from now on are echoes.
    muted: bool,
    /// Within a text of the starter's own, which is kept for when nothing better is known.
    framed: bool,
    /// All processes were asked to stop.
    stopping: bool,
}

impl Watch {
    fn now(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    /// How it ended, when all have sent their last message.
    fn ended(&self) -> Attempt {
        if self.monitor.stopped() { Attempt::Stopped } else { Attempt::Done }
    }

    /// The starter's own words come last.
    fn keep(&mut self, text: String) {
        if self.said.len() == 200 {
            self.said.pop_front();
        }
        self.said.push_back(text);
    }
}
