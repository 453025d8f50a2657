//! The program that starts processes on hosts: which one it is, and its command line.

use crate::hosts::{Hosts, is_here};
use crate::message::VARIABLE;
use crate::ports::{DAEMONS, Ports};
use crate::setting::{LaunchSetting, LaunchSettingNames};
use nix::sys::signal::Signal;
use paceline_base::{Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An MPI library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// Open MPI.
    OpenMpi,
    /// MPICH, and what is made from it.
    Mpich,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }

    /// Names under which systems install its starter, surest first.
    fn starters(self) -> &'static [&'static str] {
        match self {
            Self::OpenMpi => &["mpirun.openmpi", "mpirun", "orterun", "mpiexec"],
            Self::Mpich => &["mpirun.mpich", "mpiexec.hydra", "mpirun", "mpiexec"],
        }
    }

    fn install(self) -> &'static str {
        match self {
            Self::OpenMpi => "apt-get install openmpi-bin",
            Self::Mpich => "apt-get install mpich",
        }
    }
}

/// How processes are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Starter {
    /// Open MPI's `mpirun`, of this major version.
    OpenMpi(PathBuf, u32),
    /// MPICH's `mpirun` (Hydra).
    Mpich(PathBuf),
    /// Slurm's `srun`, for processes that were built with this library.
    Srun(PathBuf, Library),
    /// No MPI: one process, here.
    Direct,
}

/// What is asked of a starter.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    /// Where.
    pub hosts: &'a Hosts,
    /// The program, and what follows it.
    pub program: &'a Path,
    /// Its arguments.
    pub arguments: &'a [String],
    /// Stands in for ssh.
    pub agent: Option<&'a Path>,
    /// The network to use, as `10.0.0.0/24`.
    pub interface: Option<&'a str>,
    /// The name that this network's interface has here.
    pub interface_name: Option<&'a str>,
    /// Variables to pass on.
    pub variables: &'a [String],
    /// Further arguments of the starter.
    pub more: &'a [String],
    /// Whether this user is root.
    pub root: bool,
    /// Ports that processes may listen at, if they are limited.
    pub ports: Option<Ports>,
    /// Names of variables that are set: what a person has chosen by one is left as it is.
    pub set: &'a [String],
}

impl Start<'_> {
    /// Whether all processes run on this machine: then shared memory connects them, and no port needs to be open.
    fn is_local(&self) -> bool {
        self.hosts.are_here() && self.agent.is_none()
    }

    /// `--mca NAME VALUE`, unless the person gives this parameter.
    fn mca(&self, line: &mut Vec<OsString>, flag: &str, name: &str, value: &str) {
        let given = self.more.iter().any(|word| word == name)
            || self.set.iter().any(|v| v.strip_prefix("OMPI_MCA_").or(v.strip_prefix("PRTE_MCA_")) == Some(name));
        if !given {
            line.extend(words(&[flag, name, value]));
        }
    }
}

impl Starter {
    /// The program to run.
    pub(crate) fn program<'a>(&'a self, start: &Start<'a>) -> &'a Path {
        match self {
            Self::OpenMpi(path, _) | Self::Mpich(path) | Self::Srun(path, _) => path,
            Self::Direct => start.program,
        }
    }

    /// Its arguments.
    pub(crate) fn arguments(&self, start: &Start<'_>) -> Vec<OsString> {
        let mut words = match self {
            Self::OpenMpi(_, major) => open_mpi(*major, start),
            Self::Mpich(_) => mpich(start),
            Self::Srun(_, library) => srun(*library, start),
            Self::Direct => Vec::new(),
        };
        if *self != Self::Direct {
            words.extend(start.more.iter().map(OsString::from));
            words.push(start.program.into());
        }
        words.extend(start.arguments.iter().map(OsString::from));
        words
    }

    /// The signal that ends it, with all processes.
    pub(crate) fn end_signal(&self) -> Signal {
        if self.is_shielded() { Signal::SIGINT } else { Signal::SIGTERM }
    }

