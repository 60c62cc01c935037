//! A client's frame is decoded, whatever it is; so is a connect request, and a transaction.

use zebu_proto::client::{ConnectRequest, Freshness, Request, RequestHeader};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Jute, OpCode, Reader};

pub(super) fn run(data: &[u8]) {
    let _ = ConnectRequest::decode(&mut Reader::new(data));
    let mut reader = Reader::new(data);
    if let Ok(header) = RequestHeader::decode(&mut reader) {
        let _ = Request::decode(header.op, &mut reader);
    }
    let _ = Request::decode(OpCode::Hello.wire(), &mut Reader::new(data));
    if let Ok(Request::With(freshness, read)) = Request::decode(OpCode::With.wire(), &mut Reader::new(data)) {
        encode_again(freshness, data);
        let _ = read.into_owned();
    }
    if let Ok(entry) = TxnEntry::decode(data) {
        // A decoded entry can be encoded and decoded again.
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(TxnEntry::decode(&bytes).as_ref(), Ok(&entry));
    }
}

/// The options that were decoded are the ones at the front of the body.
fn encode_again(freshness: Freshness, data: &[u8]) {
    let mut bytes = Vec::new();
    freshness.encode(&mut bytes);
    assert!(data.starts_with(&bytes), "{freshness:?}");
}
