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

use crate::started::Started;
use crate::waiting::WaitingRanks;
use crate::{Comm, threads};
use paceline_base::{Error, Result};
use paceline_system::host_name;
use std::time::Duration;

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
        match Started::from_env() {
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

    /// This process's number, from 0; 0 decides and shows for all.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Number of processes, each of one or more ranks.
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

    /// How many of this process's ranks wait for those of others, whenever that is asked.
    pub fn waiting_ranks(&self) -> WaitingRanks {
        #[cfg(feature = "mpi")]
        if let Some(session) = &self.mpi {
            return session.waiting_ranks();
        }
        WaitingRanks::default()
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

impl Library {
    /// The library that this program was built with; none if it was built without MPI.
    pub fn linked() -> Option<Self> {
        #[cfg(feature = "mpi")]
        return Some(Self::of_version(&crate::mpi::library_version()));
        #[cfg(not(feature = "mpi"))]
        None
    }

    /// By what a library says of itself.
    #[cfg(feature = "mpi")]
    pub(crate) fn of_version(text: &str) -> Self {
        if text.contains("Open MPI") { Self::OpenMpi } else { Self::Mpich }
    }
}

/// Whether this program can connect several processes.
pub const fn has_mpi() -> bool {
    cfg!(feature = "mpi")
}
