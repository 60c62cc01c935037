//! Zebu's mark of a pending operation on the data directory: the bytes of `zebu.pending`. Once the mark is
//! durable the operation is always completed, if necessary by the next start.

use super::names::{NameSpelling, parse_snapshot};

/// Name of the file, beside the snapshots. ZooKeeper ignores it.
pub const NAME: &str = "zebu.pending";

/// Its name until it is durable.
pub const TEMPORARY_NAME: &str = "zebu.pending.tmp";

/// The prefix of received snapshots until they are installed. ZooKeeper must not take them for snapshots.
pub const RECEIVED_PREFIX: &str = "zebu.install.";

/// The prefix of quarantine directories.
pub const ASIDE_PREFIX: &str = "aside.";

/// Whether the data contains everything that this server has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It does.
    Trusted,
    /// Transactions may be missing until the server is synchronized.
    Untrusted,
}

/// An operation that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingOperation {
    /// A received snapshot replaces all logs and snapshots.
    Install {
        /// The file of the received snapshot.
        received: String,
        /// The name that it gets.
        snapshot: String,
    },
    /// Logs and snapshots are moved to the quarantine directory of this number.
    SetAside {
        /// The number of the directory.
        number: u32,
    },
}

impl PendingOperation {
    /// The file's bytes: one line of words, the last one a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let words = match self {
            PendingOperation::Install { received, snapshot } => format!("install {received} {snapshot}"),
            PendingOperation::SetAside { number } => format!("aside {number}"),
        };
        let checksum = simd_adler32::adler32(&words.as_bytes());
        format!("{words} {checksum:08x}\n").into_bytes()
    }

    /// Reads the file; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<PendingOperation> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (words, checksum) = text.rsplit_once(' ')?;
        if checksum != format!("{:08x}", simd_adler32::adler32(&words.as_bytes())) {
            return None;
        }
        let words: Vec<_> = words.split(' ').collect();
        match words[..] {
            ["aside", number] => Some(PendingOperation::SetAside { number: number.parse().ok()? }),
            ["install", received, snapshot] => {
                let ours = received.starts_with(RECEIVED_PREFIX) && !received.contains('/');
                let canonical = parse_snapshot(snapshot)?.spelling == NameSpelling::Canonical;
                let (received, snapshot) = (received.to_owned(), snapshot.to_owned());
                (ours && canonical).then_some(PendingOperation::Install { received, snapshot })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_round_trip_and_no_bit_may_differ() {
        for mark in [
            PendingOperation::Install {
                received: "zebu.install.3".into(),
                snapshot: "snapshot.100000007.gz".into(),
            },
            PendingOperation::SetAside { number: 1 },
            PendingOperation::SetAside { number: u32::MAX },
        ] {
            let bytes = mark.encode();
            assert_eq!(PendingOperation::decode(&bytes), Some(mark));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(PendingOperation::decode(&flipped), None);
            }
            for length in 0..bytes.len() {
                assert_eq!(PendingOperation::decode(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn words_that_are_no_change_are_refused() {
        let sealed = |words: &str| format!("{words} {:08x}\n", simd_adler32::adler32(&words.as_bytes()));
        assert_eq!(
            PendingOperation::decode(sealed("aside 7").as_bytes()),
            Some(PendingOperation::SetAside { number: 7 })
        );
        for words in
            ["aside x", "aside -1", "aside 4294967296", "aside", "aside 1 2", "", "install a", "else 1"]
        {
            assert_eq!(PendingOperation::decode(sealed(words).as_bytes()), None, "{words}");
        }
        for bytes in [&b"aside\n"[..], b"\n", b"", b"\xff 00000000\n", b"aside 7"] {
            assert_eq!(PendingOperation::decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for (received, snapshot) in [
            ("zebu.install.../../x", "snapshot.1"),
            ("snapshot.1", "snapshot.1"),
            ("zebu.install.1", "snapshot.1.bak"),
            ("zebu.install.1", "log.1"),
        ] {
            let mark = PendingOperation::Install { received: received.into(), snapshot: snapshot.into() };
            assert_eq!(PendingOperation::decode(&mark.encode()), None, "{received} {snapshot}");
        }
    }
}
