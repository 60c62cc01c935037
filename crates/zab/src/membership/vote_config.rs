//! The proposed config in a vote: comment lines after the committed config, which ZooKeeper skips. Servers
//! that lack the proposal learn the addresses of possible candidates from it.

use super::Configuration;

/// The prefix of each line of the proposed config.
const PROPOSED_PREFIX: &str = "#proposed ";

/// The config text of a vote: the committed config and the proposed one.
pub fn vote_config_text(committed: &str, proposed: &str) -> Box<str> {
    let mut text = committed.to_owned();
    for line in proposed.lines() {
        text.extend(["\n", PROPOSED_PREFIX, line]);
    }
    text.into_boxed_str()
}

/// The proposed config in a vote. An unreadable one does not invalidate the vote.
pub(super) fn proposed_config_in(text: &str) -> Option<Configuration> {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(PROPOSED_PREFIX)).collect();
    if lines.is_empty() {
        return None;
    }
    Configuration::parse(&lines.join("\n")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED: &str = "server.1=a:1:2:participant;0.0.0.0:3\nversion=100000000";
    const PROPOSED: &str =
        "server.1=a:1:2:participant;0.0.0.0:3\nserver.2=b:1:2:participant\nversion=100000005";

    #[test]
    fn both_are_told_and_only_one_counts() {
        let text = vote_config_text(COMMITTED, PROPOSED);
        assert_eq!(Configuration::parse(&text), Configuration::parse(COMMITTED));
        assert_eq!(Configuration::version_of(&text), Some(0x1_0000_0000));
        assert_eq!(proposed_config_in(&text), Configuration::parse(PROPOSED).ok());
    }

    #[test]
    fn most_votes_speak_of_none_and_some_cannot_be_read() {
        assert_eq!(proposed_config_in(COMMITTED), None);
        assert_eq!(proposed_config_in(&vote_config_text(COMMITTED, "server.x=?")), None);
    }
}
