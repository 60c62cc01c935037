//! Random requests, one function per kind. What must never be sent to Apache is avoided here, each with
//! its reason.

use zebu_proto::{Acl, OpCode};

use super::dialect::Dialect;
use super::random::Random;
use super::request::{Body, Request, Residue, node_of, parent_of, show, show_acl};
use super::vocabulary::{self, RawText, is_deadly};

/// Draws requests. `known` are paths that the servers made up.
#[derive(Debug)]
pub(crate) struct Requests<'a> {
    pub(crate) random: &'a mut Random,
    pub(crate) known: &'a [String],
    /// The latest zxid, counted from the start of the run.
    pub(crate) zxid: i64,
    /// The current mix of requests.
    pub(crate) mood: Mood,
    /// What the reference understands as Zebu does.
    pub(crate) dialect: Dialect,
}

/// How likely a request is to be refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// Anything.
    Wild,
    /// This path, any version, open ACLs: a multi of several parts seldom succeeds otherwise.
    Calm(String),
    /// Any part of a multi that a server can read and understand.
    Sound,
}

/// Lists of a multi that succeed if the node is there, or if it is not.
const CALM_MULTIS: &[&[OpCode]] = &[
    &[OpCode::Create2, OpCode::SetData, OpCode::Check],
    &[OpCode::Create, OpCode::Delete, OpCode::CreateContainer],
    &[OpCode::CreateTtl, OpCode::Check, OpCode::SetData, OpCode::SetData],
    &[OpCode::SetData, OpCode::Check, OpCode::Delete],
    &[OpCode::Check, OpCode::SetData],
    &[OpCode::Delete, OpCode::Create2, OpCode::SetData],
    &[OpCode::Delete],
];

/// A request that may stand alone or inside a multi.
struct Part {
    op: OpCode,
    what: String,
    guarded_by: String,
    body: Body,
    residue: Residue,
}

