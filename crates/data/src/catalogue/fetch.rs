//! One file over plain HTTP.
//!
//! There is no TLS on purpose: what comes is compared with a SHA-256 that is part of the program, which is stronger than
//! knowing the server, and it saves a TLS library. A body that stalls for [`STALL`] is given up; there is no limit on the
//! whole, so that slow lines still finish.

use crate::{DataError, Result};
use std::io::Read;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(20);
const STALL: Duration = Duration::from_secs(60);

/// Starts a download; the bytes come from the reader.
pub(crate) fn open(url: &str) -> Result<impl Read + use<>> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(DataError::NotPlainHttp { url: url.into() });
    };
    let mut config = ureq::Agent::config_builder()
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(STALL));
    if is_loopback(rest) {
        config = config.proxy(None); // a proxy elsewhere cannot reach this machine's own loopback
    }
    match config.build().new_agent().get(url).call() {
        Ok(response) => Ok(response.into_body().into_reader()),
        Err(ureq::Error::StatusCode(status)) => Err(DataError::HttpStatus { url: url.into(), status }),
        Err(error) => Err(DataError::Unreachable { url: url.into(), reason: error.to_string() }),
    }
}

fn is_loopback(authority_and_path: &str) -> bool {
    let host = authority_and_path.split(['/', ':']).next().unwrap_or_default();
    host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}
