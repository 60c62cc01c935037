//! The names of contenders: who wrote them, whom they count, and in which order they stand. Names that no
//! layout knows are ignored; names of layouts that do not count each other are a conflict.

use crate::unique_id::UniqueId;

/// What follows a mark in the names of every layout that is known: if it is not ours, its owner and we would
/// not see each other.
const KNOWN_MARKERS: [&str; 7] =
    ["lock-", "latch-", "__lock__", "__rlock__", "__READ__", "__WRIT__", "lease-"];

/// What a contender asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To be the only one.
    Exclusive,
    /// To be there with others of this kind.
    Shared,
}

/// How the unique part of a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdStyle {
    /// `_c_<uuid>-`
    Curator,
    /// `_c_<32 digits>-`
    Go,
    /// `<32 digits>`
    Kazoo,
}

impl IdStyle {
    /// A new unique beginning of a name.
    pub(crate) fn mark(self) -> String {
        let id = UniqueId::new();
        match self {
            IdStyle::Curator => format!("_c_{}-", id.dashed()),
            IdStyle::Go => format!("_c_{}-", id.hex()),
            IdStyle::Kazoo => id.hex(),
        }
    }
}

/// The names of one recipe in one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Naming {
    pub(crate) style: IdStyle,
    pub(crate) exclusive: &'static str,
    /// Empty if there is no such kind.
    pub(crate) shared: &'static str,
}

/// A name with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbered<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: Kind,
    pub(crate) sequence: i32,
}

/// Where a contender stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Nobody is before it.
    First,
    /// This is the nearest that it has to wait for.
    Behind(&'a str),
    /// Its node is not there.
    Missing,
    /// Somebody stands there whom it cannot count.
    Conflict(&'a str),
}

/// Whether `left` was handed out before `right`. The counter wraps, so this is about the distance between
/// them: it holds as long as fewer than two thousand million contenders stand in one directory.
pub(crate) const fn comes_before(left: i32, right: i32) -> bool {
    right.wrapping_sub(left) > 0
}

/// Whether names end in a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Numbering {
    Counter,
    None,
}

impl Naming {
    /// A name without a marker is the mark alone.
    pub(crate) const fn numbering(&self, kind: Kind) -> Numbering {
        if self.marker(kind).is_empty() { Numbering::None } else { Numbering::Counter }
    }

    pub(crate) const fn marker(&self, kind: Kind) -> &'static str {
        match kind {
            Kind::Exclusive => self.exclusive,
            Kind::Shared => self.shared,
        }
    }

    /// Reads a name of this layout.
    pub(crate) fn parse<'a>(&self, name: &'a str) -> Option<Numbered<'a>> {
        let of = |kind| {
            let sequence = number_after(name, self.marker(kind))?;
            Some(Numbered { name, kind, sequence })
        };
        of(Kind::Exclusive).or_else(|| of(Kind::Shared))
    }

    /// Where `own` stands among these names.
    pub(crate) fn place<'a>(&self, names: &'a [String], own: &str) -> Place<'a> {
        if let Some(stranger) = names.iter().find(|name| self.is_conflict(name)) {
            return Place::Conflict(stranger);
        }
        let present = names.iter().find(|name| *name == own).and_then(|name| self.parse(name));
        let Some(me) = present else { return Place::Missing };
        let others = names.iter().filter_map(|name| self.parse(name));
        let blockers = others.filter(|other| {
            comes_before(other.sequence, me.sequence)
                && (me.kind == Kind::Exclusive || other.kind == Kind::Exclusive)
        });
        // The smallest distance is the nearest.
        match blockers.min_by_key(|other| me.sequence.wrapping_sub(other.sequence)) {
            Some(nearest) => Place::Behind(nearest.name),
            None => Place::First,
        }
    }

    /// A contender of another layout.
    pub(crate) fn is_conflict(&self, name: &str) -> bool {
        if self.parse(name).is_some() {
            return false;
        }
        let known = KNOWN_MARKERS.iter().any(|marker| number_after(name, marker).is_some());
        known || is_java_or_c_lock(name)
    }
}

/// `x-<session>-<number>`, as ZooKeeper's own recipes name contenders.
fn is_java_or_c_lock(name: &str) -> bool {
    name.strip_prefix("x-").is_some_and(|rest| number_after(rest, "-").is_some())
}

