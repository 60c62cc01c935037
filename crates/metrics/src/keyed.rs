//! Summaries and counters by key, such as per learner or per namespace. Clients choose some keys, so their
//! number is bounded: further ones share the key `other`.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::counter::Counter;
use crate::summary::{Summary, SummarySnapshot};

/// Most keys of one set.
pub const KEYS_MAX: usize = 256;

/// The key of everything beyond the limit.
pub const OTHER_KEY: &str = "other";

type Entries<T> = RwLock<BTreeMap<Box<str>, Arc<T>>>;

fn entry<T: Default>(entries: &Entries<T>, key: &str) -> Arc<T> {
    let read = entries.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = read.get(key) {
        return found.clone();
    }
    drop(read);
    let mut write = entries.write().unwrap_or_else(PoisonError::into_inner);
    let has_room = write.len() < KEYS_MAX || write.contains_key(key);
    let key = if has_room { key } else { OTHER_KEY };
    write.entry(key.into()).or_default().clone()
}

fn all<T, R>(entries: &Entries<T>, value: impl Fn(&T) -> R) -> Vec<(Box<str>, R)> {
    let read = entries.read().unwrap_or_else(PoisonError::into_inner);
    read.iter().map(|(key, entry)| (key.clone(), value(entry))).collect()
}

/// Summaries by key.
#[derive(Debug, Default)]
pub struct KeyedSummaries(Entries<Summary>);

impl KeyedSummaries {
    /// The summary of a key. The caller may keep it and skip the lookup.
    pub fn of(&self, key: &str) -> Arc<Summary> {
        entry(&self.0, key)
    }

    /// All summaries in the order of their keys.
    pub fn snapshot(&self, now_ms: i64) -> Vec<(Box<str>, SummarySnapshot)> {
        all(&self.0, |summary| summary.snapshot(now_ms))
    }

    /// Begins anew for `mntr`.
    pub fn reset(&self) {
        all(&self.0, Summary::reset);
    }
}

/// Counters by key.
#[derive(Debug, Default)]
pub struct KeyedCounters(Entries<Counter>);

impl KeyedCounters {
    /// Adds one to the counter of a key.
    pub fn increment(&self, key: &str) {
        entry(&self.0, key).increment();
    }

    /// All counters in the order of their keys: since the start, and since the last reset.
    pub fn snapshot(&self) -> Vec<(Box<str>, (u64, u64))> {
        all(&self.0, |counter| (counter.total(), counter.since_reset()))
    }

    /// Begins anew for `mntr`.
    pub fn reset(&self) {
        all(&self.0, Counter::reset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_beyond_the_limit_share_one() {
        let counters = KeyedCounters::default();
        for number in 0..KEYS_MAX + 10 {
            counters.increment(&format!("{number:04}"));
        }
        counters.increment("0000");
        let now = counters.snapshot();
        assert_eq!(now.len(), KEYS_MAX + 1);
        assert_eq!(now[0], ("0000".into(), (2, 2)));
        assert_eq!(now[KEYS_MAX], (OTHER_KEY.into(), (10, 10)));
    }
}
