//! The end of the line at `launch`: a listener, and a thread for every process that has proved itself.
//!
//! Whoever connects is a stranger until then. One thread keeps all strangers, reads what they send without ever waiting
//! for one of them, and shows them the door after [`DEADLINE`], or when more than [`STRANGERS`] have come after them. So
//! that port scans, and people who hold connections open, cost no threads, few descriptors, and no process its turn.

use crate::message::{ClientMessage, Hello, ServerMessage, line};
use crate::secret::{self, Side, proof, same};
use crate::setting::{LaunchSetting, LaunchSettingNames};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use paceline_base::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest line that is read of a process, and of a stranger.
const LONGEST: u64 = 1 << 20;
const LONGEST_HELLO: usize = 4096;

/// Strangers at a time; the one that has been here longest leaves when another comes.
const STRANGERS: usize = 64;

/// How long a stranger may take in all to prove itself: processes take milliseconds.
const DEADLINE: Duration = Duration::from_secs(5);

/// How long to leave a listener alone that cannot accept because this process has no descriptors left.
const BACK_OFF: Duration = Duration::from_millis(50);

/// What happened on the lines.
pub(crate) enum Heard {
    /// A process of this attempt said something.
    Message(u32, usize, ClientMessage),
    /// Its line ended.
    Broke(u32, usize),
}

/// The attempt that may connect.
struct Open {
    attempt: u32,
    token: String,
    processes: usize,
    timeout: f64,
    lines: BTreeMap<usize, Arc<TcpStream>>,
}

type Shared = Mutex<Option<Open>>;

/// Listens as long as it lives.
pub(crate) struct Server {
    address: SocketAddr,
    open: Arc<Shared>,
}

fn lock(open: &Shared) -> MutexGuard<'_, Option<Open>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where to listen, and under which address others reach it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// An address of this machine.
    pub listen: IpAddr,
    /// What processes are told.
    pub address: IpAddr,
    /// The first of these that is free; `0..=0`: any.
    pub ports: RangeInclusive<u16>,
    /// What the user calls the settings.
    pub names: LaunchSettingNames,
}

impl Place {
    /// At this address, at any port.
    #[cfg(test)]
    pub(crate) fn at(address: IpAddr) -> Self {
        Self { listen: address, address, ports: 0..=0, names: LaunchSettingNames::default() }
    }

    fn bind(&self) -> Result<TcpListener> {
        let mut last = None;
        for port in self.ports.clone() {
            match TcpListener::bind((self.listen, port)) {
                Ok(listener) => return Ok(listener),
                Err(e) => last = Some(e),
            }
        }
        let name = |setting| self.names.of(setting);
        let Some(e) = last else {
            return Err(Error::user(format!("{} has no port", name(LaunchSetting::Ports))));
        };
        if e.kind() == ErrorKind::AddrNotAvailable {
            return Err(Error::user(format!(
                "{} is not an address of this machine (`ip addr` shows those it has); give another {}, or, if others \
                 reach this machine under that one (a forwarded port), {} with one of its own",
                self.listen,
                name(LaunchSetting::Address),
                name(LaunchSetting::Listen)
            )));
        }
        let (first, last) = (self.ports.start(), self.ports.end());
        let port = if first == last { format!("port {first}") } else { format!("any port of {first}-{last}") };
        Err(Error::user(format!(
            "cannot listen at {port} of {}: {e}; give another {} or {}",
            self.listen,
            name(LaunchSetting::Port),
            name(LaunchSetting::Ports)
        )))
    }
}

impl Server {
    /// Listens at a place.
    pub(crate) fn listen(place: &Place, heard: impl Fn(Heard) + Send + Clone + 'static) -> Result<Self> {
        let listener = place.bind()?;
        let cannot = |e: std::io::Error| Error::failure(format!("cannot listen at {}: {e}", place.listen));
        listener.set_nonblocking(true).map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let open: Arc<Shared> = Arc::default();
        let known = Arc::downgrade(&open);
        std::thread::Builder::new()
            .name("lines".into())
            .spawn(move || receive_strangers(&listener, &known, &heard))
            .map_err(|e| Error::failure(format!("a thread cannot start: {e}")))?;
        Ok(Self { address: (place.address, port).into(), open })
    }

