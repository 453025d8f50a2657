//! The settings of a job that errors and reasons may speak of.

use paceline_base::setting::{self, Setting};

/// A field of [`Launch`](crate::Launch), or where its hosts came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchSetting {
    /// The list of hosts.
    Hosts,
    /// Processes of this machine.
    Processes,
    /// Restarts at most.
    MaxRestarts,
    /// Fewest processes of an elastic job.
    MinRanks,
    /// The starter.
    Mpirun,
    /// What stands in for ssh.
    Agent,
    /// Where processes reach the launcher.
    Address,
    /// Where the launcher listens.
    Listen,
    /// At which port it listens.
    Port,
    /// Ports that may be listened at.
    Ports,
    /// The network of the processes.
    Interface,
    /// Longest time without a step.
    StepLimit,
    /// Longest time until all processes are there.
    StartLimit,
}

impl Setting for LaunchSetting {
    fn field(self) -> &'static str {
        match self {
            Self::Hosts => "hosts",
            Self::Processes => "processes",
            Self::MaxRestarts => "max_restarts",
            Self::MinRanks => "min_ranks",
            Self::Mpirun => "mpirun",
            Self::Agent => "agent",
            Self::Address => "address",
            Self::Listen => "listen",
            Self::Port => "port",
            Self::Ports => "ports",
            Self::Interface => "interface",
            Self::StepLimit => "limits.step",
            Self::StartLimit => "limits.start",
        }
    }
}

/// What the user calls each setting of a job.
pub type LaunchSettingNames = setting::SettingNames<LaunchSetting>;
