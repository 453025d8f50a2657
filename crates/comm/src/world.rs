//! The processes of one job: how many there are, where they run, and what they must agree on before ranks are made.
//!
//! A process holds one or more ranks. Processes are numbered as MPI numbers them; ranks count through the processes: with
//! two ranks in each, process 1 holds ranks 2 and 3.
//!
//! ```
//! use paceline_comm::{Comm, World};
//! let mut world = World::alone();
//! let ranks = world.ranks(2)?;
//! assert_eq!((world.processes(), ranks[1].size()), (1, 2));
//! # Ok::<(), paceline_base::Error>(())
//! ```

use crate::{Comm, threads};
use paceline_base::{Error, Result};
use paceline_system::host_name;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// What a launcher tells its processes through the environment, before MPI is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// By whom.
    pub by: &'static str,
    /// This process.
    pub process: usize,
    /// Number of processes.
    pub processes: usize,
}

/// Launchers, with the names of their variables for a process and the number of processes.
const LAUNCHERS: [(&str, &str, &str); 5] = [
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("MPICH", "PMI_RANK", "PMI_SIZE"),
    ("Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PALS", "PALS_RANKID", "PALS_NRANKS"),
];

/// How this process was started, as `variable` says; none if no launcher did.
pub fn started(variable: impl Fn(&str) -> Option<String>) -> Option<Started> {
    LAUNCHERS.iter().find_map(|&(by, rank, size)| {
        let number = |name: &str| variable(name)?.trim().parse().ok();
        Some(Started { by, process: number(rank)?, processes: number(size)? })
    })
}

/// How many processes of the job its launcher started on this host, as `variable` says; 1 if it says nothing.
pub fn started_here(variable: impl Fn(&str) -> Option<String>) -> usize {
    const NAMES: [&str; 4] =
        ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"];
    let number = |name: &&str| variable(name)?.trim().parse().ok();
    NAMES.iter().find_map(number).unwrap_or(1).max(1)
}

/// Ends this process with an exit code, and nothing else: no handler is run that might wait for processes that are gone.
pub fn end_at_once(code: u8) -> ! {
    // SAFETY: takes no pointer, and does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Has a command start with SIGTERM blocked.
pub fn block_termination(command: &mut Command) {
    let block = || {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is of this frame, and initialised by the first call; nothing is read through the null pointer.
        let code = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut())
        };
        if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(code)) }
    };
    // SAFETY: between fork and exec it only calls functions that are safe there, and allocates nothing.
    unsafe { command.pre_exec(block) };
}

/// Whether this process holds ranks, and all of them wait for ranks of other processes.
pub fn all_wait() -> bool {
    #[cfg(feature = "mpi")]
    return crate::mpi::all_wait();
    #[cfg(not(feature = "mpi"))]
    false
}

/// This process among those of its job.
pub struct World {
    process: usize,
    hosts: Vec<String>,
    #[cfg(feature = "mpi")]
    mpi: Option<crate::mpi::Session>,
}

impl World {
    /// A job of one process.
    pub fn alone() -> Self {
        Self {
            process: 0,
            hosts: vec![host_name()],
            #[cfg(feature = "mpi")]
            mpi: None,
        }
    }

    /// The job that this process was started in: by `mpirun`, `srun` or `paceline launch`; else alone.
    ///
    /// # Errors
    /// If a launcher started several processes and they cannot be connected.
    pub fn from_env() -> Result<Self> {
        match started(|name| std::env::var(name).ok()) {
            Some(s) if s.processes > 1 => Self::connect(s),
            _ => Ok(Self::alone()),
        }
    }

    #[cfg(feature = "mpi")]
    fn connect(started: Started) -> Result<Self> {
        let session = crate::mpi::Session::begin()?;
        if session.processes() != started.processes {
            return Err(Error::user(format!(
                "{} started {} processes, but MPI connected {}; {}",
                started.by,
                started.processes,
                session.processes(),
                if started.by == "Slurm" {
                    "give srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)"
                } else {
                    "use the mpirun of the library that paceline was built with"
                }
            )));
        }
        let mut world = Self { process: session.process(), hosts: Vec::new(), mpi: Some(session) };
        let names = world.gather(host_name().as_bytes())?;
        world.hosts = names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        Ok(world)
    }

    #[cfg(not(feature = "mpi"))]
    fn connect(started: Started) -> Result<Self> {
        Err(Error::user(format!(
            "{} started {} processes, but this paceline was built without MPI; {BUILD}",
            started.by, started.processes
        )))
    }

