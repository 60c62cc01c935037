//! What the reference is asked. Zebu follows 3.9; an older Apache has its own answers to some requests, which
//! are therefore not sent to it. Every one of them is named here, with its reason.

use zebu_proto::{Acl, OpCode};
use zebu_testing::vectors::Release;

use super::request::{Effect, Request};

/// The requests that a reference and Zebu answer alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Everything.
    V3_9,
    /// What did not change between 3.8.0 and 3.9.
    V3_8,
}

impl Dialect {
    /// The dialect of a release.
    pub(crate) fn of(release: Release) -> Dialect {
        match release {
            Release::V3_9_5 => Dialect::V3_9,
            Release::V3_8_0 => Dialect::V3_8,
        }
    }

    /// The operation, or another in its place. 3.8 keeps one kind of watch for each path and connection: a
    /// persistent one takes the place of a standard one. Asked for a watch on a node, it finds one on a
    /// parent too.
    pub(crate) fn operation(self, op: OpCode) -> OpCode {
        match (self, op) {
            (Dialect::V3_8, OpCode::AddWatch) => OpCode::Exists,
            (Dialect::V3_8, OpCode::CheckWatches) => OpCode::RemoveWatches,
            _ => op,
        }
    }

    /// The operation as a part of a multi. 3.8 tells the outcome of every kind of create as that of a plain
    /// one.
    pub(crate) fn part(self, op: OpCode) -> OpCode {
        match (self, op) {
            (Dialect::V3_8, OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl) => OpCode::Create,
            _ => op,
        }
    }

    /// How many of the lists of setWatches2 have paths: the last two are of persistent watches.
    pub(crate) fn watch_lists(self) -> usize {
        match self {
            Dialect::V3_9 => 5,
            Dialect::V3_8 => 3,
        }
    }

    /// The kinds of watches that can be removed, with weights. 4 and 5 came with 3.9.
    pub(crate) fn watch_kinds(self) -> &'static [(usize, i32)] {
        match self {
            Dialect::V3_9 => &[(20, 1), (20, 2), (20, 3), (20, 4), (20, 5), (1, 0), (1, 6), (1, -1)],
            Dialect::V3_8 => &[(20, 1), (20, 2), (20, 3), (1, 0), (1, 6), (1, -1)],
        }
    }

    /// Whether the request may be sent cut short. A write that 3.8 cannot read takes a zxid.
    pub(crate) fn may_be_cut(self, request: &Request) -> bool {
        self == Dialect::V3_9 || request.effect == Effect::Read
    }

    /// Whether a multi may hold parts that fail by an unexpected exception, or have impossible flags. 3.8
    /// refuses such a multi as a whole.
    pub(crate) fn has_odd_parts(self) -> bool {
        self == Dialect::V3_9
    }

    /// Operation codes that no server knows. 3.8.0 carries out a check that stands alone.
    pub(crate) fn unknown_codes(self) -> &'static [i32] {
        match self {
            Dialect::V3_9 => &[0, 10, 13, 23, 99, 108, -1, -2, 4711, i32::MIN],
            Dialect::V3_8 => &[0, 10, 23, 99, 108, -1, -2, 4711, i32::MIN],
        }
    }

    /// The ACL without IPv6 addresses, which are no ids for 3.8, and with a read permission for every client:
    /// 3.8.0 does not check permissions in exists.
    pub(crate) fn acl(self, mut acl: Option<Vec<Acl>>) -> Option<Vec<Acl>> {
        if self == Dialect::V3_8 {
            let has_colon = |entry: &Acl| entry.id.id.as_ref().is_some_and(|id| id.contains("::"));
            if let Some(entries) = &mut acl {
                entries.retain(|entry| !has_colon(entry));
                if !entries.is_empty() {
                    entries.extend(Acl::read_only());
                }
            }
        }
        acl
    }
}

#[cfg(test)]
mod tests {
    use super::super::generator::{Generator, Pairing};
    use super::super::step::Action;
    use super::*;

    /// The operations of a long run that are sent alike to both servers.
    fn operations(dialect: Dialect) -> Vec<i32> {
        let mut generator = Generator::new(11, Pairing::ApacheAndZebu, dialect, None);
        let mut operations = Vec::new();
        for _ in 0..5_000 {
            if let Action::Send { requests, .. } = generator.next().action {
                operations.extend(requests.iter().map(|request| request.op));
            }
        }
        operations
    }

    #[test]
    fn what_3_9_changed_is_not_asked_of_3_8() {
        let changed = [OpCode::AddWatch, OpCode::CheckWatches].map(OpCode::wire);
        let (new, old) = (operations(Dialect::V3_9), operations(Dialect::V3_8));
        for op in changed {
            assert!(new.contains(&op), "{op} is never asked of 3.9");
            assert!(!old.contains(&op), "{op} is asked of 3.8");
        }
        assert!(!Dialect::V3_8.unknown_codes().contains(&OpCode::Check.wire()));
        assert!(old.contains(&OpCode::RemoveWatches.wire()) && old.contains(&OpCode::Multi.wire()));
    }

    #[test]
    fn everybody_may_read_what_3_8_lets_everybody_ask_for() {
        let none = Dialect::V3_8.acl(Some(Vec::new()));
        assert_eq!(none, Some(Vec::new()), "no ACL is still refused");
        assert_eq!(Dialect::V3_8.acl(None), None);
        let mut open = Acl::open();
        open[0].id = zebu_proto::Id::new("ip", "::1");
        assert_eq!(Dialect::V3_9.acl(Some(open.clone())), Some(open.clone()));
        assert_eq!(Dialect::V3_8.acl(Some(open)), Some(Vec::new()));
        let read = Dialect::V3_8.acl(Some(Acl::open())).unwrap();
        assert_eq!(read.last(), Acl::read_only().last());
    }
}
