//! Names of contenders: the layout that they belong to, and their order. Names of no known layout are
//! ignored. Names of a layout that does not count ours are a conflict.

use zebu_client::ProtectionStyle;

/// The markers between prefix and counter in all known layouts. A foreign marker means that neither side
/// waits for the other.
const KNOWN_MARKERS: [&str; 7] =
    ["lock-", "latch-", "__lock__", "__rlock__", "__READ__", "__WRIT__", "lease-"];

/// The mode in which a contender requests a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockMode {
    Exclusive,
    Shared,
}

/// The names of one recipe in one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContenderNaming {
    pub(crate) style: ProtectionStyle,
    /// The marker of exclusive contenders; empty if the name is the id alone.
    pub(crate) exclusive: &'static str,
    /// The marker of shared contenders; empty if the recipe has none.
    pub(crate) shared: &'static str,
}

/// A parsed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContenderName<'a> {
    pub(crate) name: &'a str,
    pub(crate) mode: LockMode,
    pub(crate) sequence: i32,
}

/// The position of a contender in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition<'a> {
    First,
    /// The nearest node that blocks the contender.
    Behind(&'a str),
    /// The contender's own node does not exist.
    Missing,
    /// A node of an incompatible layout.
    Conflict(&'a str),
}

/// Whether the server assigned `left` before `right`. The counter wraps, so the distance decides. This is
/// right for fewer than 2^31 contenders in one directory.
pub(crate) const fn precedes(left: i32, right: i32) -> bool {
    right.wrapping_sub(left) > 0
}

impl ContenderNaming {
    /// Whether names end in a counter.
    pub(crate) const fn is_sequential(&self, mode: LockMode) -> bool {
        !self.marker(mode).is_empty()
    }

    pub(crate) const fn marker(&self, mode: LockMode) -> &'static str {
        match mode {
            LockMode::Exclusive => self.exclusive,
            LockMode::Shared => self.shared,
        }
    }

    /// Parses a name of this layout.
    pub(crate) fn parse<'a>(&self, name: &'a str) -> Option<ContenderName<'a>> {
        let of = |mode| {
            let sequence = sequence_after(name, self.marker(mode))?;
            Some(ContenderName { name, mode, sequence })
        };
        of(LockMode::Exclusive).or_else(|| of(LockMode::Shared))
    }

    /// The position of `own` among these names.
    pub(crate) fn position<'a>(&self, names: &'a [String], own: &str) -> QueuePosition<'a> {
        if let Some(foreign) = names.iter().find(|name| self.is_conflict(name)) {
            return QueuePosition::Conflict(foreign);
        }
        let found = names.iter().find(|name| *name == own).and_then(|name| self.parse(name));
        let Some(own) = found else { return QueuePosition::Missing };
        let others = names.iter().filter_map(|name| self.parse(name));
        let blockers = others.filter(|other| {
            precedes(other.sequence, own.sequence)
                && (own.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive)
        });
        // The smallest distance is the nearest.
        match blockers.min_by_key(|other| own.sequence.wrapping_sub(other.sequence)) {
            Some(nearest) => QueuePosition::Behind(nearest.name),
            None => QueuePosition::First,
        }
    }

    /// Whether the name is that of a contender of another layout.
    pub(crate) fn is_conflict(&self, name: &str) -> bool {
        if self.parse(name).is_some() {
            return false;
        }
        let known = KNOWN_MARKERS.iter().any(|marker| sequence_after(name, marker).is_some());
        known || is_java_or_c_lock(name)
    }
}

/// Whether the name is `x-<session>-<number>`, the form of ZooKeeper's own recipes.
fn is_java_or_c_lock(name: &str) -> bool {
    name.strip_prefix("x-").is_some_and(|rest| sequence_after(rest, "-").is_some())
}

/// The counter after the last occurrence of a marker: ten digits, or a sign and nine or ten.
fn sequence_after(name: &str, marker: &str) -> Option<i32> {
    if marker.is_empty() {
        return None;
    }
    let (_, number) = name.rsplit_once(marker)?;
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole =
        number.len() >= 10 && number.len() <= 11 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_whole { number.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURATOR: ContenderNaming =
        ContenderNaming { style: ProtectionStyle::Curator, exclusive: "lock-", shared: "" };
    const KAZOO: ContenderNaming =
        ContenderNaming { style: ProtectionStyle::Kazoo, exclusive: "__lock__", shared: "__rlock__" };

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
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
        assert_eq!((reader.mode, reader.sequence), (LockMode::Shared, 3));
    }

    #[test]
    fn the_nearest_before_is_waited_for_also_across_the_overflow() {
        let list =
            names(&["a-lock-2147483646", "b-lock-2147483647", "c-lock--2147483648", "c-lock--2147483647"]);
        assert_eq!(CURATOR.position(&list, "a-lock-2147483646"), QueuePosition::First);
        assert_eq!(CURATOR.position(&list, "c-lock--2147483648"), QueuePosition::Behind("b-lock-2147483647"));
        assert_eq!(
            CURATOR.position(&list, "c-lock--2147483647"),
            QueuePosition::Behind("c-lock--2147483648")
        );
        assert_eq!(CURATOR.position(&list, "d-lock-0000000001"), QueuePosition::Missing);
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
        assert_eq!(KAZOO.position(&list, "a__rlock__0000000001"), QueuePosition::First);
        assert_eq!(
            KAZOO.position(&list, "b__lock__0000000002"),
            QueuePosition::Behind("a__rlock__0000000001")
        );
        assert_eq!(
            KAZOO.position(&list, "d__rlock__0000000004"),
            QueuePosition::Behind("b__lock__0000000002")
        );
        assert_eq!(
            KAZOO.position(&list, "e__lock__0000000005"),
            QueuePosition::Behind("d__rlock__0000000004")
        );
    }

    #[test]
    fn unknown_names_are_ignored_and_other_layouts_refused() {
        let own = "a-lock-0000000002";
        assert_eq!(CURATOR.position(&names(&["hello", "0000000001", own]), own), QueuePosition::First);
        for foreign in [
            "0123__lock__0000000001",
            "0123__rlock__0000000001",
            "_c_x-__READ__0000000001",
            "_c_x-latch-0000000001",
            "x-72057594037927936-0000000001",
        ] {
            assert_eq!(CURATOR.position(&names(&[foreign, own]), own), QueuePosition::Conflict(foreign));
        }
        // Curator and Go count each other.
        let go = "_c_53345f9894234e0ca7b59f819e3ec2e1-lock-0000000001";
        assert_eq!(CURATOR.position(&names(&[go, own]), own), QueuePosition::Behind(go));
        assert!(matches!(KAZOO.position(&names(&[go]), "a__lock__0000000002"), QueuePosition::Conflict(_)));
    }
}
