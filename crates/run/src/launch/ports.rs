//! The ports that a job may listen at, for clusters whose hosts are behind firewalls.

use super::hosts::Hosts;
use paceline_base::{Error, Result};

/// A range of ports, as `--ports 42000-42099`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The first, which is not 0.
    pub first: u16,
    /// The last.
    pub last: u16,
}

/// Ports that the daemons of Open MPI share on a host: they listen at all that they are given.
pub(super) const DAEMONS: u16 = 2;

impl Ports {
    /// `FIRST-LAST`
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let wrong = || "give the first and the last port, such as 42000-42099".to_string();
        let (first, last) = text.split_once('-').ok_or_else(wrong)?;
        let ports =
            Self { first: first.trim().parse().map_err(|_| wrong())?, last: last.trim().parse().map_err(|_| wrong())? };
        if ports.first == 0 || ports.last < ports.first {
            return Err(wrong());
        }
        Ok(ports)
    }

    /// Those behind the one at which `launch` listens.
    pub fn behind(self, own: u16) -> Self {
        Self { first: own.max(self.first - 1).saturating_add(1), last: self.last }
    }

    /// Enough for `launch`, a daemon, and what each process of the fullest host may open: one port for each of its networks,
    /// four at most.
    ///
    /// # Errors
    /// With the number that is needed.
    pub fn enough(self, hosts: &Hosts) -> Result<()> {
        let most = hosts.all().iter().map(|h| h.slots).max().unwrap_or(1);
        let (there, needed) = (usize::from(self.last - self.first) + 1, 1 + usize::from(DAEMONS) + 4 * most);
        if there < needed {
            return Err(Error::user(format!(
                "--ports {}-{}: these are {there} ports, but {most} process(es) on a host may need {needed}; give more",
                self.first, self.last
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_large_enough_or_refused() {
        let ports = Ports::parse("42000-42099").unwrap();
        assert_eq!(ports.behind(42000), Ports { first: 42001, last: 42099 });
        assert_eq!(ports.behind(9), ports, "a port of its own elsewhere takes none");
        for wrong in ["", "42000", "0-9", "9-8", "1-70000", "a-b"] {
            assert!(Ports::parse(wrong).is_err(), "{wrong}");
        }
        let hosts = Hosts::parse("a:2,b:1").unwrap();
        ports.enough(&hosts).unwrap();
        let e = Ports { first: 42000, last: 42009 }.enough(&hosts).unwrap_err();
        assert!(e.message().contains("10 ports") && e.message().contains("need 11"), "{e}");
    }
}
