//! Whether hosts can be reached, and at which address they reach us: asked before anything starts.

use super::hosts::{Hosts, is_here};
use paceline_base::{Error, Result};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long a host may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that every other host has an address and answers where ssh listens. All at once.
pub fn by_ssh(hosts: &Hosts) -> Result<()> {
    std::thread::scope(|scope| {
        let others = hosts.all().iter().filter(|h| !is_here(&h.name));
        let asked: Vec<_> = others.map(|h| scope.spawn(|| one_by_ssh(&h.name))).collect();
        asked.into_iter().try_for_each(|a| a.join().unwrap_or_else(|_| Err(Error::internal("a check panicked"))))
    })
}

fn one_by_ssh(host: &str) -> Result<()> {
    // ssh may know the host under another address and port, or behind another host.
    let said = Command::new("ssh").args(["-G", "--", host]).stdin(Stdio::null()).output();
    let said = said.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).map_err(|e| {
        Error::user(format!(
            "ssh cannot be run ({e}), and {host} is another host; install it, or give launch another way (--agent PATH)"
        ))
    })?;
    let Some((name, port)) = destination(&said, host) else { return Ok(()) };
    let unknown = |why: String| Error::user(format!("host {host} is not known: {why}; check the name in --hosts"));
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
        "host {host} does not answer at port {port} ({why}); start sshd there, open the port, or give launch another way (--agent PATH)"
    )))
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
pub fn own_address(hosts: &Hosts, network: Option<&str>) -> Result<IpAddr> {
    if hosts.are_here() {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    if let Some(network) = network {
        return in_network(network).map(|(address, _)| address);
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
            "there is no way from here to host {other}: check its name; or give --address IP, where hosts reach this machine"
        ))
    })
}

/// This machine's address in a network such as `10.0.0.0/24`, and the interface that has it.
pub fn in_network(network: &str) -> Result<(IpAddr, String)> {
    let wrong = || Error::user(format!("--interface {network}: give a network such as 10.0.0.0/24"));
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
    Err(Error::user(format!("--interface {network}: this machine has no address in it; `ip addr` shows those it has")))
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
        assert_eq!(in_network("127.0.0.0/8").unwrap(), (ip("127.0.0.1"), "lo".into()));
        for wrong in ["", "eth0", "10.0.0.0", "10.0.0.0/33", "x/8", "203.0.113.0/24"] {
            let e = in_network(wrong).unwrap_err();
            assert_eq!(e.kind(), paceline_base::Kind::User, "{wrong}");
        }
        assert_eq!(own_address(&Hosts::here(2), None).unwrap(), ip("127.0.0.1"));
    }

    #[test]
    fn an_unknown_host_is_named() {
        let e = own_address(&Hosts::parse("no-such-host.invalid:1").unwrap(), None).unwrap_err();
        assert!(e.message().contains("no-such-host.invalid") && e.message().contains("--address"), "{e}");
    }
}
