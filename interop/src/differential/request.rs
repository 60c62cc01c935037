//! One request as it is sent, and what the generator must know about it. The body is bytes: half of the
//! interesting requests are not what a record could express.

use zebu_proto::jute::encode_buffer;
use zebu_proto::{Acl, Jute, OpCode};

use super::vocabulary::RawText;

/// Whether a request becomes a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Other sessions notice nothing.
    Read,
    /// May change the tree and fire the watches of other sessions.
    Write,
}

/// What Apache keeps of a write that failed, until a later write has been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Residue {
    /// Nothing.
    None,
    /// Pending changes that never happen. A multi whose part fails by an unexpected exception (a null path,
    /// a null in an ACL) is answered MARSHALLINGERROR, but what its earlier parts had prepared is not
    /// taken back: writes that follow closely see nodes and counters that do not exist.
    PendingChanges,
    /// As long as the create is on its way its node is ephemeral and has no children; once applied it is a
    /// container or has a TTL, and may have some.
    PendingKind,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Operation code, known or not.
    pub(crate) op: i32,
    /// What follows the header.
    pub(crate) body: Vec<u8>,
    /// Offset of a zxid in the body that counts from the start of the run and has to be made absolute.
    pub(crate) zxid_at: Option<usize>,
    /// For the report.
    pub(crate) what: String,
    /// Read or write.
    pub(crate) effect: Effect,
    /// Nodes whose ACL decides about this write.
    pub(crate) guarded_by: Vec<String>,
    /// The node whose ACL it replaces.
    pub(crate) sets_acl_of: Option<String>,
    /// What it may leave behind in Apache.
    pub(crate) residue: Residue,
}

impl Request {
    /// A request that only reads.
    pub(crate) fn read(op: OpCode, what: String, body: Body) -> Request {
        Request {
            op: op.wire(),
            body: body.0,
            zxid_at: None,
            what: format!("{op:?} {what}"),
            effect: Effect::Read,
            guarded_by: Vec::new(),
            sets_acl_of: None,
            residue: Residue::None,
        }
    }

    /// A request that becomes a transaction.
    pub(crate) fn write(op: OpCode, what: String, guarded_by: Vec<String>, body: Body) -> Request {
        Request { effect: Effect::Write, guarded_by, ..Request::read(op, what, body) }
    }

    /// A request with an operation code that servers do not know.
    pub(crate) fn unknown(op: i32) -> Request {
        let mut request = Request::read(OpCode::Ping, String::new(), Body::default());
        request.op = op;
        request.what = format!("operation code {op}");
        request
    }

    /// The body for a server whose run started at `base`.
    pub(crate) fn body_from(&self, base: i64) -> Vec<u8> {
        let mut body = self.body.clone();
        if let Some(at) = self.zxid_at
            && let Some(field) = body.get_mut(at..at + 8)
        {
            let relative = i64::from_be_bytes(field.try_into().expect("eight bytes were taken"));
            field.copy_from_slice(&relative.wrapping_add(base).to_be_bytes());
        }
        body
    }
}

/// A body under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Body(pub(crate) Vec<u8>);

impl Body {
    pub(crate) fn text(mut self, text: &RawText) -> Body {
        encode_buffer(text.as_deref(), &mut self.0);
        self
    }

    pub(crate) fn int(mut self, value: i32) -> Body {
        value.encode(&mut self.0);
        self
    }

    pub(crate) fn long(mut self, value: i64) -> Body {
        value.encode(&mut self.0);
        self
    }

    pub(crate) fn byte(mut self, value: u8) -> Body {
        self.0.push(value);
        self
    }

    pub(crate) fn acl(mut self, acl: &Option<Vec<Acl>>) -> Body {
        acl.encode(&mut self.0);
        self
    }

    pub(crate) fn texts(mut self, texts: &Option<Vec<RawText>>) -> Body {
        match texts {
            None => self.int(-1),
            Some(texts) => {
                self = self.int(texts.len() as i32);
                texts.iter().fold(self, |body, text| body.text(text))
            }
        }
    }

    pub(crate) fn append(mut self, other: &Body) -> Body {
        self.0.extend_from_slice(&other.0);
        self
    }

    pub(crate) fn multi_header(self, op: i32) -> Body {
        self.int(op).byte(0).int(-1)
    }

    pub(crate) fn multi_end(self) -> Body {
        self.int(-1).byte(1).int(-1)
    }
}

/// A string for the report.
pub(crate) fn show(text: &RawText) -> String {
    match text {
        None => "null".to_owned(),
        Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
    }
}

/// An ACL for the report.
pub(crate) fn show_acl(acl: &Option<Vec<Acl>>) -> String {
    let Some(acl) = acl else { return "null".to_owned() };
    let part = |text: &Option<Box<str>>| text.as_deref().unwrap_or("null").to_owned();
    let entry = |acl: &Acl| format!("{}:{}:{}", part(&acl.id.scheme), part(&acl.id.id), acl.perms);
    format!("[{}]", acl.iter().map(entry).collect::<Vec<_>>().join(", "))
}

/// The node itself, as permission checks name it.
pub(crate) fn node_of(path: &RawText) -> String {
    let path = String::from_utf8_lossy(path.as_deref().unwrap_or_default()).into_owned();
    if path.is_empty() { "/".to_owned() } else { path }
}

/// The parent, as permission checks name it.
pub(crate) fn parent_of(path: &RawText) -> String {
    let path = node_of(path);
    match path.rfind('/') {
        None | Some(0) => "/".to_owned(),
        Some(at) => path[..at].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_those_of_permission_checks() {
        assert_eq!(parent_of(&Some(b"/a/b".to_vec())), "/a");
        assert_eq!(parent_of(&Some(b"/a".to_vec())), "/");
        assert_eq!(parent_of(&Some(b"/a/".to_vec())), "/a");
        assert_eq!(parent_of(&None), "/");
        assert_eq!(node_of(&Some(b"".to_vec())), "/");
    }

    #[test]
    fn relative_zxids_become_absolute() {
        let mut request = Request::read(OpCode::SetWatches, String::new(), Body::default().long(7));
        assert_eq!(request.body_from(100), 7i64.to_be_bytes());
        request.zxid_at = Some(0);
        assert_eq!(request.body_from(100), 107i64.to_be_bytes());
        request.body.truncate(5);
        assert_eq!(request.body_from(100).len(), 5);
    }
}
