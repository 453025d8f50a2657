//! The last result of `doctor` on each machine, kept for runs that are given no cluster file: a file in the cache folder for each machine, known by its
//! host name, processor and cores.

use paceline_base::{Error, Result};
use paceline_plan::ClusterFile;
use paceline_system::{Machine, atomic, host_name, machine};
use std::path::{Path, PathBuf};

/// The folder in the cache folder.
const FOLDER: &str = "doctor";

/// Where the result of this machine is kept, below a cache folder.
pub fn kept_file(cache: &Path) -> PathBuf {
    file_of(cache, &host_name(), &machine::describe())
}

fn file_of(cache: &Path, host: &str, machine: &Machine) -> PathBuf {
    let words = format!("{host}-{}-{}", machine.cpu, machine.cores);
    let name: String = words.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    cache.join(FOLDER).join(format!("{name}.toml"))
}

/// Keeps a result as this machine's last; says where.
pub fn keep(cache: &Path, file: &ClusterFile) -> Result<PathBuf> {
    let path = kept_file(cache);
    let folder = cache.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|e| Error::io("make the folder", &folder, &e))?;
    atomic::write(&path, file.to_toml().as_bytes())?;
    Ok(path)
}

/// This machine's last result, and where it is; none if there is none.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub fn last(cache: &Path) -> Result<Option<(PathBuf, ClusterFile)>> {
    let path = kept_file(cache);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Error::io("read what doctor measured", &path, &e)),
    };
    let file = ClusterFile::parse(&text, &path.display().to_string())?;
    Ok(Some((path, file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_own() {
        let of = |host: &str, cpu: &str, cores| {
            file_of(Path::new("c"), host, &Machine { cpu: cpu.into(), cores, ..Machine::default() })
        };
        assert_eq!(of("vm", "Xeon @ 2.8", 2), Path::new("c/doctor/vm-Xeon---2.8-2.toml"));
        let all = [of("vm", "Xeon", 2), of("vm", "Xeon", 4), of("vm", "Epyc", 2), of("b", "Xeon", 2)];
        assert!((0..4).all(|i| (0..i).all(|j| all[i] != all[j])));
        assert_eq!(last(Path::new("no such folder")).unwrap(), None);
    }
}