impl Requests<'_> {
    /// Any request that leaves the connection open and is answered in order.
    pub(crate) fn any(&mut self) -> Request {
        let mut request = self.whole();
        if self.random.per_mille(25) && !request.body.is_empty() && self.dialect.may_be_cut(&request) {
            let length = self.random.below(request.body.len());
            request.body.truncate(length);
            request.what = format!("{} cut to {length} bytes", request.what);
        } else if self.random.per_mille(10) {
            request.body.extend_from_slice(b"trailing");
            request.what.push_str(" with trailing bytes");
        }
        request
    }

    fn whole(&mut self) -> Request {
        use OpCode::*;
        let op = self.random.weighted(&[
            (80, Create),
            (60, Create2),
            (30, CreateContainer),
            (40, CreateTtl),
            (100, Delete),
            (90, SetData),
            (40, SetAcl),
            (70, Multi),
            (4, Reconfig),
            (70, Exists),
            (80, GetData),
            (40, GetChildren),
            (50, GetChildren2),
            (30, GetAcl),
            (12, GetAllChildrenNumber),
            (20, GetEphemerals),
            (10, Sync),
            (10, Ping),
            (30, MultiRead),
            (12, SetWatches),
            (18, SetWatches2),
            (40, AddWatch),
            (30, RemoveWatches),
            (20, CheckWatches),
            (12, WhoAmI),
        ]);
        match self.dialect.operation(op) {
            Create | Create2 | CreateContainer | CreateTtl => {
                let part = self.create(op);
                self.alone(part)
            }
            Delete => {
                let part = self.delete();
                self.alone(part)
            }
            SetData => {
                let part = self.set_data();
                self.alone(part)
            }
            SetAcl => self.set_acl(),
            Multi => self.multi(),
            Reconfig => self.reconfig(),
            MultiRead => self.multi_read(),
            SetWatches | SetWatches2 => self.set_watches(op),
            read => self.read(read),
        }
    }

    fn path(&mut self) -> RawText {
        match &self.mood {
            Mood::Wild => vocabulary::path(self.random, self.known),
            Mood::Sound => Some(vocabulary::plain_path(self.random).into_bytes()),
            Mood::Calm(path) => Some(path.clone().into_bytes()),
        }
    }

    fn version(&mut self) -> i32 {
        match self.mood {
            Mood::Wild | Mood::Sound => vocabulary::version(self.random),
            Mood::Calm(_) => -1,
        }
    }

    fn acl(&mut self) -> Option<Vec<Acl>> {
        match self.mood {
            Mood::Wild => self.dialect.acl(vocabulary::acl(self.random)),
            Mood::Calm(_) | Mood::Sound => Some(Acl::open()),
        }
    }

    fn alone(&mut self, part: Part) -> Request {
        let request = Request::write(part.op, part.what, vec![part.guarded_by], part.body);
        match part.residue {
            Residue::PendingKind => Request { residue: part.residue, ..request },
            // Alone, it leaves nothing behind when it fails.
            Residue::None | Residue::PendingChanges => request,
        }
    }

    fn create(&mut self, op: OpCode) -> Part {
        let path = self.path();
        // Ends Apache for good; see the function.
        let path = if is_deadly(&path) { Some(b"/a".to_vec()) } else { path };
        let data = vocabulary::data(self.random, &path);
        let acl = self.acl();
        let odd = self.mood == Mood::Wild && self.random.percent(6);
        let flags = match op {
            _ if odd => *self.random.pick(&[0, 1, 2, 3, 4, 5, 6, 7, -1, 100]),
            OpCode::CreateContainer => 4,
            OpCode::CreateTtl if self.mood == Mood::Wild => *self.random.pick(&[5, 6]),
            OpCode::CreateTtl => 5,
            // A calm multi goes on with the node that it has made: no sequential names.
            _ if self.mood != Mood::Wild => *self.random.pick(&[0, 1]),
            _ => self.random.weighted(&[(50, 0), (22, 1), (16, 2), (12, 3)]),
        };
        let flags = if ends_counting(&path) { without_ephemeral(flags) } else { flags };
        let body = Body::default().text(&path).text(&data).acl(&acl).int(flags);
        let mut what = format!("{} flags {flags} acl {}", show(&path), show_acl(&acl));
        let body = match op {
            OpCode::CreateTtl => {
                let ttl = self.ttl(flags);
                what.push_str(&format!(" ttl {ttl}"));
                body.long(ttl)
            }
            _ => body,
        };
        let residue = match (op, flags) {
            (OpCode::CreateContainer | OpCode::CreateTtl, 1 | 3) => Residue::PendingKind,
            _ => residue(&path, &acl),
        };
        Part { op, what, guarded_by: parent_of(&path), body, residue }
    }

    fn ttl(&mut self, flags: i32) -> i64 {
        let ttl = match self.random.below(10) {
            _ if self.mood != Mood::Wild => 60_000,
            0 => 0,
            1 => -1,
            2 => *self.random.pick(&[0xff_ffff_ffff, 0x100_0000_0000, i64::MAX, i64::MIN]),
            _ => 1 + self.random.below(100_000) as i64,
        };
        // A TTL create without TTL flags and with a negative TTL passes Apache's checks and then fails
        // while it is applied, which ends the server at once and after every restart.
        if ttl < 0 && !matches!(flags, 5 | 6) { 1 } else { ttl }
    }

    fn delete(&mut self) -> Part {
        let (path, version) = (self.path(), self.version());
        Part {
            op: OpCode::Delete,
            what: format!("{} version {version}", show(&path)),
            guarded_by: parent_of(&path),
            body: Body::default().text(&path).int(version),
            residue: residue(&path, &None),
        }
    }

    fn set_data(&mut self) -> Part {
        let (path, version) = (self.path(), self.version());
        let data = vocabulary::data(self.random, &path);
        Part {
            op: OpCode::SetData,
            what: format!("{} to {} version {version}", show(&path), show(&data)),
            guarded_by: node_of(&path),
            body: Body::default().text(&path).text(&data).int(version),
            residue: residue(&path, &None),
        }
    }

    fn check(&mut self) -> Part {
        let (path, version) = (self.path(), self.version());
        Part {
            op: OpCode::Check,
            what: format!("{} version {version}", show(&path)),
            guarded_by: node_of(&path),
            body: Body::default().text(&path).int(version),
            residue: residue(&path, &None),
        }
    }

    fn set_acl(&mut self) -> Request {
        let (path, version) = (self.path(), self.version());
        let acl = self.acl();
        let what = format!("{} to {} version {version}", show(&path), show_acl(&acl));
        let body = Body::default().text(&path).acl(&acl).int(version);
        let mut request = Request::write(OpCode::SetAcl, what, vec![node_of(&path)], body);
        request.sets_acl_of = Some(node_of(&path));
        request
    }

    fn multi(&mut self) -> Request {
        let ops: Vec<OpCode> = if self.random.percent(50) {
            self.mood = Mood::Calm(vocabulary::plain_path(self.random));
            self.random.pick::<&[OpCode]>(CALM_MULTIS).to_vec()
        } else {
            let count = self.random.weighted(&[(3, 0), (20, 1), (30, 2), (25, 3), (12, 4), (10, 6)]);
            self.mood = if self.dialect.has_odd_parts() { Mood::Wild } else { Mood::Sound };
            (0..count).map(|_| self.multi_op()).collect()
        };
        let mut body = Body::default();
        let (mut what, mut guarded_by, mut residue) = (Vec::new(), Vec::new(), Residue::None);
        for op in ops {
            let op = self.dialect.part(op);
            let part = match op {
                OpCode::Delete => self.delete(),
                OpCode::SetData => self.set_data(),
                OpCode::Check => self.check(),
                OpCode::SetAcl | OpCode::GetData => {
                    let path = self.path();
                    let body = Body::default().text(&path).int(0);
                    Part { op, what: show(&path), guarded_by: node_of(&path), body, residue: Residue::None }
                }
                create => self.create(create),
            };
            body = body.multi_header(op.wire()).append(&part.body);
            what.push(format!("{op:?} {}", part.what));
            guarded_by.push(part.guarded_by);
            if part.residue != Residue::None {
                residue = part.residue;
            }
        }
        self.mood = Mood::Wild;
        let what = format!("[{}]", what.join("; "));
        Request { residue, ..Request::write(OpCode::Multi, what, guarded_by, body.multi_end()) }
    }

    fn multi_op(&mut self) -> OpCode {
        use OpCode::*;
        self.random.weighted(&[
            (22, Create),
            (18, Create2),
            (6, CreateContainer),
            (8, CreateTtl),
            (20, Delete),
            (25, SetData),
            (20, Check),
            // Not allowed in a multi: the whole request is refused.
            (1, SetAcl),
            (1, GetData),
        ])
    }

    fn multi_read(&mut self) -> Request {
        let count = self.random.below(5);
        let mut body = Body::default();
        let mut what = Vec::new();
        for _ in 0..count {
            let kinds =
                [(50, OpCode::GetData), (50, OpCode::GetChildren), (1, OpCode::Exists), (1, OpCode::Check)];
            let (op, path) = (self.random.weighted(&kinds), self.path());
            body = body.multi_header(op.wire()).text(&path);
            body = if op == OpCode::Check { body.int(-1) } else { body.byte(0) };
            what.push(format!("{op:?} {}", show(&path)));
        }
        Request::read(OpCode::MultiRead, format!("[{}]", what.join("; ")), body.multi_end())
    }

    /// A standalone server refuses every one; only the error differs.
    fn reconfig(&mut self) -> Request {
        let texts: [RawText; 3] = [
            self.random.percent(50).then(|| b"server.9=127.0.0.1:1:2;3".to_vec()),
            self.random.percent(50).then(|| b"2".to_vec()),
            self.random.percent(50).then(|| b"server.1=127.0.0.1:1:2;3".to_vec()),
        ];
        let body = texts.iter().fold(Body::default(), |body, text| body.text(text)).long(-1);
        let what = texts.each_ref().map(show).join(", ");
        Request::write(OpCode::Reconfig, what, vec!["/zookeeper/config".to_owned()], body)
    }

    fn set_watches(&mut self, op: OpCode) -> Request {
        let back = self.random.below(60) as i64;
        let since = if self.random.percent(10) { -self.zxid } else { (self.zxid - back).max(0) };
        let lists = if op == OpCode::SetWatches { 3 } else { 5 };
        let mut body = Body::default().long(since);
        let mut what = format!("since {since}");
        for list in 0..lists {
            let weights = [(40, 0), (30, 1), (20, 2), (10, 4)];
            let count = if list < self.dialect.watch_lists() { self.random.weighted(&weights) } else { 0 };
            let paths = (0..count).map(|_| self.path()).collect();
            let paths: Option<Vec<RawText>> = if self.random.per_mille(8) { None } else { Some(paths) };
            what.push_str(&match &paths {
                Some(paths) => format!(" [{}]", paths.iter().map(show).collect::<Vec<_>>().join(", ")),
                None => " null".to_owned(),
            });
            body = body.texts(&paths);
        }
        let mut request = Request::read(op, what, body);
        request.zxid_at = Some(0);
        request
    }

    fn read(&mut self, op: OpCode) -> Request {
        let path = self.path();
        let body = Body::default();
        match op {
            OpCode::Ping | OpCode::WhoAmI => Request::read(op, String::new(), body),
            OpCode::GetAcl | OpCode::GetAllChildrenNumber | OpCode::Sync => {
                Request::read(op, show(&path), body.text(&path))
            }
            OpCode::GetEphemerals => {
                let prefixes = [None, Some(b"".to_vec()), Some(b"/".to_vec()), Some(b" ".to_vec()), path];
                let prefix = self.random.pick(&prefixes);
                Request::read(op, show(prefix), body.text(prefix))
            }
            OpCode::AddWatch => {
                let mode = self.random.weighted(&[(50, 0), (46, 1), (2, 2), (2, -1)]);
                Request::read(op, format!("{} mode {mode}", show(&path)), body.text(&path).int(mode))
            }
            OpCode::RemoveWatches | OpCode::CheckWatches => {
                let kind = self.random.weighted(self.dialect.watch_kinds());
                Request::read(op, format!("{} type {kind}", show(&path)), body.text(&path).int(kind))
            }
            _ => {
                let watch = u8::from(self.random.percent(55));
                Request::read(op, format!("{} watch {watch}", show(&path)), body.text(&path).byte(watch))
            }
        }
    }

    /// Writes and reads of one node in a row, as a client that pipelines would send them: each read must
    /// see the write before it, and the watch that it leaves must fire for the write after it.
    pub(crate) fn write_read_write(&mut self) -> Vec<Request> {
        let path: RawText = Some(vocabulary::plain_path(self.random).into_bytes());
        let count = 2 + self.random.below(20);
        let mut requests = Vec::new();
        for number in 0..count {
            let watch = Body::default().text(&path).byte(1);
            let what = format!("{} watch 1", show(&path));
            let request = match self.random.below(10) {
                0..3 if number % 2 == 1 => Request::read(OpCode::GetData, what, watch),
                3 if number % 2 == 1 => Request::read(OpCode::Exists, what, watch),
                4..6 if number % 2 == 1 => Request::read(OpCode::GetChildren2, what, watch),
                6 => {
                    let body = Body::default().text(&path).int(-1);
                    Request::write(OpCode::Delete, show(&path), vec![parent_of(&path)], body)
                }
                7..9 => {
                    let body = Body::default().text(&path).text(&Some(b"new".to_vec()));
                    let body = body.acl(&Some(Acl::open())).int(0);
                    Request::write(OpCode::Create2, show(&path), vec![parent_of(&path)], body)
                }
                _ => {
                    let data: RawText = Some(format!("{number}").into_bytes());
                    let body = Body::default().text(&path).text(&data).int(-1);
                    let what = format!("{} to {}", show(&path), show(&data));
                    Request::write(OpCode::SetData, what, vec![node_of(&path)], body)
                }
            };
            requests.push(request);
        }
        requests
    }
}

