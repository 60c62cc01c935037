//! What a vote says of a configuration that was only proposed: beside the one in effect, in comment lines that
//! ZooKeeper skips. Who does not know of the proposal learns where the servers are for whom others may vote.

use super::Configuration;

/// Begins each line of it.
const MARK: &str = "#proposed ";

/// The text of a vote: the configuration in effect, and the one that was proposed.
pub fn vote_text(committed: &str, proposed: &str) -> Box<str> {
    let mut text = committed.to_owned();
    for line in proposed.lines() {
        text.extend(["\n", MARK, line]);
    }
    text.into_boxed_str()
}

/// What a vote says was proposed; a vote is good even if that cannot be read.
pub(super) fn proposed_in(text: &str) -> Option<Configuration> {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(MARK)).collect();
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
        let text = vote_text(COMMITTED, PROPOSED);
        assert_eq!(Configuration::parse(&text), Configuration::parse(COMMITTED));
        assert_eq!(Configuration::version_of(&text), Some(0x1_0000_0000));
        assert_eq!(proposed_in(&text), Configuration::parse(PROPOSED).ok());
    }

    #[test]
    fn most_votes_speak_of_none_and_some_cannot_be_read() {
        assert_eq!(proposed_in(COMMITTED), None);
        assert_eq!(proposed_in(&vote_text(COMMITTED, "server.x=?")), None);
    }
}
