//! MPI begun and ended, and what processes agree on before their ranks are made.

use super::ffi::{Communicator, library_version};
use super::notice::NoticeChannel;
use super::progress_state::{ProgressSettings, ProgressState};
use super::progress_thread::ProgressThread;
use super::rank::MpiRank;
use super::submission::SubmissionQueue;
use crate::Comm;
use crate::waiting::WaitingRanks;
use crate::world::Library;
use ::mpi::Threading;
use ::mpi::environment::Universe;
use paceline_base::{Error, Result};
use paceline_system::host_name;
use std::sync::Arc;
use std::time::Duration;

/// How ranks over MPI work, where the defaults are not wanted.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of a large buffer that travel at a time.
    pub piece: usize,
    /// How long a rank may wait without any news.
    pub timeout: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { piece: 512 << 10, timeout: crate::threads::DEFAULT_TIMEOUT }
    }
}

/// MPI, from its beginning to its end.
pub struct Session {
    world: Communicator,
    process: usize,
    processes: usize,
    library: Library,
    /// Ends MPI when it is dropped; left alone if the job failed, because the end waits for everybody.
    universe: Option<Universe>,
    waiting_ranks: WaitingRanks,
    /// Of all ranks that were made, to know whether the job failed.
    queues: Vec<Arc<SubmissionQueue>>,
    /// Over which their progress threads said what is not data.
    notices: Vec<Communicator>,
}

impl Session {
    /// Connects the processes of the job.
    ///
    /// # Errors
    /// If MPI was begun before in this process, by whomever: the library can be begun and ended only once in a process, so that a
    /// process is in one job of several processes in its life (and in any number of jobs of its own).
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
        Ok(Self {
            world,
            process: world.process()?,
            processes: world.processes()?,
            library: Library::of_version(&library_version()),
            universe: Some(universe),
            waiting_ranks: WaitingRanks::default(),
            queues: Vec::new(),
            notices: Vec::new(),
        })
    }

    /// This process's number, from 0, as MPI counts.
    pub fn process(&self) -> usize {
        self.process
    }

    /// Number of processes that MPI connected.
    pub fn processes(&self) -> usize {
        self.processes
    }

    /// Those of the ranks that this session makes.
    pub(crate) fn waiting_ranks(&self) -> WaitingRanks {
        self.waiting_ranks.clone()
    }

    /// What every process brings, in their order.
    pub fn gather(&mut self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut lengths = vec![0u8; 8 * self.processes];
        self.world.all_gather(&(mine.len() as u64).to_le_bytes(), &mut lengths)?;
        let length = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes")) as usize;
        let lengths: Vec<usize> = lengths.chunks_exact(8).map(length).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![Vec::new(); self.processes]); // where nothing lies has an address that MPI may take for a sign
        }
        let mut padded = mine.to_vec();
        padded.resize(longest, 0);
        let mut all = vec![0; longest * self.processes];
        self.world.all_gather(&padded, &mut all)?;
        Ok(lengths.iter().enumerate().map(|(p, &n)| all[p * longest..][..n].to_vec()).collect())
    }

    /// What process 0 brings; the others' bytes are dropped. All must call it.
    pub fn broadcast(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        let mut length = (bytes.len() as u64).to_le_bytes();
        self.world.broadcast(&mut length)?;
        bytes.resize(u64::from_le_bytes(length) as usize, 0);
        self.world.broadcast(&mut bytes)?;
        Ok(bytes)
    }

    /// The ranks that this process holds.
    pub fn ranks(&mut self, local: usize, settings: &Settings) -> Result<Vec<Box<dyn Comm>>> {
        assert!(local > 0, "at least one rank");
        let mut facts = (local as u64).to_le_bytes().to_vec();
        facts.extend(host_name().bytes());
        let (mut first, mut hosts) = (vec![0], Vec::new());
        for facts in self.gather(&facts)? {
            let count = u64::from_le_bytes(facts[..8].try_into().expect("eight bytes"));
            first.push(first[first.len() - 1] + count as usize);
            hosts.push(String::from_utf8_lossy(&facts[8..]).into_owned());
        }
        let (data, notices) = (self.world.duplicate()?, self.world.duplicate()?);
        let tags = (data.largest_tag()? as u64 / 3).min(1 << 28);
        let settings = ProgressSettings { piece: settings.piece, timeout: settings.timeout, tags };
        let queue =
            Arc::new(SubmissionQueue::new(self.process, first.into(), hosts.into(), self.waiting_ranks.clone()));
        let state = ProgressState::new(queue.clone(), data, notices, settings);
        let thread = Arc::new(ProgressThread::start(state, queue.clone())?);
        self.queues.push(queue.clone());
        self.notices.push(notices);
        let rank = |local| Box::new(MpiRank::new(local, queue.clone(), thread.clone())) as Box<dyn Comm>;
        Ok((0..local).map(rank).collect())
    }

    /// Gives the job up: MPI is not ended in an orderly way, because that waits for everybody.
    pub fn abandon(&mut self) {
        std::mem::forget(self.universe.take());
    }

    /// Takes in the notices of those who left last, when all have: some libraries complain of messages that nobody takes.
    fn drain_notices(&mut self) -> Result<()> {
        self.barrier()?;
        for notices in self.notices.drain(..) {
            let mut notices = NoticeChannel::new(notices);
            while notices.receive()?.is_some() {}
        }
        Ok(())
    }

    /// Returns when all processes have called it.
    pub fn barrier(&self) -> Result<()> {
        let mut all = vec![0; self.processes];
        self.world.all_gather(&[0], &mut all)
    }

    /// The library's own sum over all processes, in place: what ours is compared with. All must call it.
    pub fn plain_all_reduce(&self, values: &mut [f32]) -> Result<()> {
        self.world.plain_all_reduce(values, self.library)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // After a failure the others may never come to the end: this process just ends, and the launcher ends the rest.
        if std::thread::panicking() || self.queues.iter().any(|q| q.has_failed()) {
            std::mem::forget(self.universe.take());
        } else if self.universe.is_some() {
            let _ = self.drain_notices(); // the end of MPI, which follows, will say what is wrong
        }
    }
}
