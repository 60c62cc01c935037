//! Bytes read and written by namespace, which is the first component of a path. A lookup takes no lock,
//! because each read makes one.

use std::sync::OnceLock;

use crate::keyed::{KEYS_MAX, OTHER_KEY};
use crate::summary::{SampleRun, Summary, SummarySnapshot};

/// Slots of the hash table; namespaces beyond `KEYS_MAX` share one, so it is at most half full.
const SLOTS: usize = 2 * KEYS_MAX;

/// Names longer than this are not copied: they share the last namespace.
const NAME_BYTES_MAX: usize = 128;

/// The number of a namespace in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceId(u16);

impl NamespaceId {
    /// The namespace of everything beyond the limit.
    const OTHER: NamespaceId = NamespaceId(SLOTS as u16);
}

/// A namespace.
#[derive(Debug)]
struct Namespace {
    name: Box<str>,
    reads: Summary,
    writes: Summary,
}

impl Namespace {
    fn named(name: &str) -> Namespace {
        Namespace { name: name.into(), reads: Summary::default(), writes: Summary::default() }
    }
}

/// Writes in a row to one namespace, not recorded yet. The caller flushes it at the end of a batch.
#[derive(Debug, Default)]
pub struct WriteRun {
    namespace: Option<NamespaceId>,
    bytes: SampleRun,
}

/// Snapshots of namespaces by name.
pub type NamespaceSnapshots = Vec<(Box<str>, SummarySnapshot)>;

/// All namespaces of a server. They stay until it ends.
#[derive(Debug)]
pub struct NamespaceTable {
    /// One slot more than the hash table, for the namespace of all others.
    slots: Box<[OnceLock<Namespace>]>,
    seed: u64,
}

impl NamespaceTable {
    /// An empty table. Clients choose names, so the seed must be secret.
    pub fn new(seed: u64) -> NamespaceTable {
        let slots = std::iter::repeat_with(OnceLock::new).take(SLOTS + 1).collect();
        NamespaceTable { slots, seed }
    }

    /// The namespace of a path; `None` for the root. A new one is added while there is room.
    pub fn of(&self, path: &str) -> Option<NamespaceId> {
        let name = name_of(path)?;
        if name.len() > NAME_BYTES_MAX {
            return Some(NamespaceId::OTHER);
        }
        let mut slot = self.hash(name) % SLOTS;
        // The bound on probes keeps the table half empty on average, and bounds the time.
        for _ in 0..SLOTS / KEYS_MAX * 4 {
            let namespace = self.slots[slot].get_or_init(|| Namespace::named(name));
            if *namespace.name == *name {
                return Some(NamespaceId(slot as u16));
            }
            slot = (slot + 1) % SLOTS;
        }
        Some(NamespaceId::OTHER)
    }

    /// Whether a path is in this namespace.
    #[inline]
    pub fn contains(&self, id: NamespaceId, path: &str) -> bool {
        let Some(namespace) = self.slots[usize::from(id.0)].get() else { return false };
        // Each read comes here: the known name is compared in place, and no end of the component is searched.
        let (path, name) = (path.as_bytes(), namespace.name.as_bytes());
        id != NamespaceId::OTHER
            && path.len() > name.len()
            && path[0] == b'/'
            && path[1..=name.len()] == *name
            && path.get(1 + name.len()).is_none_or(|byte| *byte == b'/')
    }

    /// Adds `count` reads with these bytes together.
    pub fn record_reads(&self, id: NamespaceId, count: u32, bytes: u64) {
        if let Some(mean) = bytes.checked_div(u64::from(count)) {
            self.get(id).reads.record_n(mean, u64::from(count));
        }
    }

    /// Adds a write to a run. Another namespace than before records the earlier ones.
    #[inline]
    pub fn add_write(&self, run: &mut WriteRun, path: &str, bytes: u64) {
        if !run.namespace.is_some_and(|id| self.contains(id, path)) {
            self.flush_writes(run);
            run.namespace = self.of(path);
        }
        if let Some(id) = run.namespace {
            run.bytes.add(&self.get(id).writes, bytes);
        }
    }

    /// Records the writes of a run.
    pub fn flush_writes(&self, run: &mut WriteRun) {
        if let Some(id) = run.namespace {
            run.bytes.flush(&self.get(id).writes);
        }
    }

