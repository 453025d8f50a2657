//! Failing together: what one process of a job cannot do, none of them goes on with.

use crate::World;
use paceline_base::{Error, Kind, Peer, Result};

/// What stands for a kind of error between processes.
fn letter(kind: Kind) -> char {
    match kind {
        Kind::User => 'u',
        Kind::Stopped => 's',
        Kind::Failure | Kind::Internal => 'f',
    }
}

/// The value, if it is there on all processes; else the same error on all of them.
pub fn agree<T>(world: &mut World, mine: Result<T>) -> Result<T> {
    let told = match &mine {
        Ok(_) => Vec::new(),
        Err(e) => format!("{}{}", letter(e.kind()), e.message()).into_bytes(),
    };
    let all = world.gather(&told)?;
    let value = mine?;
    match all.iter().enumerate().find(|(_, words)| !words.is_empty()) {
        None => Ok(value),
        Some((process, words)) => {
            let words = String::from_utf8_lossy(words);
            let (kind, message) = words.split_at(1);
            let message = format!("process {process} on {}: {message}", world.hosts()[process]);
            let error = match kind {
                "u" => Error::user(message),
                "s" => Error::stopped(message),
                _ => Error::failure(message),
            };
            Err(error.of_peer(Peer::Process(process)))
        }
    }
}