    /// The port at which it listens.
    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Lets the processes of an attempt connect, and gives what their variable must be.
    pub(crate) fn admit(&self, attempt: u32, token: &str, processes: usize, timeout: f64) -> String {
        *lock(&self.open) = Some(Open { attempt, token: token.into(), processes, timeout, lines: BTreeMap::new() });
        format!("{}:{token}", self.address)
    }

    /// Sends a message to all that are connected.
    pub(crate) fn tell(&self, message: &ServerMessage) {
        let text = line(message);
        if let Some(open) = &mut *lock(&self.open) {
            for stream in open.lines.values() {
                let _ = (&**stream).write_all(text.as_bytes());
            }
        }
    }

    /// Ends all lines; processes end with them.
    pub(crate) fn cut(&self) {
        if let Some(open) = lock(&self.open).take() {
            open.lines.values().for_each(|s| drop(s.shutdown(Shutdown::Both)));
        }
    }
}

/// Somebody who has not proved yet to be a process of the job.
struct Stranger {
    stream: TcpStream,
    since: Instant,
    /// The random number that it must answer.
    challenge: String,
    text: Vec<u8>,
}

impl Stranger {
    fn new(stream: TcpStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        stream.set_nodelay(true).ok()?;
        let challenge = secret::random().ok()?;
        // A new connection has room for so little: this does not wait, and fails only where nobody is there.
        (&stream).write_all(line(&ServerMessage::Challenge { nonce: challenge.clone() }).as_bytes()).ok()?;
        Some(Self { stream, since: Instant::now(), challenge, text: Vec::new() })
    }