    /// Whether it is not to hear SIGTERM. A scheduler that cancels a job sends it to everything at once; Open MPI's `mpirun` would kill all
    /// processes a second later, also those that write a checkpoint. It unblocks signals in what it starts.
    pub(crate) fn is_shielded(&self) -> bool {
        matches!(self, Self::OpenMpi(..))
    }

    /// Whether a line of standard output is the starter's own: MPICH tells there how a process ended.
    pub(crate) fn says(&self, line: &str) -> bool {
        let its = ["=====", "=   ", "YOUR APPLICATION TERMINATED WITH"];
        matches!(self, Self::Mpich(_)) && its.iter().any(|w| line.starts_with(w))
    }

    /// Variables that it and the processes need beside those of the person, who may have set them differently.
    pub(crate) fn variables(&self, start: &Start<'_>) -> Vec<(&'static str, String)> {
        let Self::Mpich(_) = self else { return Vec::new() };
        let mut all = Vec::new();
        if start.is_local() {
            // Between processes of one machine shared memory; libfabric, in place of UCX, at least keeps to the loopback.
            all.extend(
                [("UCX_TLS", "self,shm"), ("FI_TCP_IFACE", "lo"), ("FI_SOCKETS_IFACE", "lo")]
                    .map(|(n, v)| (n, v.into())),
            );
        }
        if let Some(Ports { first, last }) = start.ports {
            all.extend([
                ("MPIEXEC_PORT_RANGE", format!("{first}:{last}")),
                ("MPIR_CVAR_CH3_PORT_RANGE", format!("{first}:{last}")),
                ("UCX_TCP_PORT_RANGE", format!("{first}-{last}")),
                ("FI_TCP_PORT_LOW_RANGE", first.to_string()),
                ("FI_TCP_PORT_HIGH_RANGE", last.to_string()),
            ]);
        }
        all.retain(|(name, _)| !start.set.iter().any(|v| v == name));
        all
    }

    /// Whether a line of standard error is from the insides of the MPI library: `[host:123] ORTE_ERROR_LOG: …`.
    pub(crate) fn mutters(&self, line: &str) -> bool {
        let Some((who, _)) = line.strip_prefix('[').and_then(|l| l.split_once(']')) else { return false };
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        match self {
            Self::OpenMpi(..) => who.rsplit_once(':').is_some_and(|(_, pid)| number(pid)),
            Self::Mpich(_) => ["mpiexec@", "proxy:"].iter().any(|w| who.starts_with(w)),
            _ => false,
        }
    }

    /// Whether a line of standard error begins or ends one of the starter's own texts: Open MPI draws a line.
    pub(crate) fn frames(&self, line: &str) -> bool {
        matches!(self, Self::OpenMpi(..)) && line.len() >= 60 && line.bytes().all(|b| b == b'-')
    }

    /// For a sentence.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::OpenMpi(path, _) | Self::Mpich(path) | Self::Srun(path, _) => path.display().to_string(),
            Self::Direct => "the process".into(),
        }
    }
}

fn words(list: &[&str]) -> Vec<OsString> {
    list.iter().map(OsString::from).collect()
}