    /// This process.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Number of processes.
    pub fn processes(&self) -> usize {
        self.hosts.len()
    }

    /// The name of each process's host.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// MPI itself, where there are several processes.
    #[cfg(feature = "mpi")]
    pub fn session(&mut self) -> Option<&mut crate::mpi::Session> {
        self.mpi.as_mut()
    }

    /// Gives the job up: this process will end without waiting for the others.
    pub fn abandon(&mut self) {
        #[cfg(feature = "mpi")]
        if let Some(session) = &mut self.mpi {
            session.abandon();
        }
    }

    /// What every process brings, in their order. All must call it.
    pub fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        #[cfg(feature = "mpi")]
        if let Some(session) = &mut self.mpi {
            return session.gather(mine);
        }
        Ok(vec![mine.to_vec()])
    }

    /// What process 0 brings. All must call it; the others bring nothing.
    pub fn broadcast(&mut self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        #[cfg(feature = "mpi")]
        if let Some(session) = &mut self.mpi {
            return session.broadcast(bytes);
        }
        Ok(bytes)
    }

    /// The ranks that this process holds, `local` of them; all processes must call it, with their own numbers. Each is
    /// to be moved to its thread. Called again, it makes ranks that have nothing to do with the earlier ones.
    ///
    /// # Panics
    /// If `local` is 0.
    pub fn ranks(&mut self, local: usize) -> Result<Vec<Box<dyn Comm>>> {
        self.ranks_within(local, crate::threads::DEFAULT_TIMEOUT)
    }

    /// The same; a rank that waits for `timeout` without any news fails, and names those who are missing.
    ///
    /// # Panics
    /// If `local` is 0.
    pub fn ranks_within(&mut self, local: usize, timeout: Duration) -> Result<Vec<Box<dyn Comm>>> {
        #[cfg(feature = "mpi")]
        if let Some(session) = &mut self.mpi {
            return session.ranks(local, &crate::mpi::Settings { timeout, ..Default::default() });
        }
        let patient = |mut comm: crate::Threads| {
            comm.set_timeout(timeout);
            Box::new(comm) as Box<dyn Comm>
        };
        Ok(threads(local).into_iter().map(patient).collect())
    }
}

/// What to do where MPI is wanted and this program has none.
pub const BUILD: &str = "install an MPI library (Debian: apt-get install openmpi-bin libopenmpi-dev libclang-dev) and build \
     with cargo build --release --features mpi";

/// An MPI library, by family: what its `mpirun` is called and which flags that takes depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI.
    OpenMpi,
    /// MPICH, and what is derived from it (Intel MPI, MVAPICH, Cray).
    Mpich,
}

/// The library that this program was built with.
pub fn library() -> Option<Library> {
    #[cfg(feature = "mpi")]
    {
        let open = crate::mpi::ffi::library_version().contains("Open MPI");
        Some(if open { Library::OpenMpi } else { Library::Mpich })
    }
    #[cfg(not(feature = "mpi"))]
    None
}

/// Whether this program can connect several processes.
pub const fn has_mpi() -> bool {
    cfg!(feature = "mpi")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<(&str, usize, usize)>) {
        let of = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        assert_eq!(started(of).map(|s| (s.by, s.process, s.processes)), expected);
    }

    #[test]
    fn a_launcher_is_known_by_its_variables() {
        check(&[], None);
        check(&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")], Some(("Open MPI", 1, 4)));
        check(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")], Some(("MPICH", 0, 2)));
        check(&[("SLURM_PROCID", "3"), ("SLURM_STEP_NUM_TASKS", "8")], Some(("Slurm", 3, 8)));
        check(&[("SLURM_PROCID", "0")], None);
        check(&[("PMI_RANK", "zero"), ("PMI_SIZE", "2")], None);
    }

    #[test]
    fn a_launcher_tells_how_many_it_started_here() {
        let of = |name: &'static str, value: &'static str| started_here(move |n| (n == name).then(|| value.into()));
        assert_eq!(of("", ""), 1);
        assert_eq!(of("OMPI_COMM_WORLD_LOCAL_SIZE", "4"), 4);
        assert_eq!(of("MPI_LOCALNRANKS", "0"), 1);
        assert_eq!(of("MPI_LOCALNRANKS", "many"), 1);
    }
}