/// The counter behind the last occurrence of a marker: ten digits, or a sign and nine or ten.
fn number_after(name: &str, marker: &str) -> Option<i32> {
    if marker.is_empty() {
        return None;
    }
    let (_, number) = name.rsplit_once(marker)?;
    let plain = number.strip_prefix('-').unwrap_or(number);
    let whole = number.len() >= 10 && number.len() <= 11 && plain.bytes().all(|byte| byte.is_ascii_digit());
    if whole { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURATOR: Naming = Naming { style: IdStyle::Curator, exclusive: "lock-", shared: "" };
    const KAZOO: Naming = Naming { style: IdStyle::Kazoo, exclusive: "__lock__", shared: "__rlock__" };

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn names_are_those_of_the_layouts() {
        let curator = IdStyle::Curator.mark();
        assert!(zebu_client::is_protected(&format!("{curator}lock-")) && curator.len() == 40);
        assert_eq!(IdStyle::Go.mark().len(), 36);
        assert_eq!(IdStyle::Kazoo.mark().len(), 32);
    }

    #[test]
    fn numbers_are_read_whatever_their_sign() {
        for (name, number) in [
            ("_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-0000000012", Some(12)),
            ("_c_53345f9894234e0ca7b59f819e3ec2e1-lock-2147483647", Some(i32::MAX)),
            ("guid-lock--2147483648", Some(i32::MIN)),
            ("guid-lock--000000001", Some(-1)),
            ("lock-12", None),
            ("lock-+000000001", None),
            ("lock-99999999999", None),
            ("lock-4294967296", None),
            ("lock-", None),
            ("hello", None),
            ("", None),
        ] {
            assert_eq!(CURATOR.parse(name).map(|numbered| numbered.sequence), number, "{name}");
        }
        let reader = KAZOO.parse("0123__rlock__0000000003").expect("a reader");
        assert_eq!((reader.kind, reader.sequence), (Kind::Shared, 3));
    }

    #[test]
    fn the_nearest_before_is_waited_for_also_across_the_overflow() {
        let list =
            names(&["a-lock-2147483646", "b-lock-2147483647", "c-lock--2147483648", "c-lock--2147483647"]);
        assert_eq!(CURATOR.place(&list, "a-lock-2147483646"), Place::First);
        assert_eq!(CURATOR.place(&list, "c-lock--2147483648"), Place::Behind("b-lock-2147483647"));
        assert_eq!(CURATOR.place(&list, "c-lock--2147483647"), Place::Behind("c-lock--2147483648"));
        assert_eq!(CURATOR.place(&list, "d-lock-0000000001"), Place::Missing);
    }

    #[test]
    fn readers_wait_for_writers_only() {
        let list = names(&[
            "a__rlock__0000000001",
            "b__lock__0000000002",
            "c__rlock__0000000003",
            "d__rlock__0000000004",
            "e__lock__0000000005",
        ]);
        assert_eq!(KAZOO.place(&list, "a__rlock__0000000001"), Place::First);
        assert_eq!(KAZOO.place(&list, "b__lock__0000000002"), Place::Behind("a__rlock__0000000001"));
        assert_eq!(KAZOO.place(&list, "d__rlock__0000000004"), Place::Behind("b__lock__0000000002"));
        assert_eq!(KAZOO.place(&list, "e__lock__0000000005"), Place::Behind("d__rlock__0000000004"));
    }

    #[test]
    fn strangers_are_ignored_and_other_layouts_refused() {
        let own = "a-lock-0000000002";
        assert_eq!(CURATOR.place(&names(&["hello", "0000000001", own]), own), Place::First);
        for stranger in [
            "0123__lock__0000000001",
            "0123__rlock__0000000001",
            "_c_x-__READ__0000000001",
            "_c_x-latch-0000000001",
            "x-72057594037927936-0000000001",
        ] {
            assert_eq!(CURATOR.place(&names(&[stranger, own]), own), Place::Conflict(stranger));
        }
        // Curator and Go count each other.
        let go = "_c_53345f9894234e0ca7b59f819e3ec2e1-lock-0000000001";
        assert_eq!(CURATOR.place(&names(&[go, own]), own), Place::Behind(go));
        assert!(matches!(KAZOO.place(&names(&[go]), "a__lock__0000000002"), Place::Conflict(_)));
    }
}
