//! Which hosts, and how many processes on each: from a list, a number, a host file, or what a scheduler gave.

use paceline_base::{Error, Result};
use std::fmt;

/// A host and how many processes it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name or address.
    pub name: String,
    /// Processes on it; at least 1.
    pub slots: usize,
}

/// Hosts, each named once, in the order in which processes are numbered through them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts(Vec<Host>);

/// The most processes that are taken for meant.
const MOST: usize = 65536;

impl Hosts {
    /// This machine alone.
    pub fn here(slots: usize) -> Self {
        Self(vec![Host { name: "localhost".into(), slots }])
    }

    /// `a:2,b:2`; a host without a number has one process.
    pub fn parse(list: &str) -> Result<Self> {
        let wrong = |why: String| Error::user(format!("{list}: {why}; write name:processes, such as a:2,b:2"));
        let mut hosts: Vec<Host> = Vec::new();
        for item in list.split(',') {
            let (name, slots) = split(item.trim()).map_err(&wrong)?;
            let name = name_of(name).map_err(&wrong)?;
            if hosts.iter().any(|h| h.name == name) {
                return Err(Error::user(format!(
                    "{list}: {name} is there twice; name each host once, with all its processes: {name}:2"
                )));
            }
            hosts.push(Host { name, slots: slots.unwrap_or(1) });
        }
        Ok(Self(hosts))
    }

    /// A host file as Open MPI (`name slots=2`) or MPICH (`name:2`) reads it. A bare name counts once each time it stands
    /// there, which is also how PBS writes its nodes.
    pub fn parse_file(text: &str, file: &str) -> Result<Self> {
        let mut hosts: Vec<(Host, bool)> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |why: String| {
                Error::user(format!("{file}:{}: {why}; a line is `name slots=2` or `name:2`", number + 1))
            };
            let line = line.split('#').next().unwrap_or("").trim();
            if line.is_empty() {
                continue;
            }
            let mut words = line.split_whitespace();
            let (name, mut slots) = split(words.next().unwrap_or("")).map_err(&wrong)?;
            let name = name_of(name).map_err(&wrong)?;
            for word in words {
                match word.split_once('=') {
                    Some(("slots", n)) if slots.is_none() => slots = Some(count(n).map_err(&wrong)?),
                    Some(("max_slots" | "max-slots", _)) => {}
                    _ => return Err(wrong(format!("`{word}` is not understood"))),
                }
            }
            match hosts.iter_mut().find(|(h, _)| h.name == name) {
                Some((host, true)) if slots.is_none() => host.slots += 1,
                Some(_) => return Err(wrong(format!("{name} is there twice"))),
                None => hosts.push((Host { name, slots: slots.unwrap_or(1) }, slots.is_none())),
            }
        }
        if hosts.is_empty() {
            return Err(Error::user(format!("{file}: there is no host in it; a line is `name slots=2` or `name:2`")));
        }
        Ok(Self(hosts.into_iter().map(|(h, _)| h).collect()))
    }

    /// From names and numbers that a scheduler gave, which may repeat.
    pub(super) fn from_pairs(pairs: impl IntoIterator<Item = (String, usize)>) -> Self {
        let mut hosts: Vec<Host> = Vec::new();
        for (name, slots) in pairs {
            match hosts.iter_mut().find(|h| h.name == name) {
                Some(host) => host.slots += slots,
                None => hosts.push(Host { name, slots }),
            }
        }
        Self(hosts)
    }

    /// The hosts in order.
    pub fn all(&self) -> &[Host] {
        &self.0
    }

    /// Processes on all of them.
    pub fn processes(&self) -> usize {
        self.0.iter().map(|h| h.slots).sum()
    }

    /// The host that holds a process: they fill one host after the other.
    pub fn of(&self, process: usize) -> &str {
        let mut first = 0;
        for host in &self.0 {
            first += host.slots;
            if process < first {
                return &host.name;
            }
        }
        self.0.last().map_or("", |h| &h.name)
    }

    /// Whether all are this machine.
    pub fn are_here(&self) -> bool {
        self.0.iter().all(|h| is_here(&h.name))
    }

    /// As `mpirun` reads it: neither Open MPI nor MPICH takes an address of IPv6 for a host, so that this machine has its other name.
    pub(super) fn for_mpirun(&self) -> String {
        let name = |name: &str| if name.contains(':') && is_here(name) { "localhost".into() } else { bracketed(name) };
        let plain = Self::from_pairs(self.0.iter().map(|h| (name(&h.name), h.slots)));
        let words: Vec<String> = plain.0.iter().map(|h| format!("{}:{}", h.name, h.slots)).collect();
        words.join(",")
    }

    /// A host that is only known by an address of IPv6, and is not this machine.
    pub(super) fn only_an_address(&self) -> Option<&str> {
        self.0.iter().map(|h| h.name.as_str()).find(|name| name.contains(':') && !is_here(name))
    }

    /// Without a host; none if nothing is left.
    pub fn without(&self, name: &str) -> Option<Self> {
        let rest: Vec<Host> = self.0.iter().filter(|h| h.name != name).cloned().collect();
        (!rest.is_empty()).then_some(Self(rest))
    }

    /// With one process less on a host; none if nothing is left.
    pub fn one_less(&self, name: &str) -> Option<Self> {
        let mut rest = self.0.clone();
        rest.iter_mut().filter(|h| h.name == name).for_each(|h| h.slots -= 1);
        rest.retain(|h| h.slots > 0);
        (!rest.is_empty()).then_some(Self(rest))
    }
}