    /// The namespaces with reads, and those with writes, by name.
    pub fn snapshot(&self, now_ms: i64) -> (NamespaceSnapshots, NamespaceSnapshots) {
        let of = |summary: fn(&Namespace) -> &Summary| {
            let namespaces = self.slots.iter().filter_map(OnceLock::get);
            let used =
                namespaces.map(|namespace| (namespace.name.clone(), summary(namespace).snapshot(now_ms)));
            let mut used: NamespaceSnapshots =
                used.filter(|(_, snapshot)| snapshot.total_count > 0).collect();
            used.sort_by(|(left, _), (right, _)| left.cmp(right));
            used
        };
        (of(|namespace| &namespace.reads), of(|namespace| &namespace.writes))
    }

    /// Begins anew for `mntr`.
    pub fn reset(&self) {
        for namespace in self.slots.iter().filter_map(OnceLock::get) {
            namespace.reads.reset();
            namespace.writes.reset();
        }
    }

    fn get(&self, id: NamespaceId) -> &Namespace {
        self.slots[usize::from(id.0)].get_or_init(|| Namespace::named(OTHER_KEY))
    }

    /// FNV-1a with a secret start: names are short, and a flood of names only fills the table.
    fn hash(&self, name: &str) -> usize {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let hash = name.bytes().fold(self.seed ^ 0xcbf2_9ce4_8422_2325, step);
        (hash ^ (hash >> 32)) as usize
    }
}

/// The first component of a path.
fn name_of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    let name = rest.find('/').map_or(rest, |end| &rest[..end]);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(table: &NamespaceTable, path: &str, bytes: u64) {
        let mut run = WriteRun::default();
        table.add_write(&mut run, path, bytes);
        table.flush_writes(&mut run);
    }

    #[test]
    fn reads_and_writes_count_by_first_component() {
        let table = NamespaceTable::new(7);
        assert_eq!(table.of("/"), None);
        let app = table.of("/app/a/b").unwrap();
        assert_eq!(table.of("/app"), Some(app));
        for (path, is_in) in
            [("/app", true), ("/app/x", true), ("/apple", false), ("/ap", false), ("/", false)]
        {
            assert_eq!(table.contains(app, path), is_in, "{path}");
        }
        assert!(!table.contains(app, "") && !table.contains(app, "xapp/x"));
        table.record_reads(app, 3, 30);
        write(&table, "/locks/1", 12);
        let (reads, writes) = table.snapshot(0);
        assert_eq!((reads.len(), &*reads[0].0, reads[0].1.total_sum), (1, "app", 30));
        assert_eq!((writes.len(), &*writes[0].0, writes[0].1.total_sum), (1, "locks", 12));
        table.reset();
        assert_eq!(table.snapshot(0).0[0].1.count, 0);
    }

    #[test]
    fn writes_in_turn_stay_with_their_namespaces() {
        let table = NamespaceTable::new(7);
        let mut run = WriteRun::default();
        for path in ["/a/1", "/a/2", "/b", "/a", "/b/1", "/", "/b/2"] {
            table.add_write(&mut run, path, 10);
        }
        table.add_write(&mut run, "/b/2", 30);
        table.flush_writes(&mut run);
        table.flush_writes(&mut run);
        let (_, writes) = table.snapshot(0);
        let counts: Vec<_> =
            writes.iter().map(|(name, snapshot)| (&**name, snapshot.count, snapshot.sum)).collect();
        assert_eq!(counts, [("a", 3, 30), ("b", 4, 60)]);
        assert_eq!((writes[1].1.min, writes[1].1.max), (10, 30), "each write has its own length");
    }

    #[test]
    fn many_names_share_one() {
        let table = NamespaceTable::new(7);
        for number in 0..5000 {
            write(&table, &format!("/n{number}/x"), 1);
        }
        let (_, writes) = table.snapshot(0);
        assert!(writes.len() <= SLOTS + 1, "{}", writes.len());
        let other = writes.iter().find(|(name, _)| **name == *OTHER_KEY).unwrap();
        assert!(other.1.total_count >= (5000 - SLOTS) as u64);
        assert_eq!(writes.iter().map(|(_, snapshot)| snapshot.total_count).sum::<u64>(), 5000);
        write(&table, &format!("/{}", "n".repeat(1000)), 1);
        assert_eq!(table.snapshot(0).1.len(), writes.len());
    }
}
