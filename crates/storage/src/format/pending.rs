//! Zebu's mark of a change of the whole directory that has begun: the bytes of `zebu.pending`. From the
//! moment it is durable the change is carried to its end, by whoever comes next.

use super::names::{Spelling, parse_snapshot};

/// Name of the file, beside the snapshots. Apache ignores it.
pub const NAME: &str = "zebu.pending";

/// The name that it has until it is durable.
pub const TEMPORARY_NAME: &str = "zebu.pending.tmp";

/// What the names of received states start with until they are installed. Apache must not take them for
/// snapshots.
pub const RECEIVED_PREFIX: &str = "zebu.install.";

/// What the names of directories with data that was set aside start with.
pub const ASIDE_PREFIX: &str = "aside.";

/// Whether the state that is left holds everything that this server has promised to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It does.
    Trusted,
    /// Something may be missing until the others have brought it up to date.
    Untrusted,
}

/// A change that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// A received state takes the place of everything.
    Install {
        /// The file that holds it.
        received: String,
        /// The name that it gets.
        snapshot: String,
    },
    /// Logs and snapshots go into a directory of this number.
    SetAside {
        /// Which.
        number: u32,
    },
}

impl Pending {
    /// The file's bytes: one line of words, the last one a checksum.
    pub fn encode(&self) -> Vec<u8> {
        let words = match self {
            Pending::Install { received, snapshot } => format!("install {received} {snapshot}"),
            Pending::SetAside { number } => format!("aside {number}"),
        };
        let checksum = simd_adler32::adler32(&words.as_bytes());
        format!("{words} {checksum:08x}\n").into_bytes()
    }

    /// Reads the file; `None` if it is not one.
    pub fn decode(bytes: &[u8]) -> Option<Pending> {
        let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
        let (words, checksum) = text.rsplit_once(' ')?;
        if checksum != format!("{:08x}", simd_adler32::adler32(&words.as_bytes())) {
            return None;
        }
        let words: Vec<_> = words.split(' ').collect();
        match words[..] {
            ["aside", number] => Some(Pending::SetAside { number: number.parse().ok()? }),
            ["install", received, snapshot] => {
                let ours = received.starts_with(RECEIVED_PREFIX) && !received.contains('/');
                let canonical = parse_snapshot(snapshot)?.spelling == Spelling::Canonical;
                let (received, snapshot) = (received.to_owned(), snapshot.to_owned());
                (ours && canonical).then_some(Pending::Install { received, snapshot })
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
            Pending::Install { received: "zebu.install.3".into(), snapshot: "snapshot.100000007.gz".into() },
            Pending::SetAside { number: 1 },
            Pending::SetAside { number: u32::MAX },
        ] {
            let bytes = mark.encode();
            assert_eq!(Pending::decode(&bytes), Some(mark));
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Pending::decode(&flipped), None);
            }
            for length in 0..bytes.len() {
                assert_eq!(Pending::decode(&bytes[..length]), None);
            }
        }
    }

    #[test]
    fn words_that_are_no_change_are_refused() {
        let sealed = |words: &str| format!("{words} {:08x}\n", simd_adler32::adler32(&words.as_bytes()));
        assert_eq!(Pending::decode(sealed("aside 7").as_bytes()), Some(Pending::SetAside { number: 7 }));
        for words in
            ["aside x", "aside -1", "aside 4294967296", "aside", "aside 1 2", "", "install a", "else 1"]
        {
            assert_eq!(Pending::decode(sealed(words).as_bytes()), None, "{words}");
        }
        for bytes in [&b"aside\n"[..], b"\n", b"", b"\xff 00000000\n", b"aside 7"] {
            assert_eq!(Pending::decode(bytes), None, "{bytes:?}");
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
            let mark = Pending::Install { received: received.into(), snapshot: snapshot.into() };
            assert_eq!(Pending::decode(&mark.encode()), None, "{received} {snapshot}");
        }
    }
}
