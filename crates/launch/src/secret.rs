//! How a process and `launch` prove to each other that they know the token of an attempt, without saying it: each answers
//! the other's random number with an HMAC (RFC 2104, over SHA-256) of it. Who only listens on the network learns nothing
//! that would let it in.

use paceline_base::{Error, Result};
use paceline_system::hex;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Bytes that SHA-256 works through at a time.
const BLOCK: usize = 64;

/// Who proves: what one side says must not do for the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A process of the job, with its number and how many there are.
    Process(usize, usize),
    /// The watcher.
    Launch,
}

/// 32 hexadecimal digits that nobody can guess: a token, or a number that is used once.
pub(crate) fn random() -> Result<String> {
    let mut bytes = [0u8; 16];
    let path = Path::new("/dev/urandom");
    let mut file = std::fs::File::open(path).map_err(|e| Error::io("read", path, &e))?;
    std::io::Read::read_exact(&mut file, &mut bytes).map_err(|e| Error::io("read", path, &e))?;
    Ok(hex(&bytes))
}

/// What proves that `side` knows the token, for these two random numbers only.
pub(crate) fn proof(token: &str, side: Side, of_launch: &str, of_process: &str) -> String {
    let who = match side {
        Side::Process(number, all) => format!("process {number} of {all}"),
        Side::Launch => "launch".into(),
    };
    hex(&hmac(token.as_bytes(), format!("{who}\n{of_launch}\n{of_process}").as_bytes()))
}

/// Whether two proofs are equal, in a time that does not tell where they differ.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |different, (x, y)| different | (x ^ y)) == 0
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = [0u8; BLOCK];
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |with: u8| block.map(|b| b ^ with);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, cases 1, 2, 3 and 6.
    #[test]
    fn hmac_is_that_of_the_standard() {
        let check = |key: &[u8], message: &[u8], expected: &str| assert_eq!(hex(&hmac(key, message)), expected);
        check(&[0x0b; 20], b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
        check(
            b"Jefe",
            b"what do ya want for nothing?",
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
        );
        check(&[0xaa; 20], &[0xdd; 50], "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
        check(
            &[0xaa; 131],
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
        );
    }

    #[test]
    fn a_proof_is_good_for_one_side_and_one_pair_of_numbers() {
        let (a, b) = (random().unwrap(), random().unwrap());
        assert_ne!(a, b);
        let right = proof("token", Side::Process(1, 2), &a, &b);
        assert!(same(&right, &proof("token", Side::Process(1, 2), &a, &b)));
        for other in [
            proof("other", Side::Process(1, 2), &a, &b),
            proof("token", Side::Process(0, 2), &a, &b),
            proof("token", Side::Launch, &a, &b),
            proof("token", Side::Process(1, 2), &b, &a),
            String::new(),
        ] {
            assert!(!same(&right, &other));
        }
    }
}
