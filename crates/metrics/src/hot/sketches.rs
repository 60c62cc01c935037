//! One sketch per subject and measure, and the decay of all of them.

use std::borrow::Cow;
use std::hash::Hash;
use std::net::IpAddr;

use super::space_saving::SpaceSaving;

/// Keys that each sketch keeps.
pub const HOT_KEYS_MAX: usize = 512;

/// Weights halve after this time.
const HALF_LIFE_MS: i64 = 30_000;

/// Halvings after which every weight is zero.
const HALVINGS_MAX: i64 = 64;

/// Longer keys are cut: clients choose paths and user names.
const KEY_BYTES_MAX: usize = 256;

/// Marks a key that was cut.
const CUT_MARK: &str = "...";

/// Components of a path that name its subtree.
const SUBTREE_DEPTH: usize = 3;

/// The thing that a table lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotSubject {
    /// The first three components of paths.
    Subtree,
    /// Whole paths.
    Path,
    /// IP addresses of clients.
    Address,
    /// Names of authenticated users.
    User,
    /// Session ids.
    Session,
}

impl HotSubject {
    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            HotSubject::Subtree => "subtree",
            HotSubject::Path => "path",
            HotSubject::Address => "address",
            HotSubject::User => "user",
            HotSubject::Session => "session",
        }
    }
}

/// The quantity that a table is ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HotMeasure {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Bytes of the replies to reads.
    Bytes,
    /// Watches that requests set.
    Watches,
    /// Requests of all kinds, for clients.
    Requests,
}

impl HotMeasure {
    /// All measures.
    pub const ALL: [HotMeasure; 5] =
        [HotMeasure::Reads, HotMeasure::Writes, HotMeasure::Bytes, HotMeasure::Watches, HotMeasure::Requests];

    /// The name in answers.
    pub fn name(self) -> &'static str {
        match self {
            HotMeasure::Reads => "reads",
            HotMeasure::Writes => "writes",
            HotMeasure::Bytes => "bytes",
            HotMeasure::Watches => "watches",
            HotMeasure::Requests => "requests",
        }
    }

    /// Recognises a name.
    pub fn from_name(name: &str) -> Option<HotMeasure> {
        HotMeasure::ALL.into_iter().find(|measure| measure.name() == name)
    }
}

/// A sampled request, or one operation of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestSample {
    /// `None` for a request without a path.
    pub path: Option<Box<str>>,
    /// Whether the request reads the path.
    pub is_read: bool,
    /// Whether the request changes the path.
    pub is_write: bool,
    /// Whether the request set a watch on the path.
    pub sets_watch: bool,
    /// Bytes of the reply to a read.
    pub bytes_out: u64,
    /// Whether this is not the first operation of its request.
    pub is_continued: bool,
}

/// The client of a sampled request.
#[derive(Clone, Copy, Debug)]
pub struct RequestClient<'a> {
    /// Its address.
    pub address: IpAddr,
    /// `None` for a client that has not authenticated.
    pub user: Option<&'a str>,
    /// Its session.
    pub session: i64,
}

/// The hottest paths and clients of a server.
#[derive(Debug)]
pub struct HotSketches {
    reads: PathSketches,
    writes: PathSketches,
    bytes: PathSketches,
    watches: PathSketches,
    addresses: SpaceSaving<IpAddr>,
    users: SpaceSaving<String>,
    sessions: SpaceSaving<i64>,
    /// Monotonic milliseconds of the first sample, or of the last halving.
    halved_ms: Option<i64>,
    halvings: u32,
}

#[derive(Debug)]
struct PathSketches {
    whole: SpaceSaving<String>,
    subtrees: SpaceSaving<String>,
}

impl PathSketches {
    fn new(seed: u64) -> PathSketches {
        PathSketches {
            whole: SpaceSaving::new(HOT_KEYS_MAX, seed),
            subtrees: SpaceSaving::new(HOT_KEYS_MAX, seed),
        }
    }

    fn add(&mut self, path: &str, weight: u64) {
        self.whole.add(&*bounded_key(path), weight);
        self.subtrees.add(&*bounded_key(subtree_of(path)), weight);
    }

    fn halve(&mut self) {
        self.whole.halve();
        self.subtrees.halve();
    }
}

/// A key with its rate.
#[derive(Clone, Debug, PartialEq)]
pub struct HotEntry {
    /// The key as text.
    pub key: String,
    /// Amount per second, of the last minute about.
    pub per_second: f64,
    /// The amount is too high by at most this much per second, beside the error of sampling.
    pub error_per_second: f64,
}

/// The heaviest keys of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct HotTable {
    /// The measure.
    pub measure: HotMeasure,
    /// The subject.
    pub subject: HotSubject,
    /// The keys, heaviest first.
    pub entries: Vec<HotEntry>,
}

