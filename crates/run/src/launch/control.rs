//! The end of the line at `launch`: a listener, and a thread for every process that answers its signs of life.

use super::word::{Hello, Order, Word, line};
use paceline_base::{Error, Result};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The longest line that is read.
const LONGEST: u64 = 1 << 20;

/// What happened on the lines.
pub enum Heard {
    /// A process of this attempt said something.
    Word(u32, usize, Word),
    /// Its line ended.
    Broke(u32, usize),
}

/// The attempt that may connect.
struct Open {
    attempt: u32,
    token: String,
    processes: usize,
    timeout: f64,
    lines: BTreeMap<usize, TcpStream>,
}

/// Listens as long as it lives.
pub struct Control {
    address: SocketAddr,
    open: Arc<Mutex<Option<Open>>>,
}

fn lock(open: &Mutex<Option<Open>>) -> MutexGuard<'_, Option<Open>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Control {
    /// Listens at this address; port 0 means any.
    pub fn listen(address: IpAddr, port: u16, heard: impl Fn(Heard) + Send + Clone + 'static) -> Result<Self> {
        // Where only this machine takes part nobody else is to reach the port. Otherwise the address that others use need
        // not be one of ours (a forwarded port).
        let bind: IpAddr = match address {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(_) => [0, 0, 0, 0].into(),
            IpAddr::V6(_) => [0u16; 8].into(),
        };
        let cannot = |e: std::io::Error| Error::user(format!("cannot listen at port {port}: {e}; give another --port"));
        let listener = TcpListener::bind((bind, port)).map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let open: Arc<Mutex<Option<Open>>> = Arc::default();
        let known = open.clone();
        let accept = move || {
            for stream in listener.incoming().flatten() {
                let (known, heard) = (known.clone(), heard.clone());
                let _ = std::thread::Builder::new().name("line".into()).spawn(move || {
                    let _ = serve(stream, &known, &heard);
                });
            }
        };
        std::thread::Builder::new()
            .name("lines".into())
            .spawn(accept)
            .map_err(|e| Error::failure(format!("a thread cannot start: {e}")))?;
        Ok(Self { address: (address, port).into(), open })
    }

    /// Lets the processes of an attempt connect, and gives what their variable must be.
    pub fn admit(&self, attempt: u32, token: &str, processes: usize, timeout: f64) -> String {
        *lock(&self.open) = Some(Open { attempt, token: token.into(), processes, timeout, lines: BTreeMap::new() });
        format!("{}:{token}", self.address)
    }

    /// Says an order to all that are connected.
    pub fn tell(&self, order: &Order) {
        let text = line(order);
        if let Some(open) = &mut *lock(&self.open) {
            for stream in open.lines.values_mut() {
                let _ = stream.write_all(text.as_bytes());
            }
        }
    }

    /// Ends all lines; processes end with them.
    pub fn cut(&self) {
        if let Some(open) = lock(&self.open).take() {
            open.lines.values().for_each(|s| drop(s.shutdown(Shutdown::Both)));
        }
    }
}

fn read<R: BufRead>(reader: &mut R, text: &mut String) -> std::io::Result<bool> {
    text.clear();
    reader.by_ref().take(LONGEST).read_line(text)?;
    Ok(text.ends_with('\n'))
}

fn serve(stream: TcpStream, open: &Mutex<Option<Open>>, heard: &impl Fn(Heard)) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?; // strangers do not keep a thread
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut text = String::new();
    if !read(&mut reader, &mut text)? {
        return Ok(());
    }
    let Ok(Word::Hello(hello)) = serde_json::from_str::<Word>(&text) else { return Ok(()) };
    let Some(attempt) = welcome(&stream, open, &hello)? else { return Ok(()) };
    stream.set_read_timeout(None)?;
    let process = hello.process;
    heard(Heard::Word(attempt, process, Word::Hello(hello)));
    while read(&mut reader, &mut text).unwrap_or(false) {
        let Ok(word) = serde_json::from_str::<Word>(&text) else { break };
        if matches!(word, Word::Beat(_))
            && let Some(open) = &mut *lock(open)
            && open.attempt == attempt
            && let Some(stream) = open.lines.get_mut(&process)
        {
            let _ = stream.write_all(line(&Order::Heard).as_bytes());
        }
        heard(Heard::Word(attempt, process, word));
    }
    heard(Heard::Broke(attempt, process));
    Ok(())
}

/// Takes a process in, if it is of this attempt and the first of its number.
fn welcome(stream: &TcpStream, open: &Mutex<Option<Open>>, hello: &Hello) -> std::io::Result<Option<u32>> {
    let mut open = lock(open);
    let Some(open) = open.as_mut() else { return Ok(None) };
    let fits = hello.token == open.token && hello.process < open.processes && hello.processes == open.processes;
    if !fits || open.lines.contains_key(&hello.process) {
        return Ok(None);
    }
    let mut out = stream.try_clone()?;
    out.write_all(line(&Order::Welcome { timeout: open.timeout }).as_bytes())?;
    open.lines.insert(hello.process, out);
    Ok(Some(open.attempt))
}

/// Hands everything on to a channel.
pub fn to_channel<T: From<Heard> + Send + 'static>(sender: Sender<T>) -> impl Fn(Heard) + Send + Clone + 'static {
    move |heard| drop(sender.send(heard.into()))
}
