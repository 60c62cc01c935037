//! One line of a vector file. Unknown fields are refused, so that nothing recorded is silently ignored.

use serde::{Deserialize, Deserializer, de};

use super::Release;
use super::config::Config;

/// Bytes that are written as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Hex(pub Vec<u8>);

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        let digits = String::deserialize(deserializer)?;
        parse(&digits).map(Hex).ok_or_else(|| de::Error::custom(format!("not hexadecimal: {digits}")))
    }
}

fn parse(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let nibble = |digit: u8| char::from(digit).to_digit(16);
    let byte = |&[high, low]: &[u8; 2]| Some((nibble(high)? << 4 | nibble(low)?) as u8);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// A recorded exchange.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vector {
    /// Unique; also the name of its nodes.
    pub name: String,
    /// What it shows.
    pub why: String,
    /// Releases that it holds for.
    pub servers: Vec<String>,
    /// What the server must be started with.
    #[serde(default)]
    pub config: Config,
    /// Input that no client sends, or behaviour that need not be copied.
    #[serde(default)]
    pub quirk: bool,
    /// In order; a step starts when the previous one is complete.
    pub steps: Vec<Step>,
}

impl Vector {
    /// Whether it was recorded on this release.
    pub fn holds_for(&self, release: Release) -> bool {
        self.servers.iter().any(|server| server == release.name())
    }
}

/// One step of an exchange.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Label of a connection; a mere pause has none.
    pub session: Option<String>,
    /// Open a new connection under the label first.
    #[serde(default)]
    pub connect: bool,
    /// Bytes to send.
    pub send: Option<Hex>,
    /// Zero bytes to send after them.
    #[serde(default)]
    pub pad: usize,
    /// Bytes to send after those.
    pub then: Option<Hex>,
    /// Fields of `send` to overwrite.
    #[serde(default)]
    pub patch: Vec<Field>,
    /// Frames that arrive, each with its length.
    #[serde(default)]
    pub recv: Vec<Hex>,
    /// Per frame, the fields that are not compared literally.
    #[serde(default)]
    pub mask: Vec<Vec<Field>>,
    /// The exact answer to a four-letter word.
    pub text: Option<String>,
    /// A regular expression for the whole answer to a four-letter word.
    pub pattern: Option<String>,
    /// The server then closes the connection.
    #[serde(default)]
    pub closed: bool,
    /// The client closes the socket.
    #[serde(default)]
    pub drop: bool,
    /// Pause.
    #[serde(default)]
    pub wait_ms: u64,
    /// For the reader.
    pub note: Option<String>,
}

/// A field of a frame whose value differs from run to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Offset from the start of the frame, its length included.
    pub at: usize,
    /// Bytes.
    pub len: usize,
    /// What stands there.
    pub kind: FieldKind,
    /// Zxids and times: relative to the last zxid before the first step.
    #[serde(default)]
    pub rel: i64,
    /// Sessions and passwords: the label under which the session was first seen.
    #[serde(default)]
    pub of: String,
}

/// What stands in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldKind {
    /// A zxid.
    Zxid,
    /// The zxid of a watch event.
    EventZxid,
    /// Wall clock of a transaction.
    Time,
    /// A session id.
    Session,
    /// A session password.
    Passwd,
    /// A vector in any order.
    Names,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_checked() {
        assert_eq!(parse("00ffA1"), Some(vec![0, 255, 0xa1]));
        assert_eq!(parse("0"), None);
        assert_eq!(parse("zz"), None);
    }
}