impl HotSketches {
    /// Empty sketches. Clients choose keys, so the seed must be secret.
    pub fn new(seed: u64) -> HotSketches {
        HotSketches {
            reads: PathSketches::new(seed),
            writes: PathSketches::new(seed),
            bytes: PathSketches::new(seed),
            watches: PathSketches::new(seed),
            addresses: SpaceSaving::new(HOT_KEYS_MAX, seed),
            users: SpaceSaving::new(HOT_KEYS_MAX, seed),
            sessions: SpaceSaving::new(HOT_KEYS_MAX, seed),
            halved_ms: None,
            halvings: 0,
        }
    }

    /// Adds a sample that stands for `weight` requests.
    pub fn record(&mut self, sample: &RequestSample, client: RequestClient<'_>, weight: u64, now_ms: i64) {
        self.decay(now_ms);
        if let Some(path) = sample.path.as_deref() {
            if sample.is_read {
                self.reads.add(path, weight);
            }
            if sample.is_write {
                self.writes.add(path, weight);
            }
            if sample.sets_watch {
                self.watches.add(path, weight);
            }
            if sample.bytes_out > 0 {
                self.bytes.add(path, weight.saturating_mul(sample.bytes_out));
            }
        }
        if sample.is_continued {
            return;
        }
        self.addresses.add(&client.address, weight);
        self.sessions.add(&client.session, weight);
        if let Some(user) = client.user {
            self.users.add(&*bounded_key(user), weight);
        }
    }

    /// Halves all weights once per half-life.
    pub fn decay(&mut self, now_ms: i64) {
        let Some(halved_ms) = self.halved_ms else {
            self.halved_ms = Some(now_ms);
            return;
        };
        let due = (now_ms - halved_ms) / HALF_LIFE_MS;
        if due <= 0 {
            return;
        }
        for _ in 0..due.min(HALVINGS_MAX) {
            let HotSketches { reads, writes, bytes, watches, addresses, users, sessions, .. } = self;
            for sketches in [reads, writes, bytes, watches] {
                sketches.halve();
            }
            addresses.halve();
            users.halve();
            sessions.halve();
        }
        self.halved_ms = Some(halved_ms + due * HALF_LIFE_MS);
        self.halvings = self.halvings.saturating_add(u32::try_from(due).unwrap_or(u32::MAX));
    }

    /// The tables of a measure, at most `limit` keys each.
    pub fn tables(&mut self, measure: HotMeasure, limit: usize, now_ms: i64) -> Vec<HotTable> {
        self.decay(now_ms);
        let window = self.window_seconds(now_ms);
        let paths = |sketches: &PathSketches| {
            vec![
                table(
                    measure,
                    HotSubject::Subtree,
                    entries(&sketches.subtrees, limit, window, String::clone),
                ),
                table(measure, HotSubject::Path, entries(&sketches.whole, limit, window, String::clone)),
            ]
        };
        match measure {
            HotMeasure::Reads => paths(&self.reads),
            HotMeasure::Writes => paths(&self.writes),
            HotMeasure::Bytes => paths(&self.bytes),
            HotMeasure::Watches => paths(&self.watches),
            HotMeasure::Requests => {
                let address = |address: &IpAddr| address.to_string();
                let session = |id: &i64| format!("0x{id:x}");
                vec![
                    table(measure, HotSubject::Address, entries(&self.addresses, limit, window, address)),
                    table(measure, HotSubject::User, entries(&self.users, limit, window, String::clone)),
                    table(measure, HotSubject::Session, entries(&self.sessions, limit, window, session)),
                ]
            }
        }
    }

    /// The seconds for which a steady load has the weight that is kept of it. It is the time since the last
    /// halving, half of the half-life before it, a quarter of the one before that, and so on.
    fn window_seconds(&self, now_ms: i64) -> f64 {
        let since_ms = self.halved_ms.map_or(0, |halved_ms| (now_ms - halved_ms).max(0));
        let earlier = 1.0 - 0.5_f64.powi(i32::try_from(self.halvings).unwrap_or(i32::MAX));
        // The first second would give wild rates.
        ((since_ms as f64 + HALF_LIFE_MS as f64 * earlier) / 1000.0).max(1.0)
    }
}

fn table(measure: HotMeasure, subject: HotSubject, entries: Vec<HotEntry>) -> HotTable {
    HotTable { measure, subject, entries }
}

fn entries<K: Hash + Ord>(
    sketch: &SpaceSaving<K>,
    limit: usize,
    window: f64,
    text: impl Fn(&K) -> String,
) -> Vec<HotEntry> {
    let heaviest = sketch.heaviest(limit);
    let entry = |kept: &super::Estimate<'_, K>| HotEntry {
        key: text(kept.key),
        per_second: kept.count as f64 / window,
        error_per_second: kept.error as f64 / window,
    };
    heaviest.iter().map(entry).collect()
}

