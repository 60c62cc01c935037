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
    let readers: Option<Vec<Id>> = identities(&setting.value).into_iter().map(|id| parse_id(&id)).collect();
    match readers.filter(|readers| readers.len() <= READERS_MAX) {
        Some(readers) => readers,
        None => {
            let allowed = "up to 64 identities as scheme:id, separated by commas, such as \
                           digest:app:Xk2b0s4=,ip:10.0.0.7, world:anyone or x509:CN=app,O=Example";
            reader.report_invalid(key, setting, allowed);
            Vec::new()
        }
    }
}

fn parse_id(text: &str) -> Option<Id> {
    match text.split_once(':') {
        Some((scheme, id)) if !scheme.is_empty() && !id.is_empty() => Some(Id::new(scheme, id)),
        Some(_) | None => None,
    }
}

/// The identities of a list. A comma inside the distinguished name of an `x509` identity belongs to it.
fn identities(list: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for piece in list.split(',') {
        match found.last_mut() {
            Some(name) if continues_name(name, piece) => {
                name.push(',');
                name.push_str(piece);
            }
            Some(_) | None => found.push(piece.to_owned()),
        }
    }
    found.into_iter().map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()).collect()
}

/// Whether a piece of the list continues the distinguished name before it. The next attribute has `=` before
/// any colon, an identity has a colon first, and a name escapes its own commas.
fn continues_name(name: &str, piece: &str) -> bool {
    let attribute = piece.split(':').next().unwrap_or_default();
    name.trim_start().starts_with("x509:") && (name.ends_with('\\') || attribute.contains('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_identities_but_not_the_parts_of_a_name() {
        let list =
            "digest:app:Xk2b0s4=, x509:CN=app,OU=a:b,O=Example\\, Inc:x,C=CH ,ip:10.0.0.7,,x509:CN=two,";
        let expected = [
            "digest:app:Xk2b0s4=",
            "x509:CN=app,OU=a:b,O=Example\\, Inc:x,C=CH",
            "ip:10.0.0.7",
            "x509:CN=two",
        ];
        assert_eq!(identities(list), expected);
        assert_eq!(parse_id("x509:CN=app,O=b"), Some(Id::new("x509", "CN=app,O=b")));
        assert_eq!(identities("ip:10.0.0.7,O=b"), ["ip:10.0.0.7", "O=b"]);
        assert!(identities("ip:10.0.0.7,O=b").iter().any(|id| parse_id(id).is_none()));
    }
}
