//! A log that holds a transaction of any length, as releases without a limit wrote them.

use std::path::Path;

/// Bytes of a log's own header.
const FILE_HEADER: usize = 16;

/// Bytes of an entry before its payload: checksum and length.
const ENTRY_HEADER: usize = 12;

/// The last byte of an entry.
const ENTRY_END: u8 = b'B';

/// Where the zxid stands in a transaction, behind session and number.
const ZXID_AT: std::ops::Range<usize> = 12..20;

/// Appends a transaction behind the last one of a log; it gets the next zxid.
pub(crate) fn append_transaction(path: &Path, transaction: impl FnOnce(i64) -> Vec<u8>) -> i64 {
    let mut log = std::fs::read(path).expect("the log is there");
    let (mut last, mut next) = (None, FILE_HEADER);
    while let Some(length) = log.get(next + 8..next + ENTRY_HEADER)
        && length != [0; 4]
    {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        last = Some(next + ENTRY_HEADER);
        next += ENTRY_HEADER + length + 1;
    }
    let last = last.expect("the log has an entry");
    let bytes = &log[last + ZXID_AT.start..last + ZXID_AT.end];
    let zxid = i64::from_be_bytes(bytes.try_into().expect("eight bytes")) + 1;
    let payload = transaction(zxid);
    log.truncate(next);
    log.extend_from_slice(&adler32(&payload).to_be_bytes());
    log.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    log.extend_from_slice(&payload);
    log.push(ENTRY_END);
    std::fs::write(path, log).expect("the log can be written");
    zxid
}

fn adler32(bytes: &[u8]) -> u64 {
    let (mut low, mut high) = (1, 0);
    for byte in bytes {
        low = (low + u64::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    high << 16 | low
}