/// The first components of a path.
fn subtree_of(path: &str) -> &str {
    let ends = path.bytes().enumerate().skip(1).filter(|&(_, byte)| byte == b'/').map(|(at, _)| at);
    match ends.take(SUBTREE_DEPTH).nth(SUBTREE_DEPTH - 1) {
        Some(end) => &path[..end],
        None => path,
    }
}

fn bounded_key(key: &str) -> Cow<'_, str> {
    if key.len() <= KEY_BYTES_MAX {
        return Cow::Borrowed(key);
    }
    Cow::Owned(format!("{}{CUT_MARK}", cut_text(key, KEY_BYTES_MAX)))
}

/// The beginning of a text with at most this many bytes, cut between two characters.
pub fn cut_text(text: &str, bytes_max: usize) -> &str {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const CLIENT: RequestClient<'_> =
        RequestClient { address: IpAddr::V4(Ipv4Addr::LOCALHOST), user: Some("ann"), session: 0x1f };

    fn read(path: &str) -> RequestSample {
        RequestSample { path: Some(path.into()), is_read: true, bytes_out: 100, ..RequestSample::default() }
    }

    fn keys(
        sketches: &mut HotSketches,
        measure: HotMeasure,
        now_ms: i64,
    ) -> Vec<(HotSubject, Vec<(String, u64)>)> {
        let tables = sketches.tables(measure, 3, now_ms);
        let rounded = |entry: HotEntry| (entry.key, entry.per_second.round() as u64);
        tables
            .into_iter()
            .map(|table| (table.subject, table.entries.into_iter().map(rounded).collect()))
            .collect()
    }

    #[test]
    fn subtrees_have_three_components() {
        for (path, subtree) in [
            ("/", "/"),
            ("/a", "/a"),
            ("/a/b/c", "/a/b/c"),
            ("/a/b/c/d/e", "/a/b/c"),
            ("/ä/b/c/", "/ä/b/c"),
            ("", ""),
        ] {
            assert_eq!(subtree_of(path), subtree);
        }
    }

    #[test]
    fn long_keys_are_cut_at_a_character() {
        let key = bounded_key(&"ä".repeat(200)).into_owned();
        assert_eq!(key, format!("{}{CUT_MARK}", "ä".repeat(128)));
        assert_eq!(bounded_key("/a"), "/a");
    }

    #[test]
    fn a_sample_counts_for_its_paths_and_its_client() {
        let mut sketches = HotSketches::new(7);
        for _ in 0..10 {
            sketches.record(&read("/a/b/c/d"), CLIENT, 64, 0);
        }
        let write = RequestSample { path: Some("/w".into()), is_write: true, ..RequestSample::default() };
        sketches.record(&write, CLIENT, 64, 0);
        sketches.record(&RequestSample { is_continued: true, ..write }, CLIENT, 64, 0);
        let by = |sketches: &mut HotSketches, measure| keys(sketches, measure, 1000);
        let one = |key: &str, rate| vec![(key.to_owned(), rate)];
        assert_eq!(
            by(&mut sketches, HotMeasure::Reads),
            [(HotSubject::Subtree, one("/a/b/c", 640)), (HotSubject::Path, one("/a/b/c/d", 640))]
        );
        assert_eq!(by(&mut sketches, HotMeasure::Bytes)[1].1, one("/a/b/c/d", 64_000));
        assert_eq!(by(&mut sketches, HotMeasure::Writes)[1].1, one("/w", 128));
        assert_eq!(by(&mut sketches, HotMeasure::Watches)[1].1, []);
        assert_eq!(
            by(&mut sketches, HotMeasure::Requests),
            [
                (HotSubject::Address, one("127.0.0.1", 704)),
                (HotSubject::User, one("ann", 704)),
                (HotSubject::Session, one("0x1f", 704))
            ]
        );
    }

    #[test]
    fn a_steady_load_has_its_rate_at_all_times() {
        let mut sketches = HotSketches::new(7);
        for second in 0..300 {
            sketches.record(&read("/steady"), CLIENT, 64, second * 1000);
            if second >= 20 {
                let rate =
                    sketches.tables(HotMeasure::Reads, 1, second * 1000 + 999)[1].entries[0].per_second;
                assert!((60.0..=68.0).contains(&rate), "{second}: {rate}");
            }
        }
    }

    #[test]
    fn an_old_load_is_forgotten() {
        let mut sketches = HotSketches::new(7);
        for _ in 0..1000 {
            sketches.record(&read("/old"), CLIENT, 64, 0);
        }
        sketches.record(&read("/new"), CLIENT, 64_000, 120_000);
        assert_eq!(keys(&mut sketches, HotMeasure::Reads, 120_000)[1].1[0].0, "/new");
        assert_eq!(keys(&mut sketches, HotMeasure::Reads, i64::MAX / 2)[1].1, []);
    }
}
