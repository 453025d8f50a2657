//! MPI begun and ended, and what processes agree on before their ranks are made.

use super::ffi::Communicator;
use crate::Comm;
use ::mpi::Threading;
use ::mpi::environment::Universe;
use paceline_base::{Error, Result};

/// MPI, from its beginning to its end.
pub struct Session {
    world: Communicator,
    process: usize,
    processes: usize,
    /// Ends MPI when it is dropped; left alone if the job failed, because the end waits for everybody.
    universe: Option<Universe>,
}

impl Session {
    /// Connects the processes of the job. Once in a process.
    pub fn begin() -> Result<Self> {
        let (universe, given) = ::mpi::initialize_with_threading(Threading::Multiple)
            .ok_or_else(|| Error::internal("MPI was begun twice in one process"))?;
        if given != Threading::Multiple {
            return Err(Error::user(format!(
                "this MPI library allows calls from one thread only ({given:?}), but paceline needs MPI_THREAD_MULTIPLE; \
                 use a build of the library with thread support (Debian's Open MPI and MPICH have it)"
            )));
        }
        let world = Communicator::world()?;
        Ok(Self { world, process: world.process()?, processes: world.processes()?, universe: Some(universe) })
    }

    /// This process.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Number of processes.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// What every process brings, in their order.
    pub fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u8; 8 * self.processes];
        self.world.all_gather(&(mine.len() as u64).to_le_bytes(), &mut lengths)?;
        let length = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes")) as usize;
        let lengths: Vec<usize> = lengths.chunks_exact(8).map(length).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0; longest * self.processes];
        self.world.all_gather(&padded, &mut all)?;
        Ok(lengths.iter().enumerate().map(|(p, &n)| all[p * longest..][..n].to_vec()).collect())
    }

    /// What process 0 brings.
    pub fn broadcast(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.world.broadcast(&mut length)?;
        bytes.resize(u64::from_le_bytes(length) as usize, 0);
        self.world.broadcast(&mut bytes)?;
        Ok(bytes)
    }

    /// The ranks that this process holds.
    pub fn ranks(&mut self, local: usize) -> Result<Vec<Box<dyn Comm>>> {
        let _ = local;
        Err(Error::internal("ranks over MPI are not there yet"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::mem::forget(self.universe.take());
        }
    }
}