fn open_mpi(major: u32, start: &Start<'_>) -> Vec<OsString> {
    // From version 5 on, what concerns starting is a program of its own with parameters of its own.
    let (mca, rsh, include) = match major {
        0..5 => ("--mca", "plm_rsh", "oob_tcp_if_include"),
        _ => ("--prtemca", "plm_ssh", "prte_if_include"),
    };
    let processes = start.hosts.processes().to_string();
    let mut line = words(&["--host", &start.hosts.for_mpirun(), "-np", &processes, "--map-by", "slot"]);
    // Ranks have threads: bound to one core each they would share it. (4 bytes across hosts: 4 ms bound, 17 µs not.)
    line.extend(words(&["--bind-to", "none"]));
    if start.root {
        line.extend(words(&["--allow-run-as-root"]));
    }
    // A rank that waits gives its core to one that computes.
    start.mca(&mut line, "--mca", "mpi_yield_when_idle", "1");
    if start.is_local() {
        // Ranks of one machine meet in shared memory. With TCP allowed each would listen on all networks, and whoever
        // connects to one and says nothing would hold up the job.
        start.mca(&mut line, "--mca", "pml", "ob1");
        start.mca(&mut line, "--mca", "btl", if major < 5 { "self,vader" } else { "self,sm" });
        start.mca(&mut line, mca, include, "lo");
    }
    if let Some(agent) = start.agent {
        line.extend(words(&[mca, &format!("{rsh}_agent")]));
        line.push(agent.into());
        line.extend(words(&[mca, &format!("{rsh}_no_tree_spawn"), "1"]));
    }
    if let (Some(network), false) = (start.interface, start.is_local()) {
        start.mca(&mut line, mca, include, network);
        start.mca(&mut line, "--mca", "btl_tcp_if_include", network);
    }
    if let Some(Ports { first, last }) = start.ports {
        let daemons = first.saturating_add(DAEMONS - 1).min(last);
        let (own, rest) = (format!("{first}-{daemons}"), daemons.saturating_add(1).min(last));
        let dynamic = if major < 5 { "oob_tcp_dynamic" } else { "prte_dynamic" };
        let count = (last - rest).to_string(); // it takes one more
        for family in ["v4", "v6"] {
            start.mca(&mut line, mca, &format!("{dynamic}_ip{family}_ports"), &own);
            start.mca(&mut line, "--mca", &format!("btl_tcp_port_min_{family}"), &rest.to_string());
            start.mca(&mut line, "--mca", &format!("btl_tcp_port_range_{family}"), &count);
        }
    }
    if major < 5 && !start.hosts.are_here() {
        // Its daemon on a host that was cut off ends in seconds, not minutes.
        for (name, seconds) in [("time", "5"), ("intvl", "2"), ("probes", "3")] {
            line.extend(words(&["--mca", &format!("oob_tcp_keepalive_{name}"), seconds]));
        }
    }
    for name in start.variables {
        line.extend(words(&["-x", name]));
    }
    line
}

fn mpich(start: &Start<'_>) -> Vec<OsString> {
    // Hydra passes the whole environment on.
    let processes = start.hosts.processes().to_string();
    let mut line = words(&["-hosts", &start.hosts.for_mpirun(), "-np", &processes]);
    if let Some(agent) = start.agent {
        line.extend(words(&["-launcher", "ssh", "-launcher-exec"]));
        line.push(agent.into());
    }
    if start.is_local() {
        line.extend(words(&["-iface", "lo"]));
    } else if let Some(name) = start.interface_name {
        line.extend(words(&["-iface", name]));
    }
    line
}

fn srun(library: Library, start: &Start<'_>) -> Vec<OsString> {
    let mpi = match library {
        Library::OpenMpi => "--mpi=pmix",
        Library::Mpich => "--mpi=pmi2",
    };
    let names: Vec<&str> = start.hosts.all().iter().map(|h| h.name.as_str()).collect();
    let first = start.hosts.all()[0].slots;
    let mut line = words(&[
        mpi,
        // Without it, MPICH's processes wait for a dead one.
        "--kill-on-bad-exit=1",
        "--cpu-bind=none",
        "--export=ALL",
        &format!("--ntasks={}", start.hosts.processes()),
        &format!("--nodelist={}", names.join(",")),
    ]);
    if start.hosts.all().iter().all(|h| h.slots == first) {
        line.extend(words(&[&format!("--ntasks-per-node={first}")]));
    }
    line
}

/// Variables that mean something to processes, and the token's.
pub(crate) fn variables_to_pass(all: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = |name: &String| {
        let prefixes = ["PACELINE_", "RUST_", "UCX_", "FI_"];
        let names = ["NO_COLOR", "LD_LIBRARY_PATH", "COLUMNS"];
        prefixes.iter().any(|p| name.starts_with(p)) || names.contains(&name.as_str())
    };
    let mut names: Vec<String> = all.filter(wanted).chain([VARIABLE.into()]).collect();
    names.sort();
    names.dedup();
    names
}

