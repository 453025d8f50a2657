//! Bytes as text: two hexadecimal digits each, as `sha256sum` writes digests.

use std::fmt::Write;

/// Bytes as lower-case hexadecimal digits, without separators.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0, 7, 0x10, 0xff]), "000710ff");
    }
}