    /// Reads what has come: false when the connection is over, or says too much.
    fn read(&mut self) -> bool {
        let mut block = [0; 1024];
        loop {
            match self.stream.read(&mut block) {
                Ok(0) => return false,
                Ok(n) => self.text.extend_from_slice(&block[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return self.text.len() <= LONGEST_HELLO,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
            if self.text.len() > LONGEST_HELLO {
                return false;
            }
        }
    }

    /// The end of its first line.
    fn whole(&self) -> Option<usize> {
        self.text.iter().position(|&b| b == b'\n')
    }
}

fn receive_strangers(listener: &TcpListener, known: &Weak<Shared>, heard: &(impl Fn(Heard) + Send + Clone + 'static)) {
    let mut strangers: VecDeque<Stranger> = VecDeque::new();
    loop {
        // Looks up once a second, to end with its owner.
        let left = strangers.front().map_or(DEADLINE, |s| DEADLINE.saturating_sub(s.since.elapsed()));
        let wait = left.min(Duration::from_secs(1)).as_millis() as u16 + 1;
        let mut watched = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        watched.extend(strangers.iter().map(|s| PollFd::new(s.stream.as_fd(), PollFlags::POLLIN)));
        let polled = poll(&mut watched, PollTimeout::from(wait));
        let ready: Vec<bool> = watched.iter().map(|w| polled.is_ok() && w.any().unwrap_or(false)).collect();
        if polled.is_err() {
            std::thread::sleep(BACK_OFF); // interrupted, or out of memory: not in a circle
        }
        let Some(open) = known.upgrade() else { return };
        let mut kept = VecDeque::with_capacity(strangers.len());
        for (mut stranger, ready) in strangers.drain(..).zip(&ready[1..]) {
            if (*ready && !stranger.read()) || stranger.since.elapsed() >= DEADLINE {
                continue;
            }
            match stranger.whole() {
                Some(end) => greet(stranger, end, &open, heard),
                None => kept.push_back(stranger),
            }
        }
        strangers = kept;
        if ready[0] {
            accept(listener, &mut strangers);
        }
    }
}

/// Takes in who has come, not more at a time than there may be.
fn accept(listener: &TcpListener, strangers: &mut VecDeque<Stranger>) {
    for _ in 0..STRANGERS {
        match listener.accept() {
            Ok((stream, _)) => {
                if strangers.len() >= STRANGERS {
                    strangers.pop_front();
                }
                strangers.extend(Stranger::new(stream));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => return,
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(_) => {
                // No descriptors: those of strangers are given up first, and the rest may take a moment.
                strangers.pop_front();
                std::thread::sleep(BACK_OFF);
                return;
            }
        }
    }
}

/// A stranger has said its first line: it becomes a process of the job, with a thread of its own, or goes.
fn greet(stranger: Stranger, end: usize, open: &Arc<Shared>, heard: &(impl Fn(Heard) + Send + Clone + 'static)) {
    let Stranger { stream, challenge, mut text, .. } = stranger;
    let rest = text.split_off(end + 1);
    let Ok(ClientMessage::Hello(hello)) = serde_json::from_slice::<ClientMessage>(&text) else { return };
    let stream = Arc::new(stream);
    let welcomed = welcome(&stream, open, &hello, &challenge);
    let Some(attempt) = welcomed else {
        let _ = (&*stream).write_all(line(&ServerMessage::Unknown).as_bytes());
        return;
    };
    let (open, heard) = (open.clone(), heard.clone());
    let process = hello.process;
    let tell = heard.clone();
    let work = move || {
        heard(Heard::Message(attempt, process, ClientMessage::Hello(hello)));
        serve(&stream, rest, &open, (attempt, process), &heard);
        heard(Heard::Broke(attempt, process));
    };
    if std::thread::Builder::new().name("line".into()).spawn(work).is_err() {
        tell(Heard::Broke(attempt, process)); // with the stream, which the thread would have held
    }
}

/// Takes a process in, if it is of this attempt, knows the token, and is the first of its number.
fn welcome(stream: &Arc<TcpStream>, open: &Shared, hello: &Hello, challenge: &str) -> Option<u32> {
    let mut open = lock(open);
    let open = open.as_mut()?;
    let right = proof(&open.token, Side::Process(hello.process, hello.processes), challenge, &hello.nonce);
    let fits = same(&right, &hello.proof) && hello.process < open.processes && hello.processes == open.processes;
    if !fits || open.lines.contains_key(&hello.process) {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_write_timeout(Some(Duration::from_secs(5))).ok()?;
    let answer = ServerMessage::Welcome {
        timeout: open.timeout,
        proof: proof(&open.token, Side::Launch, challenge, &hello.nonce),
        folder: std::env::current_dir().unwrap_or_else(|_| PathBuf::new()),
    };
    (&**stream).write_all(line(&answer).as_bytes()).ok()?;
    open.lines.insert(hello.process, stream.clone());
    Some(open.attempt)
}

fn serve(stream: &TcpStream, begun: Vec<u8>, open: &Shared, (attempt, process): (u32, usize), heard: &impl Fn(Heard)) {
    let mut reader = BufReader::new(Cursor::new(begun).chain(stream));
    let mut text = String::new();
    while read(&mut reader, &mut text).unwrap_or(false) {
        let Ok(message) = serde_json::from_str::<ClientMessage>(&text) else { break };
        if matches!(message, ClientMessage::Heartbeat(_))
            && let Some(open) = &*lock(open)
            && open.attempt == attempt
            && let Some(mut stream) = open.lines.get(&process).map(|s| &**s)
        {
            let _ = stream.write_all(line(&ServerMessage::Heard).as_bytes());
        }
        heard(Heard::Message(attempt, process, message));
    }
}

fn read<R: BufRead>(reader: &mut R, text: &mut String) -> std::io::Result<bool> {
    text.clear();
    reader.by_ref().take(LONGEST).read_line(text)?;
    Ok(text.ends_with('\n'))
}

/// Hands everything on to a channel.
pub(crate) fn to_channel<T: From<Heard> + Send + 'static>(
    sender: Sender<T>,
) -> impl Fn(Heard) + Send + Clone + 'static {
    move |heard| drop(sender.send(heard.into()))
}
