//! Whether hosts can be reached, and at which address they reach us: asked before anything starts, and again when a job
//! does not come up.

use crate::hosts::{Hosts, is_here};
use crate::setting::{LaunchSetting, LaunchSettingNames};
use paceline_base::{Error, Result};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that every other host has an address and answers where ssh listens. All at once.
pub(crate) fn by_ssh(hosts: &Hosts, names: LaunchSettingNames) -> Result<()> {
    std::thread::scope(|scope| {
        let others = hosts.all().iter().filter(|h| !is_here(&h.name));
        let asked: Vec<_> = others.map(|h| scope.spawn(move || one_by_ssh(&h.name, names))).collect();
        asked.into_iter().try_for_each(|a| a.join().unwrap_or_else(|_| Err(Error::internal("a check panicked"))))
    })
}

fn one_by_ssh(host: &str, names: LaunchSettingNames) -> Result<()> {
    let agent = names.of(LaunchSetting::Agent);
    // ssh may know the host under another address and port, or behind another host.
    let said = Command::new("ssh").args(["-G", "--", host]).stdin(Stdio::null()).output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).map_err(|e| {
        Error::user(format!(
            "ssh cannot be run ({e}), and {host} is another host; install it, or give launch another way ({agent} PATH)"
        ))
    })?;
    let Some((name, port)) = destination(&said, host) else { return Ok(()) };
    let list = names.of(LaunchSetting::Hosts);
    let unknown = |why: String| Error::user(format!("host {host} is not known: {why}; check the name in {list}"));
    let addresses: Vec<SocketAddr> = (name.as_str(), port).to_socket_addrs().map_err(|e| unknown(plain(&e)))?.collect();
    let mut last = None;
    for address in &addresses {
        match TcpStream::connect_timeout(address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(e) => last = Some(e),
        }
    }
    let why = last.map_or_else(|| "no address".into(), |e| plain(&e));
    Err(Error::user(format!(
        "host {host} does not answer at port {port} ({why}); start sshd there, open the port, or give launch another way ({agent} PATH)"
    )))
}

/// Other hosts, and where they answered before anything was started: at least by saying that no program listens there.
/// A host that never answers (a firewall) is not found missing later.
pub(crate) struct Answering {
    hosts: Vec<(String, SocketAddr)>,
    /// Stands in for ssh.
    agent: Option<PathBuf>,
}

impl Answering {
    /// Asks all hosts at once.
    pub(crate) fn ask(hosts: &Hosts, agent: Option<&Path>) -> Self {
        let others: Vec<&str> = hosts.all().iter().map(|h| h.name.as_str()).filter(|name| !is_here(name)).collect();
        let ask = |name: &str| {
            let at = place(name, agent)?;
            answers(at).is_ok().then(|| (name.to_string(), at))
        };
        let found = at_once(&others, |name| ask(name));
        Self { hosts: found.into_iter().flatten().collect(), agent: agent.map(PathBuf::from) }
    }

    /// Those of `hosts` that do not answer now, with why: at their port, or, if all do, when a program is to run there.
    pub(crate) fn missing(&self, hosts: &Hosts) -> Vec<(String, String)> {
        let wanted = |name: &str| hosts.all().iter().any(|h| h.name == name);
        let known: Vec<&(String, SocketAddr)> = self.hosts.iter().filter(|(name, _)| wanted(name)).collect();
        let silent = at_once(&known, |(name, at)| answers(*at).err().map(|e| (name.clone(), plain(&e))));
        let silent: Vec<_> = silent.into_iter().flatten().collect();
        if !silent.is_empty() {
            return silent;
        }
        let others: Vec<&str> = hosts.all().iter().map(|h| h.name.as_str()).filter(|name| !is_here(name)).collect();
        at_once(&others, |name| runs_nothing(name, self.agent.as_deref())).into_iter().flatten().collect()
    }
}

/// The same for all, each in a thread.
fn at_once<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let asked: Vec<_> = all.iter().map(|one| scope.spawn(|| work(one))).collect();
        asked.into_iter().filter_map(|a| a.join().ok()).collect()
    })
}

