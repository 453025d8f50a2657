//! The ranks on their way through a step: when each is free, which messages are under way, and which links are taken.

use super::path::{Event, Stretch, What, critical};
use crate::cost::{Cluster, KernelShape};
use crate::hash::HashMap;
use crate::program::{Item, Program};
use crate::schedule::{Task, TaskKind};
use paceline_base::TimeSplit;
use paceline_base::collective::{Collective, Encoding, Exchange, elements_moved};
use paceline_base::units::DType;

/// A message that was begun.
#[derive(Clone, Copy)]
struct Message {
    /// When it is there, or when all have come to it.
    there: f64,
    /// Seconds that whoever waits for it has to do then, on its own thread.
    own: f64,
    what: What,
    event: Option<usize>,
}

/// A direction of a connection: when it is free again, and what it is taken by until then.
#[derive(Clone, Copy, Default)]
struct Port {
    free: f64,
    event: Option<usize>,
}

/// Numbers pass between processes from one time to another.
#[derive(Clone, Copy)]
struct Flight {
    begin: f64,
    end: f64,
    slows: f64,
}

pub(super) struct Walk<'a> {
    cluster: &'a Cluster,
    /// Of the floats of each rank.
    dtypes: &'a [DType],
    /// When each rank is free, and the event that it is free after.
    free: Vec<f64>,
    last: Vec<Option<usize>>,
    /// Of one step.
    pub split: Vec<TimeSplit>,
    pub bytes: Vec<Vec<u64>>,
    /// The messages of the step, by number.
    done: Vec<Message>,
    /// The same of the step before.
    before: Vec<Message>,
    /// By host: out of it, into it, and between its processes in each direction of a pair.
    ports: Vec<[Port; 4]>,
    /// By process, in the order of their beginnings.
    flights: Vec<Vec<Flight>>,
    events: Vec<Event>,
    /// What kernels cost, by host.
    known: HashMap<(usize, KernelShape), f64>,
}

/// The share of computing that an exchange takes at most: where moving numbers takes more of a core than it takes time, it goes on for longer beside ranks that
/// compute.
const MOST: f64 = 0.9;

/// Directions of [`Walk::ports`].
const OUT: usize = 0;
const IN: usize = 1;
const UP: usize = 2;
const DOWN: usize = 3;

impl<'a> Walk<'a> {
    pub(super) fn new(cluster: &'a Cluster, dtypes: &'a [DType]) -> Self {
        let ranks = cluster.ranks();
        let processes = cluster.places.iter().map(|p| p.process + 1).max().unwrap_or(0);
        Self {
            cluster,
            dtypes,
            free: vec![0.0; ranks],
            last: vec![None; ranks],
            split: vec![TimeSplit::default(); ranks],
            bytes: vec![vec![0; ranks]; ranks],
            done: Vec::new(),
            before: Vec::new(),
            ports: vec![[Port::default(); 4]; cluster.hosts.len()],
            flights: vec![Vec::new(); processes],
            events: Vec::new(),
            known: HashMap::default(),
        }
    }

    /// The next step begins.
    pub(super) fn begin(&mut self) {
        std::mem::swap(&mut self.before, &mut self.done);
        self.done.clear();
        self.split.fill(TimeSplit::default());
        self.bytes.iter_mut().for_each(|row| row.fill(0));
        for rank in 0..self.free.len() {
            let earliest = self.free[rank];
            self.flights[self.cluster.places[rank].process].retain(|f| f.end > earliest);
            self.spend(rank, What::Step, self.cluster.host(rank).step);
        }
    }

    /// When the last rank is free.
    pub(super) fn now(&self) -> f64 {
        self.free.iter().copied().fold(0.0, f64::max)
    }

    /// What the time since `from` was spent on.
    pub(super) fn critical(&self, from: f64) -> Vec<Stretch> {
        let last = (0..self.free.len()).max_by(|&a, &b| self.free[a].total_cmp(&self.free[b]));
        critical(&self.events, last.and_then(|rank| self.last[rank]), from)
    }

    pub(super) fn on_rank(&mut self, rank: usize, item: &Item<'_>, program: &Program<'_>) {
        match item {
            Item::Wait(number) => self.wait(rank, self.done.get(*number as usize).copied()),
            Item::Finish(bucket) => {
                let left = program.left_over.iter().filter(|(b, _)| b == bucket);
                for item in left.flat_map(|(_, items)| items) {
                    match item {
                        Item::Wait(number) => self.wait(rank, self.before.get(*number as usize).copied()),
                        Item::Do(placed) => self.task(placed.task, placed.number),
                        Item::Finish(_) => {}
                    }
                }
            }
            Item::Do(placed) => self.task(placed.task, placed.number),
        }
    }

    fn wait(&mut self, rank: usize, message: Option<Message>) {
        let Some(message) = message else { return };
        if message.there > self.free[rank] {
            self.split[rank].wait += message.there - self.free[rank];
            self.free[rank] = message.there;
            self.last[rank] = message.event;
        }
        if message.own > 0.0 {
            self.spend(rank, message.what, message.own);
        }
    }

    /// A rank does something by itself.
    fn spend(&mut self, rank: usize, what: What, seconds: f64) {
        let begin = self.free[rank];
        let end = match what {
            What::Compute(_) | What::Update => self.slowed(rank, begin, seconds),
            _ => begin + seconds,
        };
        let split = &mut self.split[rank];
        match what {
            What::Step => {}
            What::Input => split.input += end - begin,
            What::Compute(_) => split.compute += end - begin,
            What::Update => split.update += end - begin,
            What::Communicate(_) => split.transfer += end - begin,
        }
        self.free[rank] = end;
        self.last[rank] = Some(self.event(Event { rank, what, begin, end, after: self.last[rank] }));
    }

