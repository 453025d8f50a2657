//! What launchers tell their processes through the environment, before MPI is asked: whoever must not begin MPI yet, or was
//! built without it, knows its number from here.

/// What a launcher tells a process of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The launcher's name, as people write it.
    pub by: &'static str,
    /// This process, from 0.
    pub process: usize,
    /// Number of processes that it started.
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

impl Started {
    /// How this process was started; none if no launcher did.
    pub fn from_env() -> Option<Self> {
        started(|name| std::env::var(name).ok())
    }
}

/// How many processes of the job its launcher started on this host; 1 if it says nothing.
pub fn processes_here() -> usize {
    started_here(|name| std::env::var(name).ok())
}

fn started(variable: impl Fn(&str) -> Option<String>) -> Option<Started> {
    LAUNCHERS.iter().find_map(|&(by, rank, size)| {
        let number = |name: &str| variable(name)?.trim().parse().ok();
        Some(Started { by, process: number(rank)?, processes: number(size)? })
    })
}

fn started_here(variable: impl Fn(&str) -> Option<String>) -> usize {
    const NAMES: [&str; 4] =
        ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "PALS_LOCAL_SIZE"];
    let number = |name: &&str| variable(name)?.trim().parse().ok();
    NAMES.iter().find_map(number).unwrap_or(1).max(1)
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
