//! Contradicting `server.N` lines: two lines for one server, or two servers at one address.
//! ZooKeeper accepts them silently; Zebu warns.

use std::collections::BTreeMap;

use zebu_proto::ServerId;

use super::ensemble::server_number;
use super::membership::MembershipConfig;
use super::setting_reader::SettingReader;
use super::sources::RawSetting;

/// Warns of duplicate servers and addresses.
pub(super) fn warn_about_duplicates(
    reader: &mut SettingReader<'_>,
    lines: &BTreeMap<String, RawSetting>,
    membership: &MembershipConfig,
) {
    let mut keys: BTreeMap<ServerId, &str> = BTreeMap::new();
    for (key, setting) in lines {
        let Some(id) = server_number(key) else { continue };
        if let Some(earlier) = keys.insert(id, key) {
            let text = format!("{key} is the same server as {earlier}; one of the two lines is lost");
            reader.diagnostics.warn(&setting.origin, text);
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
                reader.diagnostics.warn(&setting.origin, text);
                break;
            }
        }
    }
}
