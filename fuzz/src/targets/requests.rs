//! A client's frame is decoded, whatever it is; so is a connect request, and a transaction.

use zebu_proto::client::{ConnectRequest, Request, RequestHeader};
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Jute, Reader};

pub(super) fn run(data: &[u8]) {
    let _ = ConnectRequest::decode(&mut Reader::new(data));
    let mut reader = Reader::new(data);
    if let Ok(header) = RequestHeader::decode(&mut reader) {
        let _ = Request::decode(header.op, &mut reader);
    }
    if let Ok(entry) = TxnEntry::decode(data) {
        // A decoded entry can be encoded and decoded again.
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(TxnEntry::decode(&bytes).as_ref(), Ok(&entry));
    }
}
