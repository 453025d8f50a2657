//! The ports that a job may listen at, for clusters whose hosts are behind firewalls.

use crate::hosts::Hosts;
use crate::setting::{LaunchSetting, LaunchSettingNames};
use paceline_base::{Error, Result};

/// A range of ports, as 42000-42099.
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

    /// What is left for daemons and processes, behind the port at which `launch` listens.
    ///
    /// # Errors
    /// If other jobs have taken so many that too few are left.
    pub fn behind(self, own: u16, hosts: &Hosts, names: LaunchSettingNames) -> Result<Self> {
        let first = if (self.first..=self.last).contains(&own) { own.saturating_add(1) } else { self.first };
        let left = usize::from(self.last) + 1 - usize::from(first);
        if left < needed(hosts) {
            return Err(Error::user(format!(
                "{} {}-{}: the ports up to {own} are taken, and the {left} behind them are too few for {} of this job; give more",
                names.of(LaunchSetting::Ports),
                self.first,
                self.last,
                needed(hosts)
            )));
        }
        Ok(Self { first, ..self })
    }

    /// Whether these would do if none of them were taken.
    ///
    /// # Errors
    /// With the number that is needed.
    pub fn enough(self, hosts: &Hosts, names: LaunchSettingNames) -> Result<()> {
        let (there, needed) = (usize::from(self.last - self.first) + 1, 1 + needed(hosts));
        if there < needed {
            return Err(Error::user(format!(
                "{} {}-{}: these are {there} ports, but this job may need {needed} on a host; give more",
                names.of(LaunchSetting::Ports),
                self.first,
                self.last
            )));
        }
        Ok(())
    }
}

/// Ports on the fullest host, without that of `launch`: daemons, and for each process one on each of its networks, four at
/// most.
fn needed(hosts: &Hosts) -> usize {
    let most = hosts.all().iter().map(|h| h.slots).max().unwrap_or(1);
    usize::from(DAEMONS) + 4 * most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_large_enough_or_refused() {
        let ports = Ports::parse("42000-42099").unwrap();
        let hosts = Hosts::parse("a:2,b:1").unwrap();
        let names = LaunchSettingNames::default();
        assert_eq!(ports.behind(42000, &hosts, names).unwrap(), Ports { first: 42001, last: 42099 });
        assert_eq!(ports.behind(9, &hosts, names).unwrap(), ports, "a port of its own elsewhere takes none");
        assert_eq!(ports.behind(50000, &hosts, names).unwrap(), ports);
        for taken in [42090, 42099] {
            let e = ports.behind(taken, &hosts, names).unwrap_err();
            assert!(e.message().contains(&format!("up to {taken} are taken")), "{e}");
        }
        assert!(Ports { first: 65000, last: 65535 }.behind(65535, &hosts, names).is_err());
        for wrong in ["", "42000", "0-9", "9-8", "1-70000", "a-b"] {
            assert!(Ports::parse(wrong).is_err(), "{wrong}");
        }
        ports.enough(&hosts, names).unwrap();
        let e = Ports { first: 42000, last: 42009 }.enough(&hosts, names).unwrap_err();
        assert!(e.message().contains("10 ports") && e.message().contains("need 11"), "{e}");
    }
}
