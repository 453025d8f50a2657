//! What several crates ask the operating system for, asked in one way.
//!
//! `base` never does I/O, and what is here belongs to no run, no data set and no transport: files that are replaced whole
//! ([`atomic`]), the machine and what it lets a process have ([`machine`]), how processes end ([`process`]), the name of the host, and bytes written as digests are.
//! Where a system does not say (there is no `/proc`), a function answers "unknown" in its own way instead of failing.
//!
//! ```
//! use paceline_system::{atomic, hex, host_name, machine};
//!
//! # let folder = std::env::temp_dir().join(format!("paceline-system-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! let machine = machine::describe();
//! assert!(machine.cores >= 1 && !host_name().is_empty());
//!
//! // Whoever reads the file meanwhile sees the old one or the new one, never half of either.
//! let path = folder.join("machine.txt");
//! atomic::write(&path, format!("{} cores\n", machine.cores).as_bytes())?;
//! assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{} cores\n", machine.cores));
//! assert_eq!(hex(&[0x0f, 0xa0]), "0fa0");
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), paceline_base::Error>(())
//! ```

pub mod atomic;
mod hex;
mod host;
pub mod machine;
pub mod process;
pub mod threads;

pub use hex::hex;
pub use host::host_name;
pub use machine::Machine;