    fn event(&mut self, event: Event) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }

    /// When computing of so many seconds ends that begins then: slower while numbers pass between processes, which the same cores move.
    fn slowed(&self, rank: usize, begin: f64, seconds: f64) -> f64 {
        let (mut now, mut left) = (begin, seconds);
        for flight in &self.flights[self.cluster.places[rank].process] {
            if flight.end <= now || flight.slows <= 0.0 {
                continue;
            }
            let before = (flight.begin - now).max(0.0);
            if left <= before {
                break;
            }
            (now, left) = (now + before, left - before);
            let within = (flight.end - now) * (1.0 - flight.slows);
            if left <= within {
                return now + left / (1.0 - flight.slows);
            }
            (now, left) = (flight.end, left - within);
        }
        now + left
    }

    pub(super) fn task(&mut self, task: &Task, number: Option<u64>) {
        let message = match &task.kind {
            TaskKind::Transfer { to, elements, .. } => {
                let size = elements.dtype(self.dtypes[task.rank]).size();
                self.transfer(task.rank, *to, task.size * size)
            }
            TaskKind::Collective { what, group, .. } => self.collective(*what, group, task.size),
            kind => {
                let what = match kind {
                    TaskKind::Compute(call) => What::Compute(call.kernel.name()),
                    TaskKind::Update(_) => What::Update,
                    _ => What::Input,
                };
                let seconds = self.seconds(task);
                self.spend(task.rank, what, seconds);
                return;
            }
        };
        debug_assert_eq!(number, Some(self.done.len() as u64), "messages come in the order of their numbers");
        self.done.push(message);
    }

    fn seconds(&mut self, task: &Task) -> f64 {
        let Some(call) = task.call() else { return self.cluster.seconds(task) };
        let key = (self.cluster.places[task.rank].host, KernelShape::of(&call.kernel));
        let cluster = self.cluster;
        *self.known.entry(key).or_insert_with(|| cluster.seconds(task))
    }

    fn transfer(&mut self, from: usize, to: usize, bytes: usize) -> Message {
        let n = bytes as u64;
        self.bytes[from][to] += n;
        let (a, b) = (self.cluster.places[from], self.cluster.places[to]);
        let what = What::Communicate("a transfer");
        let later = if self.free[from] >= self.free[to] { from } else { to };
        let begin = self.free[later];
        if a.process == b.process {
            // Whoever waits for it copies, or waits until it is copied.
            let own = self.cluster.host(to).threads.seconds(n as f64);
            return Message { there: begin, own, what, event: self.last[later] };
        }
        let link = self.cluster.link(from, to);
        let (latency, taken) = (link.latency, n as f64 / link.bandwidth);
        let ports = match a.host == b.host {
            true => [(a.host, if a.process < b.process { UP } else { DOWN }); 2],
            false => [(a.host, OUT), (b.host, IN)],
        };
        self.send(&ports, later, begin, latency + taken, taken, what)
    }

    fn collective(&mut self, exchange: Exchange, group: &[usize], elements: usize) -> Message {
        let members = group.len();
        let half = exchange.encoding == Encoding::Bf16 && self.dtypes[group[0]] == DType::F32;
        for to in 0..members {
            for from in 0..members {
                let n = (elements_moved(exchange.what, elements, members, from, to) * self.dtypes[group[from]].size())
                    as u64;
                self.bytes[group[from]][group[to]] += if half { n / 2 } else { n };
            }
        }
        let what = What::Communicate(match exchange.what {
            Collective::AllReduce => "all-reduce",
            Collective::ReduceScatter => "reduce-scatter",
            Collective::AllGather => "all-gather",
        });
        let later = |a: usize, b: usize| if self.free[b] > self.free[a] { b } else { a };
        let latest = group.iter().copied().reduce(later).unwrap_or(0);
        let begin = self.free[latest];
        let cost = self.cluster.collective(exchange, elements, group);
        let Some(beside) = cost.beside else {
            return Message { there: begin, own: cost.own, what, event: self.last[latest] };
        };
        let processes = self.cluster.processes(group);
        let mut ports: Vec<(usize, usize)> = Vec::new();
        let several = |host: usize| processes.iter().filter(|(r, _)| self.cluster.places[*r].host == host).count() > 1;
        for &(rank, _) in &processes {
            let host = self.cluster.places[rank].host;
            if processes.iter().any(|(r, _)| self.cluster.places[*r].host != host) {
                ports.extend([(host, OUT), (host, IN)]);
            }
            if several(host) {
                ports.extend([(host, UP), (host, DOWN)]);
            }
        }
        let message = self.send(&ports, latest, begin, beside.seconds, beside.taken, what);
        let begin = message.there - beside.seconds;
        let end = begin + beside.seconds.max(beside.lost / MOST);
        let flight = Flight { begin, end, slows: beside.lost / (end - begin).max(f64::MIN_POSITIVE) };
        for (rank, _) in processes {
            self.flights[self.cluster.places[rank].process].push(flight);
        }
        message
    }

    /// Books ports: a message begins when all of them are free, and takes them for `taken` of its `seconds`.
    fn send(
        &mut self,
        ports: &[(usize, usize)],
        rank: usize,
        ready: f64,
        seconds: f64,
        taken: f64,
        what: What,
    ) -> Message {
        let (mut begin, mut after) = (ready, self.last[rank]);
        for &(host, port) in ports {
            let port = self.ports[host][port];
            if port.free > begin {
                (begin, after) = (port.free, port.event);
            }
        }
        let there = begin + seconds;
        let event = Some(self.event(Event { rank, what, begin, end: there, after }));
        for &(host, port) in ports {
            self.ports[host][port] = Port { free: begin + taken, event };
        }
        Message { there, own: 0.0, what, event }
    }
}
