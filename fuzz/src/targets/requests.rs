//! A client's frame is decoded, whatever it is; so is a connect request, and a transaction.

use zebu_proto::client::{
    ConnectRequest, DeleteTreeReply, FeedPush, FeedRequest, Freshness, PageReply, PaginatedReply,
    ReadRequest, Request, RequestHeader, ScanReply, WriteRequest,
};
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
    for op in [OpCode::GetChildrenPaginated, OpCode::Page, OpCode::Scan, OpCode::DeleteTree] {
        let mut bytes = Vec::new();
        match Request::decode(op.wire(), &mut Reader::new(data)) {
            Ok(Request::Read(ReadRequest::GetChildrenPaginated(request))) => request.encode(&mut bytes),
            Ok(Request::Read(ReadRequest::Page(request))) => request.encode(&mut bytes),
            Ok(Request::Read(ReadRequest::Scan(request))) => request.encode(&mut bytes),
            Ok(Request::Write(WriteRequest::DeleteTree(request))) => request.encode(&mut bytes),
            Ok(other) => panic!("{op:?} decodes as {other:?}"),
            Err(_) => continue,
        }
        // Texts that are no UTF-8 and booleans other than one are read with tolerance.
        assert!(bytes.len() >= 12, "{op:?}");
        assert!(Request::decode(op.wire(), &mut Reader::new(&bytes)).is_ok(), "{op:?}");
    }
    for op in (OpCode::FilteredList.wire()..=OpCode::ListRecursive.wire()).filter_map(OpCode::from_wire) {
        decode_keeper(op, data);
    }
    decode_feeds(data);
    let _ = PaginatedReply::decode(&mut Reader::new(data));
    let _ = PageReply::decode(&mut Reader::new(data));
    let _ = DeleteTreeReply::decode(&mut Reader::new(data));
    for parts in 0..4 {
        let _ = ScanReply::decode(&mut Reader::new(data), parts & 1 != 0, parts & 2 != 0);
    }
    if let Ok(entry) = TxnEntry::decode(data) {
        // A decoded entry can be encoded and decoded again.
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        assert_eq!(TxnEntry::decode(&bytes).as_ref(), Ok(&entry));
    }
}

/// A request of ClickHouse Keeper can be encoded, and decoded again to the same.
fn decode_keeper(op: OpCode, data: &[u8]) {
    let Ok(request) = Request::decode(op.wire(), &mut Reader::new(data)) else { return };
    let mut bytes = Vec::new();
    match &request {
        Request::Read(ReadRequest::Keeper(read)) => read.encode(&mut bytes),
        Request::Write(WriteRequest::Keeper(write)) => write.encode(&mut bytes),
        other => panic!("{op:?} decodes as {other:?}"),
    }
    assert_eq!(Request::decode(op.wire(), &mut Reader::new(&bytes)).as_ref(), Ok(&request), "{op:?}");
}

/// The options that were decoded are the ones at the front of the body.
fn encode_again(freshness: Freshness, data: &[u8]) {
    let mut bytes = Vec::new();
    freshness.encode(&mut bytes);
    assert!(data.starts_with(&bytes), "{freshness:?}");
}

/// Requests and pushes of feeds that decode can be encoded and decoded again.
fn decode_feeds(data: &[u8]) {
    for op in [OpCode::Feed, OpCode::FeedCredit] {
        let mut bytes = Vec::new();
        match Request::decode(op.wire(), &mut Reader::new(data)) {
            Ok(Request::Feed(FeedRequest::Open(open))) => open.encode(&mut bytes),
            Ok(Request::Feed(FeedRequest::Credit(credit))) => credit.encode(&mut bytes),
            Ok(other) => panic!("{op:?} decodes as {other:?}"),
            Err(_) => continue,
        }
        assert!(Request::decode(op.wire(), &mut Reader::new(&bytes)).is_ok(), "{op:?}");
    }
    if let Ok(Some(push)) = FeedPush::decode(&mut Reader::new(data)) {
        let mut bytes = Vec::new();
        push.encode(&mut bytes);
        // Texts that are no UTF-8 are read with tolerance.
        assert!(matches!(FeedPush::decode(&mut Reader::new(&bytes)), Ok(Some(_))));
    }
}