/// Whether usage below a quota is counted no longer once this node is deleted. If it were ephemeral, it would
/// depend on the order of a hash set whether the other nodes of its session are counted off before.
fn ends_counting(path: &RawText) -> bool {
    path.as_ref().is_some_and(|path| path.starts_with(b"/zookeeper/quota"))
}

fn without_ephemeral(flags: i32) -> i32 {
    match flags {
        1 => 0,
        3 => 2,
        other => other,
    }
}

/// Whether a part of a multi with these fields fails by an unexpected exception.
fn residue(path: &RawText, acl: &Option<Vec<Acl>>) -> Residue {
    let has_null = acl.iter().flatten().any(|entry| entry.id.id.is_none() || entry.id.scheme.is_none());
    if path.is_none() || has_null { Residue::PendingChanges } else { Residue::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quota_is_ephemeral() {
        let mut random = Random::new(5);
        let mut requests =
            Requests { random: &mut random, known: &[], zxid: 0, mood: Mood::Wild, dialect: Dialect::V3_9 };
        let mut met = 0;
        for _ in 0..20_000 {
            let what = requests.create(OpCode::Create).what;
            let is_quota = what.starts_with("\"/zookeeper/quota");
            met += usize::from(is_quota);
            let is_ephemeral = what.contains(" flags 1 ") || what.contains(" flags 3 ");
            assert!(!is_quota || !is_ephemeral, "{what}");
        }
        assert!(met > 0, "no quota is ever made");
    }

    #[test]
    fn a_null_path_id_or_scheme_leaves_pending_changes_behind() {
        let path: RawText = Some(b"/a".to_vec());
        assert_eq!(residue(&path, &Some(Acl::open())), Residue::None);
        assert_eq!(residue(&None, &None), Residue::PendingChanges);
        let mut acl = Acl::open();
        acl[0].id.scheme = None;
        assert_eq!(residue(&path, &Some(acl)), Residue::PendingChanges);
        let mut acl = Acl::open();
        acl[0].id.id = None;
        assert_eq!(residue(&path, &Some(acl)), Residue::PendingChanges);
    }
}
