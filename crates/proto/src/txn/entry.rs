//! A transaction with its header and digest: the payload of a log entry and of a proposal.

use crate::ids::{SessionId, Zxid};
use crate::jute::{Buffer, DecodeError, Jute, Reader};
use crate::op::OpCode;
use crate::txn::body::{CreateTxn, DIGEST_VERSION, Txn, TxnDigest, unknown_type};

/// Bytes of an encoded digest.
const DIGEST_SIZE: usize = 12;

/// The origin, the zxid and the time of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxnHeader {
    /// The session of the request; zero for the server's own.
    pub session: SessionId,
    /// The xid of the request; zero for the server's own.
    pub cxid: i32,
    /// Position in the history.
    pub zxid: Zxid,
    /// Clock of the leader, milliseconds since 1970.
    pub time_ms: i64,
}

/// A complete transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnEntry {
    /// Its origin, zxid and time.
    pub header: TxnHeader,
    /// Its body.
    pub txn: Txn,
    /// The tree digest after it; error transactions have none.
    pub digest: Option<TxnDigest>,
}

impl TxnEntry {
    /// Appends the payload: header, body, digest.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.header.session.0.encode(out);
        self.header.cxid.encode(out);
        self.header.zxid.0.encode(out);
        self.header.time_ms.encode(out);
        self.txn.op_code().wire().encode(out);
        self.txn.encode_body(out);
        if let Some(digest) = &self.digest {
            digest.encode(out);
        }
    }

    /// Decodes a payload, also of older releases.
    pub fn decode(payload: &[u8]) -> Result<TxnEntry, DecodeError> {
        let mut reader = Reader::new(payload);
        let session = SessionId(reader.long()?);
        let cxid = reader.int()?;
        let zxid = Zxid(reader.long()?);
        let time_ms = reader.long()?;
        let wire = reader.int()?;
        let op = OpCode::from_wire(wire).ok_or_else(|| unknown_type(wire))?;
        let header = TxnHeader { session, cxid, zxid, time_ms };
        let txn = match op {
            OpCode::Create => decode_create(&mut reader)?,
            OpCode::CloseSession => decode_close_session(&mut reader),
            op => Txn::decode_body(op, &mut reader)?,
        };
        // There is no presence flag: twelve more bytes are a digest.
        let digest =
            if reader.remaining() >= DIGEST_SIZE { Some(TxnDigest::decode(&mut reader)?) } else { None };
        Ok(TxnEntry { header, txn, digest })
    }
}

/// Very old logs have no `parentCVersion`; the body is then four bytes shorter.
fn decode_create(reader: &mut Reader<'_>) -> Result<Txn, DecodeError> {
    let mut current = reader.clone();
    match CreateTxn::decode(&mut current) {
        Ok(create) => {
            *reader = current;
            Ok(Txn::Create(create))
        }
        Err(DecodeError::Short { .. }) => Ok(Txn::Create(CreateTxn {
            path: Jute::decode(reader)?,
            data: Buffer::decode(reader)?,
            acl: Jute::decode(reader)?,
            ephemeral: reader.boolean()?,
            parent_cversion: -1,
        })),
        Err(error) => Err(error),
    }
}

/// Before 3.6 there was no body. With `closeSessionTxn.enabled=false` a digest follows the header
/// directly: twelve bytes that begin with the digest version. No list of two paths is that short.
fn decode_close_session(reader: &mut Reader<'_>) -> Txn {
    let rest = reader.rest();
    if rest.len() == DIGEST_SIZE && rest.starts_with(&DIGEST_VERSION.to_be_bytes()) {
        return Txn::CloseSession(None);
    }
    let mut current = reader.clone();
    match Vec::<Box<str>>::decode(&mut current) {
        Ok(paths) => {
            *reader = current;
            Txn::CloseSession(Some(paths))
        }
        Err(_) => {
            // The remaining bytes are no list, so they are no digest either.
            *reader = Reader::new(&[]);
            Txn::CloseSession(None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::Acl;
    use crate::error_code::ErrorCode;
    use crate::txn::body::SubTxn;

    fn entry(txn: Txn, digest: Option<TxnDigest>) -> TxnEntry {
        let header = TxnHeader {
            session: SessionId(0x1000_0abc_def0_0000),
            cxid: 0,
            zxid: Zxid(0x1_0000_0001),
            time_ms: 1_700_000_000_000,
        };
        TxnEntry { header, txn, digest }
    }

    fn digest() -> Option<TxnDigest> {
        Some(TxnDigest { version: 2, tree_digest: 0x51c6_d660 })
    }

    #[test]
    fn create_session_as_apache_writes_it() {
        let mut bytes = Vec::new();
        entry(Txn::CreateSession { timeout_ms: 30_000 }, digest()).encode(&mut bytes);
        let expected = [
            0x10, 0x00, 0x0a, 0xbc, 0xde, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0x01, 0x8b,
            0xcf, 0xe5, 0x68, 0, 0xff, 0xff, 0xff, 0xf6, 0, 0, 0x75, 0x30, 0, 0, 0, 2, 0, 0, 0, 0, 0x51,
            0xc6, 0xd6, 0x60,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn every_type_round_trips() {
        let create = CreateTxn {
            path: "/a".into(),
            data: Some(b"x".as_slice().into()),
            acl: Some(Acl::open().into()),
            ephemeral: true,
            parent_cversion: 7,
        };
        let parts = vec![
            SubTxn(Txn::Create(create.clone())),
            SubTxn(Txn::error(ErrorCode::NoNode)),
            SubTxn(Txn::Error(-2)),
        ];
        for txn in [
            Txn::error(ErrorCode::NoAuth),
            Txn::CloseSession(Some(vec!["/e".into()])),
            Txn::CloseSession(Some(vec![])),
            Txn::Create2(create),
            Txn::Delete("/a".into()),
            Txn::Multi(parts),
        ] {
            for digest in [None, digest()] {
                let entry = entry(txn.clone(), digest);
                let mut bytes = Vec::new();
                entry.encode(&mut bytes);
                assert_eq!(TxnEntry::decode(&bytes).unwrap(), entry);
            }
        }
    }

    #[test]
    fn close_session_without_body() {
        for digest in [None, digest()] {
            let entry = entry(Txn::CloseSession(None), digest);
            let mut bytes = Vec::new();
            entry.encode(&mut bytes);
            assert_eq!(TxnEntry::decode(&bytes).unwrap(), entry);
        }
    }

    #[test]
    fn a_multi_inside_a_multi_is_refused() {
        let nested = Txn::Multi(vec![SubTxn(Txn::Multi(vec![]))]);
        let mut bytes = Vec::new();
        entry(nested, None).encode(&mut bytes);
        assert!(TxnEntry::decode(&bytes).is_err());
    }
}
