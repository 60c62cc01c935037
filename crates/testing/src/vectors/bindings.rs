//! The values that differ from run to run: where zxids start, session ids, times. A value is bound where
//! it is first seen and must be the same wherever the recording says it is.

use std::collections::BTreeMap;

use zebu_proto::password::session_password;
use zebu_proto::{SessionId, Zxid};

use super::Release;
use super::format::{Field, FieldKind};

/// The values bound so far in one run of one vector.
#[derive(Debug)]
pub(super) struct Bindings {
    base: Zxid,
    release: Release,
    sessions: BTreeMap<String, SessionId>,
    times: BTreeMap<i64, [u8; 8]>,
}

impl Bindings {
    pub(super) fn new(base: Zxid, release: Release) -> Bindings {
        Bindings { base, release, sessions: BTreeMap::new(), times: BTreeMap::new() }
    }

    /// The sessions seen, one entry per session.
    pub(super) fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.values().copied()
    }

    /// Overwrites a field of bytes that are to be sent.
    pub(super) fn patch(&self, field: &Field, bytes: &mut [u8]) -> Result<(), String> {
        let value = match field.kind {
            FieldKind::Zxid => self.zxid(field.rel).to_vec(),
            FieldKind::Session => self.session(&field.of)?.0.to_be_bytes().to_vec(),
            FieldKind::Passwd => session_password(self.session(&field.of)?).to_vec(),
            FieldKind::EventZxid | FieldKind::Time | FieldKind::Names => {
                return Err(format!("a field of kind {:?} cannot be sent", field.kind));
            }
        };
        let place = bytes.get_mut(field.at..field.at + field.len).ok_or("a patch outside of the bytes")?;
        place.copy_from_slice(value.get(..field.len).ok_or("a patch longer than its value")?);
        Ok(())
    }

    /// Judges a received field; `None` if it is right. Names are not judged here.
    pub(super) fn check(&mut self, field: &Field, got: &[u8]) -> Result<(), String> {
        let expected = match field.kind {
            FieldKind::Zxid => self.zxid(field.rel).to_vec(),
            FieldKind::EventZxid => match self.release {
                Release::V3_8_0 => (-1i64).to_be_bytes().to_vec(),
                Release::V3_9_5 => self.zxid(field.rel).to_vec(),
            },
            FieldKind::Time => {
                let got = got.try_into().map_err(|_| "a time of odd length")?;
                self.times.entry(field.rel).or_insert(got).to_vec()
            }
            FieldKind::Session => {
                let got = got.try_into().map_err(|_| "a session id of odd length")?;
                let got = SessionId(i64::from_be_bytes(got));
                self.sessions.entry(field.of.clone()).or_insert(got).0.to_be_bytes().to_vec()
            }
            FieldKind::Passwd => session_password(self.session(&field.of)?)[..field.len.min(16)].to_vec(),
            FieldKind::Names => return Ok(()),
        };
        if expected == got {
            return Ok(());
        }
        Err(format!(
            "{:?} (rel {}, of {:?}) at offset {}: expected {}, got {}",
            field.kind,
            field.rel,
            field.of,
            field.at,
            hex(&expected),
            hex(got)
        ))
    }

    fn zxid(&self, relative: i64) -> [u8; 8] {
        self.base.0.wrapping_add(relative).to_be_bytes()
    }

    fn session(&self, label: &str) -> Result<SessionId, String> {
        self.sessions.get(label).copied().ok_or_else(|| format!("session {label:?} was not seen yet"))
    }
}

/// Hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: FieldKind, rel: i64, of: &str, len: usize) -> Field {
        Field { at: 0, len, kind, rel, of: of.into() }
    }

    #[test]
    fn values_are_bound_once() {
        let mut bindings = Bindings::new(Zxid(100), Release::V3_9_5);
        let zxid = field(FieldKind::Zxid, 2, "", 8);
        assert!(bindings.check(&zxid, &102i64.to_be_bytes()).is_ok());
        assert!(bindings.check(&zxid, &103i64.to_be_bytes()).is_err());
        let time = field(FieldKind::Time, 2, "", 8);
        assert!(bindings.check(&time, &[7; 8]).is_ok());
        assert!(bindings.check(&time, &[8; 8]).is_err());
        let password = field(FieldKind::Passwd, 0, "a", 16);
        assert!(bindings.check(&password, &[0; 16]).is_err());
        assert!(bindings.check(&field(FieldKind::Session, 0, "a", 8), &1i64.to_be_bytes()).is_ok());
        assert!(bindings.check(&password, &session_password(SessionId(1))).is_ok());
        let mut sent = [0; 8];
        bindings.patch(&field(FieldKind::Session, 0, "a", 8), &mut sent).unwrap();
        assert_eq!(sent, 1i64.to_be_bytes());
    }
}