impl fmt::Display for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|h| format!("{}:{}", bracketed(&h.name), h.slots)).collect();
        f.write_str(&words.join(","))
    }
}

/// An address of IPv6 in brackets, so that what follows its own colons can be told from it; anything else as it is.
pub(super) fn bracketed(name: &str) -> String {
    if name.contains(':') { format!("[{name}]") } else { name.into() }
}

/// Whether a name means this machine.
pub(super) fn is_here(name: &str) -> bool {
    matches!(name, "localhost" | "127.0.0.1" | "::1") || name == paceline_system::host_name()
}

/// `name:2`, `name`, `[::1]:2`.
fn split(item: &str) -> std::result::Result<(&str, Option<usize>), String> {
    if let Some(rest) = item.strip_prefix('[') {
        let (name, after) = rest.split_once(']').ok_or_else(|| format!("`{item}` has no closing bracket"))?;
        return match after.strip_prefix(':') {
            Some(n) => Ok((name, Some(count(n)?))),
            None if after.is_empty() => Ok((name, None)),
            None => Err(format!("`{item}` is not understood")),
        };
    }
    if item.matches(':').count() > 1 {
        return Err(format!("`{item}` has several colons: an address of IPv6 stands in brackets, such as [fe80::2]:1"));
    }
    match item.split_once(':') {
        Some((name, n)) => Ok((name, Some(count(n)?))),
        None => Ok((item, None)),
    }
}

fn count(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("a host with 0 processes takes no part; leave it out".into()),
        Ok(n) if n <= MOST => Ok(n),
        _ => Err(format!("`{text}` is not a number of processes")),
    }
}

