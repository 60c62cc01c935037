//! The file behind `-client-configuration`: properties of the client, one per line. What asks for protection
//! that this version does not have is refused, so that nothing goes over a plain connection by surprise.

use std::path::Path;

/// What the file says that this client can follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientConfiguration {
    /// The largest answer that is accepted, in bytes.
    pub(crate) largest_answer: Option<usize>,
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigurationError {
    #[error("cannot read the client configuration {path}: {reason}")]
    Unreadable { path: String, reason: std::io::Error },
    #[error("{path} asks for {what} ({key}), which this version does not have; use a plain port")]
    NotBuilt { path: String, key: String, what: &'static str },
    #[error("{path}: jute.maxbuffer is not a number: {text}")]
    NotANumber { path: String, text: String },
}

impl ClientConfiguration {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<ClientConfiguration, ConfigurationError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|reason| ConfigurationError::Unreadable { path: shown.clone(), reason })?;
        ClientConfiguration::parse(&shown, &text)
    }

    fn parse(path: &str, text: &str) -> Result<ClientConfiguration, ConfigurationError> {
        let mut configuration = ClientConfiguration::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let (key, value) = line.split_once(['=', ':']).unwrap_or((line, ""));
            let (key, value) = (key.trim(), value.trim());
            let not_built =
                |what| ConfigurationError::NotBuilt { path: path.to_owned(), key: key.to_owned(), what };
            match key {
                "zookeeper.client.secure" if value.eq_ignore_ascii_case("true") => {
                    return Err(not_built("TLS"));
                }
                "java.security.auth.login.config" | "zookeeper.sasl.clientconfig" => {
                    return Err(not_built("SASL"));
                }
                "jute.maxbuffer" => {
                    let number = parse_bytes(value).ok_or_else(|| ConfigurationError::NotANumber {
                        path: path.to_owned(),
                        text: value.to_owned(),
                    })?;
                    configuration.largest_answer = Some(number);
                }
                _ => {}
            }
        }
        Ok(configuration)
    }
}

/// A number, decimal or hexadecimal as Java takes it.
fn parse_bytes(text: &str) -> Option<usize> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => usize::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_followed() {
        let text =
            "# client\n\nzookeeper.client.secure=false\njute.maxbuffer = 0x100000\nzookeeper.kinit=/x\n";
        let read = ClientConfiguration::parse("f", text).unwrap();
        assert_eq!(read.largest_answer, Some(1 << 20));
    }

    #[test]
    fn protection_that_is_not_there_is_refused() {
        for (text, word) in [
            ("zookeeper.client.secure=true", "TLS"),
            ("zookeeper.sasl.clientconfig=Other", "SASL"),
            ("jute.maxbuffer=many", "many"),
        ] {
            let error = ClientConfiguration::parse("f", text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
