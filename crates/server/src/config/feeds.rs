//! Keys of feeds: how many clients may have, and who may read the history.

use zebu_proto::Id;

use super::setting_reader::{NumberUnit, SettingReader};

/// Feeds of a server.
const FEEDS_DEFAULT: u32 = 64;

/// Identities in `feed.readers`.
const READERS_MAX: usize = 64;

/// Settings of feeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedConfig {
    /// `feed.max`: feeds that the clients of this server may have; zero turns feeds off.
    pub feeds_max: u32,
    /// `feed.readers`: identities that may open feeds, besides the super user.
    pub readers: Vec<Id>,
}

impl Default for FeedConfig {
    fn default() -> FeedConfig {
        FeedConfig { feeds_max: FEEDS_DEFAULT, readers: Vec::new() }
    }
}

pub(super) fn read_feeds(reader: &mut SettingReader<'_>) -> FeedConfig {
    let feeds_max = reader.count("feed.max", 0, NumberUnit::Count, FEEDS_DEFAULT);
    FeedConfig { feeds_max, readers: read_readers(reader) }
}

fn read_readers(reader: &mut SettingReader<'_>) -> Vec<Id> {
    let key = "feed.readers";
    let Some(setting) = reader.get(key) else { return Vec::new() };
    let listed = setting.value.split(',').map(str::trim).filter(|id| !id.is_empty());
    let readers: Option<Vec<Id>> = listed
        .map(|id| match id.split_once(':') {
            Some((scheme, id)) if !scheme.is_empty() && !id.is_empty() => Some(Id::new(scheme, id)),
            Some(_) | None => None,
        })
        .collect();
    match readers.filter(|readers| readers.len() <= READERS_MAX) {
        Some(readers) => readers,
        None => {
            let allowed = "up to 64 identities as scheme:id, separated by commas, such as \
                           digest:app:Xk2b0s4=,ip:10.0.0.7 or world:anyone";
            reader.report_invalid(key, setting, allowed);
            Vec::new()
        }
    }
}