/// The library that this program was linked with; none if it was built without.
pub(crate) fn linked() -> Option<Library> {
    if !paceline_comm::world::has_mpi() {
        return None;
    }
    Some(library_in(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()))
}

fn library_in(maps: &str) -> Library {
    let has = |name: &str| maps.lines().any(|l| l.rsplit('/').next().is_some_and(|file| file.starts_with(name)));
    // MPICH's own name is libmpich on Debian and libmpi.so.12 elsewhere; Open MPI's is libmpi.so.40.
    if has("libmpich") || has("libmpi.so.12") { Library::Mpich } else { Library::OpenMpi }
}

/// What `--version` tells of a starter.
fn starter_from(path: &Path, said: &str, linked: Library) -> Option<Starter> {
    if said.contains("HYDRA") || said.contains("MPICH") {
        return Some(Starter::Mpich(path.into()));
    }
    if said.contains("Open MPI") || said.contains("OpenRTE") {
        let version = said.split_whitespace().find_map(|w| w.split_once('.')?.0.parse().ok());
        return Some(Starter::OpenMpi(path.into(), version.unwrap_or(4)));
    }
    // "slurm 23.11.4", on Debian "slurm-wlm 22.05.8".
    let slurm = said.split_whitespace().next().is_some_and(|word| word == "slurm" || word.starts_with("slurm-"));
    slurm.then(|| Starter::Srun(path.into(), linked))
}

