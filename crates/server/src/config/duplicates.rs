//! Member lines that contradict each other: two lines for one server, or two servers at one place. ZooKeeper takes them
//! without a word; they are warnings.

use std::collections::BTreeMap;

use zebu_proto::ServerId;

use super::ensemble::member_number;
use super::membership::Membership;
use super::reader::Reader;
use super::sources::Setting;

/// Warns of what is there twice.
pub(super) fn check(reader: &mut Reader<'_>, lines: &BTreeMap<String, Setting>, membership: &Membership) {
    let mut keys: BTreeMap<ServerId, &str> = BTreeMap::new();
    for (key, setting) in lines {
        let Some(id) = member_number(key) else { continue };
        if let Some(earlier) = keys.insert(id, key) {
            let text = format!("{key} is the same server as {earlier}; one of the two lines is lost");
            reader.findings.warn(&setting.origin, text);
        }
    }
    let mut places: BTreeMap<(&str, u16), ServerId> = BTreeMap::new();
    for (&id, member) in &membership.members {
        let Some(setting) = keys.get(&id).and_then(|&key| lines.get(key)) else { continue };
        for address in &member.addresses {
            for port in [address.quorum_port, address.election_port] {
                let Some(other) = places.insert((&address.host, port), id) else { continue };
                let text = format!(
                    "server.{} and server.{} both listen on {}:{port}; only one of them can",
                    other.0, id.0, address.host
                );
                reader.findings.warn(&setting.origin, text);
                break;
            }
        }
    }
}
