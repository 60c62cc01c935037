//! The pieces that the requests of a round are made of.

use std::sync::Arc;

use zebu_proto::client::{CreateOp, CreateRequest, MultiOp, WriteRequest};
use zebu_proto::{Acl, Permissions};

use crate::differential::Random;

/// Every kind of node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Persistent,
    PersistentSequential,
    Ephemeral,
    EphemeralSequential,
    Container,
    Ttl,
    TtlSequential,
}

impl Kind {
    pub(super) const ALL: [Kind; 7] = [
        Kind::Persistent,
        Kind::PersistentSequential,
        Kind::Ephemeral,
        Kind::EphemeralSequential,
        Kind::Container,
        Kind::Ttl,
        Kind::TtlSequential,
    ];

    /// Whether it may vanish when it has no children.
    pub(super) fn is_swept(self) -> bool {
        matches!(self, Kind::Container | Kind::Ttl | Kind::TtlSequential)
    }

    pub(super) fn flags(self) -> i32 {
        match self {
            Kind::Persistent => 0,
            Kind::Ephemeral => 1,
            Kind::PersistentSequential => 2,
            Kind::EphemeralSequential => 3,
            Kind::Container => 4,
            Kind::Ttl => 5,
            Kind::TtlSequential => 6,
        }
    }

    fn op(self) -> CreateOp {
        match self {
            Kind::Container => CreateOp::Container,
            Kind::Ttl | Kind::TtlSequential => CreateOp::Ttl,
            _ => CreateOp::Create2,
        }
    }
}

/// A new node with no data and the open ACL; a TTL node lives for a year.
pub(super) fn create(path: &str, kind: Kind) -> WriteRequest {
    WriteRequest::Create(create_part(path, kind))
}

/// The same as the body of a request or a part of a multi.
pub(super) fn create_part(path: &str, kind: Kind) -> CreateRequest {
    const YEAR_MS: i64 = 365 * 86_400_000;
    CreateRequest {
        op: kind.op(),
        path: Some(path.into()),
        data: Some(Default::default()),
        acl: Some(Acl::open().into()),
        flags: kind.flags(),
        ttl_ms: if kind.op() == CreateOp::Ttl { YEAR_MS } else { -1 },
    }
}

/// The largest value. A frame may have 1 048 575 bytes; a multi has room for one of these among others.
const LARGE: usize = 900_000;

/// Data that a multi can carry several times.
pub(super) fn small_data(random: &mut Random) -> Option<Arc<[u8]>> {
    data(random).map(|data| if data.len() > 3_000 { data[..3_000].into() } else { data })
}

/// Data: null, none, some, much.
pub(super) fn data(random: &mut Random) -> Option<Arc<[u8]>> {
    let length = match random.below(200) {
        0..20 => return None,
        20..40 => 0,
        40..170 => 1 + random.below(30),
        170..198 => random.below(3_000),
        198 => random.below(100_000),
        _ => LARGE,
    };
    Some(vec![random.below(256) as u8; length].into())
}

/// An ACL of one or more schemes; some exclude every client except the super user.
pub(super) fn acl(random: &mut Random) -> Vec<Acl> {
    let u1 = || Acl::new(Permissions::ALL, "digest", "u1:Ff3oF+4EPLX6xMLaMP2RF33Sjeo=");
    match random.below(20) {
        0..11 => Acl::open(),
        11 => Acl::read_only(),
        12 => vec![u1()],
        13 => vec![Acl::new(Permissions::ALL, "auth", "")],
        14 => vec![Acl::new(Permissions::ALL, "ip", "127.0.0.1")],
        15 => vec![Acl::new(Permissions::ALL, "ip", "127.0.0.0/8"), Acl::new(1, "world", "anyone"), u1()],
        16 => vec![Acl::new(Permissions::ALL, "ip", "10.1.2.3"), Acl::new(31, "auth", "")],
        17 => vec![Acl::new(Permissions::READ, "digest", "zoë:日本="), Acl::new(31, "world", "anyone")],
        18 => vec![Acl::new(31, "world", "anyone"), Acl::new(31, "world", "anyone"), u1()],
        _ => vec![Acl::new(31, "nobody", "x")],
    }
}

/// One part of a multi in words that can be counted.
pub(super) fn part_name(part: &MultiOp) -> String {
    format!("multi {:?}", part.op_code())
}

/// A request in words that can be counted.
pub(super) fn name(request: &WriteRequest) -> String {
    match request {
        WriteRequest::Create(create) => format!("{:?} flags {}", create.op.op_code(), create.flags),
        WriteRequest::Delete(_) => "Delete".to_owned(),
        WriteRequest::SetData(_) => "SetData".to_owned(),
        WriteRequest::SetAcl(_) => "SetAcl".to_owned(),
        WriteRequest::Multi(_) => "Multi".to_owned(),
        other => format!("{other:?}"),
    }
}
