//! Passwords and private keys in memory: no value in `Debug`, wiped on drop, compared in constant time.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Compares two secret texts in a time that depends on their lengths only.
pub fn is_same_secret(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

/// A password.
#[derive(Clone, Default)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Takes the text over. The caller's copies are not wiped.
    pub fn new(text: impl Into<String>) -> SecretText {
        SecretText(Zeroizing::new(text.into()))
    }

    /// Reads the content of a password file: UTF-8, without one newline at its end.
    pub fn from_file_content(content: &[u8]) -> Result<SecretText, std::str::Utf8Error> {
        let text = std::str::from_utf8(content)?;
        Ok(SecretText::new(text.strip_suffix('\n').unwrap_or(text)))
    }

    /// The text itself. Callers must not log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the text is empty, as an unset password is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares in a time that depends on the lengths only.
    pub fn matches(&self, other: &str) -> bool {
        is_same_secret(&self.0, other)
    }
}

/// Compares in a time that depends on the lengths only.
impl PartialEq for SecretText {
    fn eq(&self, other: &SecretText) -> bool {
        self.matches(other.reveal())
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretText(redacted)")
    }
}

/// A private key, or another secret that is not text.
#[derive(Clone, Default)]
pub struct SecretBytes(Zeroizing<Vec<u8>>);

impl SecretBytes {
    /// Takes the bytes over. The caller's copies are not wiped.
    pub fn new(bytes: Vec<u8>) -> SecretBytes {
        SecretBytes(Zeroizing::new(bytes))
    }

    /// The bytes themselves. Callers must not log them.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// Compares in a time that depends on the lengths only.
    pub fn matches(&self, other: &[u8]) -> bool {
        self.0.as_slice().ct_eq(other).into()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SecretBytes(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let text = format!("{:?} {:?}", SecretText::new("pass"), SecretBytes::new(b"key".to_vec()));
        assert_eq!(text, "SecretText(redacted) SecretBytes(redacted)");
    }

    #[test]
    fn comparison_needs_every_byte() {
        let text = SecretText::new("secret");
        assert!(text.matches("secret"));
        for other in ["", "secre", "secret ", "Secret", "secreT"] {
            assert!(!text.matches(other), "{other}");
        }
        assert!(SecretBytes::new(vec![1, 2]).matches(&[1, 2]));
        assert!(!SecretBytes::new(vec![1, 2]).matches(&[1, 3]));
        assert!(SecretText::default().is_empty());
    }

    #[test]
    fn password_files_lose_one_newline() {
        let read =
            |content: &[u8]| SecretText::from_file_content(content).map(|text| text.reveal().to_owned());
        assert_eq!(read(b"secret\n").as_deref(), Ok("secret"));
        assert_eq!(read(b" secret\n\n").as_deref(), Ok(" secret\n"));
        assert_eq!(read(b"secret").as_deref(), Ok("secret"));
        assert!(read(&[0xff]).is_err());
    }
}