/// Where a host's ssh would be; none if it cannot be known.
fn place(name: &str, agent: Option<&Path>) -> Option<SocketAddr> {
    let (host, port) = match agent {
        Some(_) => (name.to_string(), 22),
        None => {
            let said = Command::new("ssh").args(["-G", "--", name]).stdin(Stdio::null()).output().ok()?;
            destination(&String::from_utf8_lossy(&said.stdout), name)?
        }
    };
    (host.as_str(), port).to_socket_addrs().ok()?.next()
}

/// A host that says that nobody listens is there.
fn answers(at: SocketAddr) -> std::io::Result<()> {
    match TcpStream::connect_timeout(&at, PATIENCE) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => Ok(()),
        other => other.map(drop),
    }
}

/// The host and why, if a program cannot be run there.
fn runs_nothing(name: &str, agent: Option<&Path>) -> Option<(String, String)> {
    let mut command = match agent {
        Some(agent) => Command::new(agent),
        None => {
            let mut ssh = Command::new("ssh");
            ssh.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--"]);
            ssh
        }
    };
    let child = command.args([name, "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let why = child.map_err(|e| plain(&e)).and_then(|child| ended_well(child, 2 * PATIENCE)).err()?;
    Some((name.into(), why))
}

/// Whether a program ends with exit code 0 in time; if not, its last words.
fn ended_well(mut child: Child, patience: Duration) -> std::result::Result<(), String> {
    let begin = Instant::now();
    while begin.elapsed() < patience {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => {
                let mut said = String::new();
                if let Some(stderr) = &mut child.stderr {
                    let _ = std::io::Read::read_to_string(stderr, &mut said);
                }
                return Err(said.lines().last().map_or_else(|| super::children::words(status), String::from));
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(20)),
            Err(e) => return Err(plain(&e)),
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("no answer".into())
}

/// "host b does not answer (no route to host), nor does c".
pub(crate) fn missing_words(missing: &[(String, String)]) -> Option<(String, String)> {
    let ((first, why), rest) = missing.split_first()?;
    let others: Vec<&str> = rest.iter().map(|(name, _)| name.as_str()).collect();
    let nor = if others.is_empty() { String::new() } else { format!(", nor does {}", others.join(", ")) };
    Some((first.clone(), format!("does not answer ({why}){nor}")))
}

fn plain(e: &std::io::Error) -> String {
    e.to_string().replace("failed to lookup address information: ", "").to_lowercase()
}

/// Address and port that `ssh -G` names; none if the way leads through another host.
fn destination(said: &str, host: &str) -> Option<(String, u16)> {
    let value = |key: &str| said.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(' '));
    let through = ["proxyjump", "proxycommand"].iter().any(|k| value(k).is_some_and(|v| v != "none"));
    let port = value("port").and_then(|p| p.parse().ok()).unwrap_or(22);
    (!through).then(|| (value("hostname").unwrap_or(host).to_string(), port))
}

/// The address of this machine that the hosts reach: this machine's own for itself, else that from which packets to the
/// first other host leave, or the one in the given network.
pub(crate) fn own_address(hosts: &Hosts, network: Option<&str>, names: LaunchSettingNames) -> Result<IpAddr> {
    if hosts.are_here() {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    if let Some(network) = network {
        return in_network(network, names).map(|(address, _)| address);
    }
    let other = hosts.all().iter().find(|h| !is_here(&h.name)).map_or("", |h| &h.name);
    let routed = (other, 9).to_socket_addrs().ok().and_then(|mut all| {
        let to = all.next()?;
        let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).ok()?;
        socket.connect(to).ok()?; // sends nothing
        Some(socket.local_addr().ok()?.ip())
    });
    routed.ok_or_else(|| {
        Error::user(format!(
            "there is no way from here to host {other}: check its name; or give {} IP, where hosts reach this machine",
            names.of(LaunchSetting::Address)
        ))
    })
}

/// This machine's address in a network such as `10.0.0.0/24`, and the interface that has it.
pub(crate) fn in_network(network: &str, names: LaunchSettingNames) -> Result<(IpAddr, String)> {
    let name = names.of(LaunchSetting::Interface);
    let wrong = || Error::user(format!("{name} {network}: give a network such as 10.0.0.0/24"));
    let (base, bits) = network.split_once('/').ok_or_else(wrong)?;
    let base: IpAddr = base.parse().map_err(|_| wrong())?;
    let bits: u32 = bits.parse().ok().filter(|&b| b <= if base.is_ipv4() { 32 } else { 128 }).ok_or_else(wrong)?;
    let addresses =
        nix::ifaddrs::getifaddrs().map_err(|e| Error::failure(format!("interfaces cannot be listed: {e}")))?;
    for interface in addresses {
        let Some(address) = interface.address else { continue };
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::from(v4.ip()),
            (_, Some(v6)) => IpAddr::from(v6.ip()),
            _ => continue,
        };
        if within(ip, base, bits) {
            return Ok((ip, interface.interface_name));
        }
    }
    Err(Error::user(format!("{name} {network}: this machine has no address in it; `ip addr` shows those it has")))
}

fn within(ip: IpAddr, base: IpAddr, bits: u32) -> bool {
    let same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - bits) == 0;
    match (ip, base) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_says_where_a_host_is() {
        let said = "host b\nuser me\nhostname 10.0.0.2\nport 2222\nproxycommand none\n";
        assert_eq!(destination(said, "b"), Some(("10.0.0.2".into(), 2222)));
        assert_eq!(destination("hostname b\nport 22\nproxyjump gate\n", "b"), None);
        assert_eq!(destination("", "b"), Some(("b".into(), 22)));
    }

    #[test]
    fn networks() {
        let ip = |t: &str| t.parse().unwrap();
        assert!(within(ip("10.0.0.7"), ip("10.0.0.0"), 24) && !within(ip("10.0.1.7"), ip("10.0.0.0"), 24));
        assert!(within(ip("1.2.3.4"), ip("0.0.0.0"), 0) && within(ip("fd00::1"), ip("fd00::"), 8));
        assert!(!within(ip("::1"), ip("10.0.0.0"), 0));
        assert_eq!(in_network("127.0.0.0/8", LaunchSettingNames::default()).unwrap(), (ip("127.0.0.1"), "lo".into()));
        for wrong in ["", "eth0", "10.0.0.0", "10.0.0.0/33", "x/8", "203.0.113.0/24"] {
            let e = in_network(wrong, LaunchSettingNames::default()).unwrap_err();
            assert_eq!(e.kind(), paceline_base::Kind::User, "{wrong}");
        }
        assert_eq!(own_address(&Hosts::here(2), None, LaunchSettingNames::default()).unwrap(), ip("127.0.0.1"));
    }

    #[test]
    fn a_host_that_no_longer_answers_is_named() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        drop(listener);
        answers(here).expect("a refusal is an answer");
        let hosts = Hosts::parse("a:1,b:1").unwrap();
        // No packet leaves for an address without a way to it.
        let nowhere = SocketAddr::from(([255, 255, 255, 255], 22));
        let known = vec![("a".to_string(), here), ("b".to_string(), nowhere), ("gone".to_string(), nowhere)];
        let answering = Answering { hosts: known, agent: None };
        let missing = answering.missing(&hosts);
        assert_eq!(missing.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b"]);
        let (host, why) = missing_words(&missing).unwrap();
        assert!(host == "b" && why.starts_with("does not answer ("), "{why}");
        let both = [("b".to_string(), "x".to_string()), ("c".to_string(), "y".to_string())];
        assert_eq!(missing_words(&both).unwrap().1, "does not answer (x), nor does c");
        assert_eq!(missing_words(&[]), None);
    }

    #[test]
    fn a_host_on_which_nothing_can_be_run_is_named() {
        let hosts = Hosts::parse("a:1,b:1").unwrap();
        let agent = std::env::temp_dir().join(format!("paceline-agent-{}", std::process::id()));
        std::fs::write(&agent, "#!/bin/sh\n[ $1 = a ] || { echo key refused >&2; exit 255; }\nshift\n\"$@\"\n")
            .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&agent, mode).unwrap();
        let answering = Answering { hosts: Vec::new(), agent: Some(agent.clone()) };
        assert_eq!(answering.missing(&hosts), [("b".to_string(), "key refused".to_string())]);
        std::fs::remove_file(agent).unwrap();
    }

    #[test]
    fn an_unknown_host_is_named() {
        let e = own_address(&Hosts::parse("no-such-host.invalid:1").unwrap(), None, LaunchSettingNames::default())
            .unwrap_err();
        assert!(e.message().contains("no-such-host.invalid") && e.message().contains("give address IP"), "{e}");
    }
}