fn ask(path: &Path) -> Option<String> {
    let output = Command::new(path).arg("--version").stdin(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The starter for these hosts: the given one, or that of the library that this program was linked with.
///
/// # Errors
/// If there is none, if this program has no MPI, or if the given one belongs to another library.
pub(crate) fn find(hosts: &Hosts, given: Option<&Path>, slurm: bool, names: LaunchSettingNames) -> Result<Starter> {
    let name = names.of(LaunchSetting::Mpirun);
    if hosts.processes() == 1 && is_here(&hosts.all()[0].name) && given.is_none() {
        return Ok(Starter::Direct);
    }
    if let Some(address) = hosts.only_an_address() {
        return Err(Error::user(format!(
            "host [{address}]: mpirun takes no address of IPv6 for a host; give it a name in /etc/hosts or ~/.ssh/config, and \
             write that in its place"
        )));
    }
    let Some(library) = linked() else {
        return Err(Error::user(format!(
            "{} processes need MPI, but this paceline was built without it; {}",
            hosts.processes(),
            paceline_comm::world::BUILD
        )));
    };
    if let Some(path) = given {
        let said = ask(path).ok_or_else(|| {
            Error::user(format!("{name} {}: cannot be run; give the path of mpirun, or leave it out", path.display()))
        })?;
        let starter = starter_from(path, &said, library).ok_or_else(|| {
            Error::user(format!("{name} {}: this is not the mpirun of Open MPI or MPICH, nor srun", path.display()))
        })?;
        let other = match starter {
            Starter::OpenMpi(..) => library != Library::OpenMpi,
            Starter::Mpich(_) => library != Library::Mpich,
            _ => false,
        };
        if other {
            return Err(Error::user(format!(
                "{name} {} belongs to another MPI library, but this paceline was built with {}; give its mpirun",
                path.display(),
                library.name()
            )));
        }
        return Ok(starter);
    }
    let candidates = library.starters().iter().chain(if slurm { &["srun"][..] } else { &[] });
    for path in candidates.map(Path::new) {
        let starter = ask(path).and_then(|said| starter_from(path, &said, library));
        match (&starter, library) {
            (Some(Starter::OpenMpi(..)), Library::OpenMpi)
            | (Some(Starter::Mpich(_)), Library::Mpich)
            | (Some(Starter::Srun(..)), _) => return Ok(starter.unwrap_or(Starter::Direct)),
            _ => {}
        }
    }
    Err(Error::user(format!(
        "no mpirun of {} is found, which this paceline was built with; install it ({}), or give {name} PATH",
        library.name(),
        library.install()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(starter: &Starter, hosts: &str, agent: Option<&str>) -> String {
        started(starter, hosts, agent, None, &[]).0
    }

    fn started(
        starter: &Starter,
        hosts: &str,
        agent: Option<&str>,
        ports: Option<Ports>,
        set: &[String],
    ) -> (String, Vec<(&'static str, String)>) {
        let hosts = Hosts::parse(hosts).unwrap();
        let arguments = ["train".to_string(), "x.toml".to_string()];
        let start = Start {
            hosts: &hosts,
            program: Path::new("/opt/paceline"),
            arguments: &arguments,
            agent: agent.map(Path::new),
            interface: agent.map(|_| "10.77.0.0/24"),
            interface_name: agent.map(|_| "plbr"),
            variables: &["PACELINE_LAUNCH".into()],
            more: &[],
            root: agent.is_some(),
            ports,
            set,
        };
        let words: Vec<String> = starter.arguments(&start).iter().map(|w| w.to_string_lossy().into_owned()).collect();
        (format!("{} {}", starter.program(&start).display(), words.join(" ")), starter.variables(&start))
    }

    #[test]
    fn command_lines() {
        let open = |major| Starter::OpenMpi("mpirun".into(), major);
        assert_eq!(
            line(&open(4), "localhost:2", None),
            "mpirun --host localhost:2 -np 2 --map-by slot --bind-to none --mca mpi_yield_when_idle 1 \
             --mca pml ob1 --mca btl self,vader --mca oob_tcp_if_include lo -x PACELINE_LAUNCH /opt/paceline train x.toml"
        );
        assert_eq!(
            line(&open(4), "a:2,b:1", Some("./agent")),
            "mpirun --host a:2,b:1 -np 3 --map-by slot --bind-to none --allow-run-as-root --mca mpi_yield_when_idle 1 \
             --mca plm_rsh_agent ./agent --mca plm_rsh_no_tree_spawn 1 \
             --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 \
             --mca oob_tcp_keepalive_time 5 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 \
             -x PACELINE_LAUNCH /opt/paceline train x.toml"
        );
        let five = line(&open(5), "a:1,b:1", Some("./agent"));
        assert!(five.contains("--prtemca plm_ssh_agent ./agent") && !five.contains("keepalive"), "{five}");
        assert_eq!(
            line(&Starter::Mpich("mpirun.mpich".into()), "a:2,b:1", Some("./agent")),
            "mpirun.mpich -hosts a:2,b:1 -np 3 -launcher ssh -launcher-exec ./agent -iface plbr /opt/paceline train x.toml"
        );
        assert_eq!(
            line(&Starter::Srun("srun".into(), Library::Mpich), "a:2,b:2", None),
            "srun --mpi=pmi2 --kill-on-bad-exit=1 --cpu-bind=none --export=ALL --ntasks=4 --nodelist=a,b \
             --ntasks-per-node=2 /opt/paceline train x.toml"
        );
        assert_eq!(line(&Starter::Direct, "localhost", None), "/opt/paceline train x.toml");
    }

    #[test]
    fn processes_of_one_machine_open_no_port() {
        let open = |major| Starter::OpenMpi("mpirun".into(), major);
        assert!(line(&open(5), "localhost:2", None).contains("--mca btl self,sm --prtemca prte_if_include lo"));
        let mpich = Starter::Mpich("mpirun.mpich".into());
        let (words, variables) = started(&mpich, "localhost:2", None, None, &[]);
        assert!(
            words.contains("-iface lo") && variables.contains(&("UCX_TLS", "self,shm".into())),
            "{words} {variables:?}"
        );
        assert_eq!(started(&mpich, "a:2,b:2", None, None, &[]).1, []);
        // What a person has set stays.
        let set = ["OMPI_MCA_btl".to_string(), "UCX_TLS".to_string()];
        assert!(!started(&open(4), "localhost:2", None, None, &set).0.contains("--mca btl"));
        assert!(started(&mpich, "localhost:2", None, None, &set).1.iter().all(|(name, _)| *name != "UCX_TLS"));
    }

    #[test]
    fn ports_are_kept_to_a_range() {
        let ports = Some(Ports { first: 42000, last: 42099 });
        let (words, _) = started(&Starter::OpenMpi("mpirun".into(), 4), "a:2,b:1", None, ports, &[]);
        for part in [
            "--mca oob_tcp_dynamic_ipv4_ports 42000-42001",
            "--mca btl_tcp_port_min_v4 42002 --mca btl_tcp_port_range_v4 97",
            "--mca btl_tcp_port_min_v6 42002",
        ] {
            assert!(words.contains(part), "{part} in: {words}");
        }
        let (_, variables) = started(&Starter::Mpich("mpirun".into()), "a:2,b:1", None, ports, &[]);
        for (name, value) in [("MPIEXEC_PORT_RANGE", "42000:42099"), ("UCX_TCP_PORT_RANGE", "42000-42099")] {
            assert!(variables.contains(&(name, value.into())), "{variables:?}");
        }
    }

    #[test]
    fn what_a_library_mutters_is_told_from_what_processes_say() {
        let open = Starter::OpenMpi("mpirun".into(), 4);
        assert!(open.mutters("[vm:4711] [[1,0],0] ORTE_ERROR_LOG: Data unpack would read past end of buffer"));
        assert!(!open.mutters("[1 b] step 12") && !open.mutters("loss 0.5") && !Starter::Direct.mutters("[vm:1] x"));
        assert!(Starter::Mpich("mpirun".into()).mutters("[mpiexec@vm] HYDT_dmxu_poll_wait_for_event: error"));
    }

    #[test]
    fn starters_are_told_by_what_they_say() {
        let said = |text: &str| starter_from(Path::new("x"), text, Library::OpenMpi);
        assert_eq!(said("mpirun.openmpi (OpenRTE) 4.1.4\n\nReport bugs"), Some(Starter::OpenMpi("x".into(), 4)));
        assert_eq!(said("mpirun (Open MPI) 5.0.7\n"), Some(Starter::OpenMpi("x".into(), 5)));
        assert_eq!(said("HYDRA build details:\n    Version: 4.0.2"), Some(Starter::Mpich("x".into())));
        for version in ["slurm 22.05.8\n", "slurm-wlm 22.05.8\n"] {
            assert_eq!(said(version), Some(Starter::Srun("x".into(), Library::OpenMpi)));
        }
        assert_eq!(said("GNU bash"), None);
        assert_eq!(library_in("7f r-xp 0 0 /usr/lib/x86_64-linux-gnu/libmpich.so.12.2.1\n"), Library::Mpich);
        assert_eq!(library_in("7f r-xp 0 0 /usr/lib/x86_64-linux-gnu/libmpi.so.40.30.4\n"), Library::OpenMpi);
    }

    #[test]
    fn what_mpich_says_is_told_from_what_processes_say() {
        let mpich = Starter::Mpich("mpirun".into());
        for line in ["=   PID 12 RUNNING AT a", "YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)"] {
            assert!(mpich.says(line) && !Starter::OpenMpi("mpirun".into(), 4).says(line));
        }
        assert!(!mpich.says("epoch 1/3"));
    }

    #[test]
    fn only_variables_that_mean_something_are_passed_on() {
        let all = ["HOME", "PACELINE_CACHE", "RUST_LOG", "NO_COLOR", "PACELINE_LAUNCH"].map(String::from);
        let passed = variables_to_pass(all.into_iter());
        assert_eq!(passed, ["NO_COLOR", "PACELINE_CACHE", "PACELINE_LAUNCH", "RUST_LOG"]);
    }
}