fn name_of(name: &str) -> std::result::Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
    if name.is_empty() {
        return Err("a host has no name".into());
    }
    // A leading dash would be taken for an option by ssh.
    if name.starts_with('-') || !name.chars().all(allowed) {
        return Err(format!("`{name}` is not the name of a host"));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, expected: &str) {
        assert_eq!(Hosts::parse(text).map_or_else(|e| e.message().to_string(), |h| h.to_string()), expected);
    }

    fn refused(result: Result<Hosts>, words: &[&str]) {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), paceline_base::Kind::User);
        words.iter().for_each(|w| assert!(e.message().contains(w), "{w} in: {}", e.message()));
    }

    #[test]
    fn lists() {
        list("a:2,b:2", "a:2,b:2");
        list("a", "a:1");
        list("node-1.lan:4, 10.0.0.2", "node-1.lan:4,10.0.0.2:1");
        list("[fe80::1]:2,[::1]", "[fe80::1]:2,[::1]:1");
        list("[fe80::2%eth0]:1,b", "[fe80::2%eth0]:1,b:1");
        for (text, word) in [
            ("", "no name"),
            ("a,,b", "no name"),
            ("a:0", "0 processes"),
            ("a:x", "`x` is not a number"),
            ("a:-1", "`-1` is not a number"),
            ("a:99999999", "not a number of processes"),
            ("a;b", "`a;b` is not the name"),
            ("-oProxyCommand=x", "not the name"),
            ("[::1", "bracket"),
            ("::1:2", "stands in brackets"),
            ("a:2:3", "several colons"),
            ("[::1]2", "not understood"),
            ("[::1]:0", "0 processes"),
            ("[]:2", "no name"),
        ] {
            refused(Hosts::parse(text), &[word, "such as a:2,b:2"]);
        }
        refused(Hosts::parse("a:1,b,a:1"), &["a is there twice", "name each host once"]);
    }

    #[test]
    fn mpirun_is_not_given_addresses_of_ipv6() {
        let hosts = |text: &str| Hosts::parse(text).unwrap();
        assert_eq!(hosts("[::1]:2").for_mpirun(), "localhost:2");
        assert_eq!(hosts("[::1]:2,localhost:1,b:3").for_mpirun(), "localhost:3,b:3");
        assert!(hosts("[::1]:2").are_here());
        assert_eq!(hosts("[::1]:2,a").only_an_address(), None);
        assert_eq!(hosts("a:1,[fe80::2]:1").only_an_address(), Some("fe80::2"));
        assert_eq!(hosts("[fe80::2]:1,b:1").of(0), "fe80::2");
        // What is printed can be given again.
        assert_eq!(hosts(&hosts("[fe80::2]:3,b").to_string()), hosts("[fe80::2]:3,b:1"));
    }

    fn file(text: &str, expected: &str) {
        assert_eq!(Hosts::parse_file(text, "hosts").unwrap().to_string(), expected);
    }

    #[test]
    fn files_of_both_libraries_and_of_pbs() {
        file("# two\na slots=2\n\nb slots=4 max_slots=8 # big\n", "a:2,b:4");
        file("a:2\nb\n", "a:2,b:1");
        file("a\na\nb\na\n", "a:3,b:1");
        file("[fe80::2]:2\n[::1] slots=3\n", "[fe80::2]:2,[::1]:3");
        for (text, words) in [
            ("", &["hosts: there is no host"][..]),
            ("a slots=2\nb slot=2\n", &["hosts:2:", "`slot=2`"]),
            ("a slots=0\n", &["hosts:1:", "0 processes"]),
            ("a:2 slots=2\n", &["hosts:1:", "`slots=2`"]),
            ("a:2\na:2\n", &["hosts:2:", "a is there twice"]),
            ("%!\n", &["hosts:1:", "not the name"]),
            ("a b c\n", &["hosts:1:", "`b`"]),
        ] {
            refused(Hosts::parse_file(text, "hosts"), words);
        }
    }

    #[test]
    fn processes_are_numbered_through_the_hosts() {
        let hosts = Hosts::parse("a:2,b:1").unwrap();
        assert_eq!((0..3).map(|p| hosts.of(p)).collect::<Vec<_>>(), ["a", "a", "b"]);
        assert_eq!(hosts.processes(), 3);
        assert_eq!(hosts.without("a").unwrap().to_string(), "b:1");
        assert_eq!(hosts.one_less("a").unwrap().to_string(), "a:1,b:1");
        assert_eq!(hosts.one_less("b").unwrap().to_string(), "a:2");
        assert_eq!(Hosts::here(1).one_less("localhost"), None);
        assert!(Hosts::here(3).are_here() && !hosts.are_here());
    }
}
