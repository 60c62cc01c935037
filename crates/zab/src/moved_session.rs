//! Refusals of requests whose session has moved between servers behind one link. The leader cannot refuse
//! them: it sees one link. An observer master replaces such a request by a write that always fails, so that
//! the leader commits an error with the session and cxid of the request.
//!
//! A request must not be dropped. A learner waits for its transaction; in Apache ZooKeeper, replies to all
//! later writes of that learner would wait too.

use std::sync::{Arc, LazyLock};

use zebu_proto::client::{CreateMode, CreateOp, CreateRequest, SetDataRequest};
use zebu_proto::quorum::Packet;
use zebu_proto::{Acl, ErrorCode, Id, Jute, OpCode, SessionId};

/// The error of a refused create, which a create cannot get for itself.
const CREATE_REFUSED: ErrorCode = ErrorCode::BadVersion;

/// The error of any other refused write, which no other write gets as a whole.
const WRITE_REFUSED: ErrorCode = ErrorCode::NodeExists;

/// No node has this version, and it does not stand for any version.
const IMPOSSIBLE_VERSION: i32 = -2;

/// Both writes fail because of the tree, not because of an ACL: this id passes every ACL.
static SUPER_ID: LazyLock<Arc<[Id]>> = LazyLock::new(|| [Id::new("super", "")].into());

/// Fails with [`CREATE_REFUSED`]: the root has another version.
static FAILING_SET_DATA: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut payload = Vec::new();
    SetDataRequest { path: Some("/".into()), data: None, version: IMPOSSIBLE_VERSION }.encode(&mut payload);
    payload.into()
});

/// Fails with [`WRITE_REFUSED`]: this node is part of every tree and cannot be deleted.
static FAILING_CREATE: LazyLock<Arc<[u8]>> = LazyLock::new(|| {
    let mut payload = Vec::new();
    let request = CreateRequest {
        op: CreateOp::Create,
        path: Some("/zookeeper".into()),
        data: None,
        acl: Some(Acl::open().into()),
        flags: CreateMode::Persistent.flags(),
        ttl_ms: -1,
    };
    request.encode(&mut payload);
    payload.into()
});

/// The request that the leader gets in place of a write of a moved session.
pub fn refused_request(session: SessionId, cxid: i32, op: i32) -> Packet {
    let (op, payload) = if is_create(op) {
        (OpCode::SetData, FAILING_SET_DATA.clone())
    } else {
        (OpCode::Create, FAILING_CREATE.clone())
    };
    Packet::Request { session, cxid, op: op.wire(), payload, auth: Some(SUPER_ID.clone()) }
}

fn is_create(op: i32) -> bool {
    matches!(
        OpCode::from_wire(op),
        Some(OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl)
    )
}

/// Whether the error of a committed write says that an observer master refused it because its session has
/// moved. A failed multi is no error as a whole.
pub fn is_refused_as_moved(is_create: bool, error: ErrorCode) -> bool {
    error == if is_create { CREATE_REFUSED } else { WRITE_REFUSED }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zebu_proto::Reader;
    use zebu_proto::client::{Request, WriteRequest};

    fn refused(op: OpCode) -> (OpCode, WriteRequest) {
        let Packet::Request { session: SessionId(7), cxid: 3, op, payload, auth } =
            refused_request(SessionId(7), 3, op.wire())
        else {
            panic!("the session and the cxid stay")
        };
        assert_eq!(auth.as_deref(), Some(&[Id::new("super", "")][..]));
        match Request::decode(op, &mut Reader::new(&payload)) {
            Ok(Request::Write(request)) => (OpCode::from_wire(op).unwrap(), request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_refused_create_is_no_create_and_other_writes_are_one() {
        for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl] {
            assert!(matches!(refused(op), (OpCode::SetData, WriteRequest::SetData(_))));
        }
        for op in [OpCode::Delete, OpCode::SetData, OpCode::SetAcl, OpCode::Multi, OpCode::CloseSession] {
            assert!(matches!(refused(op), (OpCode::Create, WriteRequest::Create(_))));
        }
        assert!(is_refused_as_moved(true, ErrorCode::BadVersion));
        assert!(!is_refused_as_moved(true, ErrorCode::NodeExists));
        assert!(is_refused_as_moved(false, ErrorCode::NodeExists));
        assert!(!is_refused_as_moved(false, ErrorCode::BadVersion));
    }
}
