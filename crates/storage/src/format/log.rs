//! The transaction log's bytes: the file header and one entry's frame. The scanner and recovery check the
//! order of entries.

use zebu_proto::Zxid;
use zebu_proto::txn::TxnEntry;

/// `ZKLG`.
pub const MAGIC: [u8; 4] = *b"ZKLG";

/// Bytes of the file header.
pub const HEADER_SIZE: usize = 16;

/// The file header: magic, version 2, database id 0. Readers check the magic alone.
pub const HEADER: [u8; HEADER_SIZE] = *b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

/// Bytes in front of a payload: checksum and length.
pub const ENTRY_HEAD_SIZE: usize = 12;

/// Bytes that a frame adds to its payload: head and end mark.
pub const ENTRY_OVERHEAD: usize = ENTRY_HEAD_SIZE + 1;

/// The byte after every payload.
pub const END_MARK: u8 = 0x42;

/// Bytes of the transaction header that every payload begins with.
pub const TXN_HEADER_SIZE: usize = 32;

/// Appends one framed entry: checksum of the payload, its length, the payload, the end mark.
pub fn append_entry(entry: &TxnEntry, out: &mut Vec<u8>) {
    append_with(out, |out| entry.encode(out));
}

/// Appends one framed entry whose payload is encoded already.
pub fn append_payload(payload: &[u8], out: &mut Vec<u8>) {
    append_with(out, |out| out.extend_from_slice(payload));
}

fn append_with(out: &mut Vec<u8>, payload: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; ENTRY_HEAD_SIZE]);
    let body = start + ENTRY_HEAD_SIZE;
    payload(out);
    let length = i32::try_from(out.len() - body).expect("a transaction is below 2 GiB");
    let checksum = u64::from(simd_adler32::adler32(&&out[body..]));
    out[start..start + 8].copy_from_slice(&checksum.to_be_bytes());
    out[start + 8..body].copy_from_slice(&length.to_be_bytes());
    out.push(END_MARK);
}

/// The zxid of a payload, without decoding the rest; `None` when it is too short to have one.
pub fn payload_zxid(payload: &[u8]) -> Option<Zxid> {
    // After the session (8 bytes) and the xid (4 bytes).
    payload.get(12..)?.first_chunk().map(|field| Zxid(i64::from_be_bytes(*field)))
}

/// The type of a payload's transaction.
pub fn payload_type(payload: &[u8]) -> Option<i32> {
    payload.get(28..)?.first_chunk().map(|field| i32::from_be_bytes(*field))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_proto::SessionId;
    use zebu_proto::txn::{Txn, TxnDigest, TxnHeader};

    #[test]
    fn one_create_session_as_apache_writes_it() {
        let entry = TxnEntry {
            header: TxnHeader {
                session: SessionId(0x1000_0abc_def0_0000),
                cxid: 0,
                zxid: Zxid(0x1_0000_0001),
                time_ms: 1_700_000_000_000,
            },
            txn: Txn::CreateSession { timeout_ms: 30_000 },
            digest: Some(TxnDigest { version: 2, tree_digest: 0x51c6_d660 }),
        };
        let mut file = HEADER.to_vec();
        append_entry(&entry, &mut file);
        let mut expected = vec![0x5a, 0x4b, 0x4c, 0x47, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0];
        expected.extend([0, 0, 0, 0, 0x0b, 0x0c, 0x0c, 0x36, 0, 0, 0, 0x30]);
        expected.extend([0x10, 0x00, 0x0a, 0xbc, 0xde, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        expected.extend([0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0xff, 0xff, 0xff, 0xf6, 0, 0, 0x75, 0x30]);
        expected.extend([0, 0, 0, 2, 0, 0, 0, 0, 0x51, 0xc6, 0xd6, 0x60, 0x42]);
        assert_eq!(file, expected);

        let mut again = HEADER.to_vec();
        append_payload(&file[28..file.len() - 1], &mut again);
        assert_eq!(again, file);
        assert_eq!(payload_zxid(&file[28..]), Some(Zxid(0x1_0000_0001)));
        assert_eq!(payload_type(&file[28..]), Some(-10));
        for length in 0..40 {
            let short = &file[28..28 + length];
            assert_eq!(payload_zxid(short).is_some(), length >= 20, "{length}");
            assert_eq!(payload_type(short).is_some(), length >= TXN_HEADER_SIZE, "{length}");
        }
    }
}
