//! Lower-case hexadecimal, the one way digests are written.

/// Returns the bytes as lower-case hexadecimal digits.
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Returns the sha256 of the bytes as 64 lower-case hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    encode(&sha2::Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_of_nothing_is_the_published_one() {
        assert_eq!(
            super::sha256(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }
}
