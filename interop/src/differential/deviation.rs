//! Where Zebu differs from Apache on purpose. Every row is narrow, named, counted and printed at the end.
//!
//! Two kinds: requests that Apache must not get (it gets another one that has the outcome which Zebu should
//! have for the original), and replies that may differ in one exactly described way.

use std::collections::BTreeMap;

use zebu_proto::OpCode;

use super::dialect::Dialect;
use super::observed::{Observed, ReplyBody};
use super::random::Random;
use super::request::{Body, Request};
use super::step::{Action, Ending, Step};

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// Its name.
    pub(crate) id: &'static str,
    /// Why Zebu differs.
    pub(crate) reason: &'static str,
}

const DELETE_CONTAINER: Deviation = Deviation {
    id: "delete-container",
    reason: "deleteContainer (20) of a client: Apache deletes without asking for permission, Zebu refuses",
};
const CREATE_SESSION: Deviation = Deviation {
    id: "create-session",
    reason: "createSession (-10) of a client: Apache answers with a second handshake, Zebu refuses",
};
const TTL_WITHOUT_FLAG: Deviation = Deviation {
    id: "ttl-without-flag",
    reason: "createTTL with flags 0-4 and a negative TTL: Apache never starts again, Zebu: BADARGUMENTS",
};
const TOP_QUOTA: Deviation = Deviation {
    id: "top-quota",
    reason: "create of /zookeeper/quota/zookeeper_limits: Apache never starts again, Zebu: BADARGUMENTS",
};
const MULTI_READ_ERROR_BODY: Deviation = Deviation {
    id: "multi-read-error-body",
    reason: "multiRead refused as a whole: Apache writes results behind the error, Zebu does not",
};

const WRONG_PASSWORD: Deviation = Deviation {
    id: "wrong-password",
    reason: "connecting to a session with a wrong password: Apache closes its connection first, Zebu checks first",
};

const SUPPLEMENTARY_TEXT: Deviation = Deviation {
    id: "supplementary-text",
    reason: "characters above U+FFFF: Apache sends each as two encoded surrogates that no client can read, \
             Zebu sends UTF-8",
};

const EVENT_ZXID: Deviation = Deviation {
    id: "event-zxid",
    reason: "watch events: 3.8 sends the zxid -1, 3.9 and Zebu that of the transaction",
};

/// All rows.
pub(crate) const TABLE: &[Deviation] = &[
    DELETE_CONTAINER,
    CREATE_SESSION,
    TTL_WITHOUT_FLAG,
    TOP_QUOTA,
    MULTI_READ_ERROR_BODY,
    WRONG_PASSWORD,
    SUPPLEMENTARY_TEXT,
    EVENT_ZXID,
];

impl Deviation {
    /// Whether this reference and Zebu can differ so.
    pub(crate) fn is_for(&self, dialect: Dialect) -> bool {
        self.id != EVENT_ZXID.id || dialect == Dialect::V3_8
    }
}

/// How often each row was met.
pub(crate) type Counts = BTreeMap<&'static str, usize>;

/// A step with a request that Apache must not get.
pub(crate) fn draw(random: &mut Random, session: usize) -> Step {
    let path = Some(b"/a".to_vec());
    // Any request that fails with the error wanted, and spends a zxid as the original does.
    let bad_arguments = || create_ttl(&Some(b"/a".to_vec()), 0, 1);
    let (id, left, right, ending) = match random.below(4) {
        0 => {
            let body = Body::default().text(&path);
            let right = Request::write(OpCode::DeleteContainer, "/a".to_owned(), Vec::new(), body);
            (DELETE_CONTAINER.id, Request::unknown(4711), right, Ending::Closed)
        }
        1 => {
            let body = Body::default().int(4000);
            let right = Request::write(OpCode::CreateSession, String::new(), Vec::new(), body);
            (CREATE_SESSION.id, Request::unknown(4711), right, Ending::Closed)
        }
        2 => {
            let right = create_ttl(&path, random.below(5) as i32, -1 - random.below(5) as i64);
            (TTL_WITHOUT_FLAG.id, bad_arguments(), right, Ending::Open)
        }
        _ => {
            let limits = Some(b"/zookeeper/quota/zookeeper_limits".to_vec());
            let body = Body::default().text(&limits).text(&Some(b"count=1,bytes=1".to_vec()));
            let body = body.acl(&Some(zebu_proto::Acl::open())).int(0);
            let right = Request::write(OpCode::Create, "top quota".to_owned(), Vec::new(), body);
            (TOP_QUOTA.id, bad_arguments(), right, Ending::Open)
        }
    };
    let action =
        Action::SendDifferent { left: Box::new(left), right: Box::new(right), ending, deviation: id };
    Step { session, action }
}

fn create_ttl(path: &Option<Vec<u8>>, flags: i32, ttl: i64) -> Request {
    let body =
        Body::default().text(path).text(&None).acl(&Some(zebu_proto::Acl::open())).int(flags).long(ttl);
    Request::write(OpCode::CreateTtl, format!("flags {flags} ttl {ttl}"), Vec::new(), body)
}

/// The row that allows this difference between two observations, if there is one.
pub(crate) fn allowing(dialect: Dialect, left: &Observed, right: &Observed) -> Option<&'static str> {
    if dialect == Dialect::V3_8 && *left == without_zxid(right) {
        return Some(EVENT_ZXID.id);
    }
    if (left, right) == (&Observed::Closed, &Observed::Undisturbed) {
        return Some(WRONG_PASSWORD.id);
    }
    if format!("{left:?}") == surrogates_lost(&format!("{right:?}")) {
        return Some(SUPPLEMENTARY_TEXT.id);
    }
    let (Observed::Reply(left), Observed::Reply(right)) = (left, right) else { return None };
    let same_header = (left.xid, left.zxid, left.err) == (right.xid, right.zxid, right.err);
    let refused = left.op == OpCode::MultiRead.wire() && left.err != 0;
    let only_left = left.body != ReplyBody::Empty && right.body == ReplyBody::Empty;
    (same_header && refused && only_left).then_some(MULTI_READ_ERROR_BODY.id)
}

/// An event as 3.8 sends it.
fn without_zxid(observed: &Observed) -> Observed {
    match observed.clone() {
        Observed::Event { kind, state, path, .. } => Observed::Event { zxid: -1, kind, state, path },
        other => other,
    }
}

/// A text as it reads after Apache has sent it.
fn surrogates_lost(text: &str) -> String {
    let lost = |character: char| {
        if character > '\u{ffff}' { "\u{fffd}\u{fffd}".to_owned() } else { character.to_string() }
    };
    text.chars().map(lost).collect()
}
