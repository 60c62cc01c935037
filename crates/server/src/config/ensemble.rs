//! Reads the membership of a configuration and checks its consistency: servers, groups, weights,
//! the dynamic file, `myid`, and whether it is an ensemble.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use zebu_proto::ServerId;
use zebu_zab::membership::{Groups, MultiAddress, NO_ID, parse_role, parse_server_spec};

use super::diagnostics::SettingOrigin;
use super::duplicates;
use super::load::SystemAccess;
use super::membership::{DeploymentMode, MembershipConfig, QuorumRuleConfig, Role, ServerSpec};
use super::observers::read_observers;
use super::peer_config::read_peers;
use super::properties;
use super::protection;
use super::setting_reader::{NumberUnit, SettingReader};
use super::sources::RawSetting;

/// The largest id that leaves room for the TTL marker in the top byte of an owner.
const MAX_ID_WITH_TTL: i64 = 254;
/// The id becomes the top byte of session ids.
const MAX_ID: i64 = 255;

/// Reads all settings of the ensemble.
pub(super) fn read_membership(
    reader: &mut SettingReader<'_>,
    data_dir: &Path,
    system: &dyn SystemAccess,
) -> MembershipConfig {
    let mut membership = MembershipConfig {
        standalone_enabled: reader.strict_switch("standaloneEnabled", true),
        listen_on_all_addresses: reader.strict_switch("quorumListenOnAllIPs", false),
        init_limit: ticks(reader, "initLimit"),
        sync_limit: ticks(reader, "syncLimit"),
        connect_limit: ticks(reader, "connectToLearnerMasterLimit"),
        leader_serves: !reader.is_keyword("leaderServes", "no", "yes"),
        observers: read_observers(reader),
        peers: read_peers(reader),
        ..MembershipConfig::default()
    };
    read_peer_type(reader, &mut membership);
    read_election_algorithm(reader);
    let lines = member_lines(reader, &mut membership, system);
    let unreadable = read_members(reader, &lines, &mut membership);
    duplicates::warn_about_duplicates(reader, &lines, &membership);
    read_quorum_rule(reader, &lines, &mut membership);
    read_my_id(reader, data_dir, system, &mut membership);
    membership.deployment = choose_deployment(reader, &membership, &unreadable);
    if membership.is_ensemble() {
        check_ensemble(reader, data_dir, &membership, &unreadable);
    }
    warn_about_role(reader, &membership);
    membership
}

/// A limit in ticks; 0 means not set.
fn ticks(reader: &mut SettingReader<'_>, key: &str) -> Option<u32> {
    Some(reader.count(key, 0, NumberUnit::Count, 0)).filter(|&ticks| ticks > 0)
}

fn read_peer_type(reader: &mut SettingReader<'_>, membership: &mut MembershipConfig) {
    if let Some(setting) = reader.get("peerType") {
        membership.peer_type = parse_role(&setting.value);
        if membership.peer_type.is_none() {
            reader.report_invalid("peerType", setting, "participant or observer");
        }
    }
}

fn read_election_algorithm(reader: &mut SettingReader<'_>) {
    if let Some(setting) = reader.get("electionAlg")
        && setting.value != "3"
    {
        reader.report_invalid("electionAlg", setting, "only 3");
    }
}

/// The `server.*`, `group*` and `weight*` settings, from the static or from the dynamic file.
fn member_lines(
    reader: &mut SettingReader<'_>,
    membership: &mut MembershipConfig,
    system: &dyn SystemAccess,
) -> BTreeMap<String, RawSetting> {
    let in_static: BTreeMap<String, RawSetting> = reader
        .settings
        .values
        .iter()
        .filter(|(key, _)| is_member_key(key))
        .map(|(key, setting)| (key.clone(), setting.clone()))
        .collect();
    let Some(setting) = reader.get("dynamicConfigFile") else { return in_static };
    for (key, line) in &in_static {
        let text = format!("{key} must be in the dynamic file {}, not here", setting.value);
        reader.diagnostics.error(&line.origin, text);
    }
    let path = PathBuf::from(&setting.value);
    membership.version = version_of_name(&setting.value);
    membership.dynamic_file = Some(path.clone());
    let bytes = match system.read(&path) {
        Ok(bytes) => bytes,
        Err(error) => {
            let text = format!("dynamicConfigFile {} cannot be read: {error}", path.display());
            reader.diagnostics.error(&setting.origin, text);
            return BTreeMap::new();
        }
    };
    read_dynamic_file(reader, &path, &bytes)
}

fn read_dynamic_file(
    reader: &mut SettingReader<'_>,
    path: &Path,
    bytes: &[u8],
) -> BTreeMap<String, RawSetting> {
    let at = |line| SettingOrigin::Line { file: path.to_owned(), line };
    let entries = match properties::parse_properties(&properties::decode_latin1(bytes)) {
        Ok(entries) => entries,
        Err(error) => {
            reader.diagnostics.error(&at(error.line), error.to_string());
            return BTreeMap::new();
        }
    };
    let mut lines = BTreeMap::new();
    for entry in entries {
        let origin = at(entry.line);
        if is_member_key(&entry.key) {
            lines.insert(entry.key, RawSetting { value: entry.value, origin });
        } else if entry.key == "version" {
            let text = "version does not belong into the dynamic file; it is part of the file's name";
            reader.diagnostics.error(&origin, text);
        } else {
            let text = format!(
                "{} does not belong into the dynamic file; allowed: server.*, group.*, weight.*",
                entry.key
            );
            reader.diagnostics.error(&origin, text);
        }
    }
    lines
}

/// The hexadecimal suffix of the file name after the last dot, or 0.
fn version_of_name(name: &str) -> u64 {
    let end = name.rsplit_once('.').map_or("", |(_, end)| end);
    if end.starts_with('+') { 0 } else { u64::from_str_radix(end, 16).unwrap_or(0) }
}

/// Groups and weights are recognised by their prefix alone, as in ZooKeeper.
fn is_member_key(key: &str) -> bool {
    key.starts_with("server.") || key.starts_with("group") || key.starts_with("weight")
}

/// The origin of a list of servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerListSource {
    /// Written by an operator.
    Handwritten,
    /// Committed by the ensemble.
    Committed,
}

/// Reads the `server.N` lines. Returns the keys of unreadable ones, which have been reported.
fn read_members(
    reader: &mut SettingReader<'_>,
    lines: &BTreeMap<String, RawSetting>,
    membership: &mut MembershipConfig,
) -> BTreeSet<String> {
    let mut unreadable = BTreeSet::new();
    let allowed = membership.peers.address_support;
    // The servers write a file with a version when its config is committed, so all of them must
    // start with it.
    let list = match membership.dynamic_file.is_some() && membership.version != 0 {
        true => ServerListSource::Committed,
        false => ServerListSource::Handwritten,
    };
    let accepted = if list == ServerListSource::Committed { MultiAddress::Enabled } else { allowed };
    for (key, setting) in lines {
        let Some(number) = key.strip_prefix("server.") else { continue };
        let Ok(id) = number.parse::<i64>() else {
            let text = format!("{key} is not valid; allowed: server.N with a whole number N");
            reader.diagnostics.error(&setting.origin, text);
            unreadable.insert(key.clone());
            continue;
        };
        match parse_server_spec(&setting.value, accepted) {
            Ok(member) => {
                let line = ServerLine { key, setting, member: &member };
                check_member(reader, line, allowed, list);
                membership.members.insert(ServerId(id), member);
            }
            Err(why) => {
                let text = format!("{key} = \"{}\" is not valid: {why}", setting.value);
                reader.diagnostics.error(&setting.origin, text);
                unreadable.insert(key.clone());
            }
        }
    }
    unreadable
}

/// A `server.N` line and its meaning.
struct ServerLine<'a> {
    key: &'a str,
    setting: &'a RawSetting,
    member: &'a ServerSpec,
}

/// Reports unsupported parts of a line: an error in a handwritten file, a warning in a committed
/// config.
fn check_member(
    reader: &mut SettingReader<'_>,
    line: ServerLine<'_>,
    allowed: MultiAddress,
    list: ServerListSource,
) {
    let ServerLine { key, setting, member } = line;
    let several = member.addresses.len() > 1;
    if list == ServerListSource::Committed && several && allowed == MultiAddress::Disabled {
        let text = format!(
            "{key} has several addresses although multiAddress.enabled is not true; all of them are used. Set \
             multiAddress.enabled=true on all servers, or give {key} one address with reconfig"
        );
        reader.diagnostics.warn(&setting.origin, text);
    }
    if member.secure_client.is_none() {
        return;
    }
    if list == ServerListSource::Committed {
        let text = format!("the TLS client port of {key} is not opened: this version has no TLS");
        reader.diagnostics.warn(&setting.origin, text);
    } else {
        let what = format!("{key} (its TLS client port)");
        let missing = reader.settings.protection_policy;
        protection::report_unmet(missing, &setting.origin, &what, reader.diagnostics);
    }
}

fn read_quorum_rule(
    reader: &mut SettingReader<'_>,
    lines: &BTreeMap<String, RawSetting>,
    membership: &mut MembershipConfig,
) {
    if let Some(oracle) = reader.get("oraclePath") {
        membership.quorum_rule = QuorumRuleConfig::Oracle(PathBuf::from(&oracle.value));
        return;
    }
    let mut group_of = BTreeMap::new();
    let mut weight_of = BTreeMap::new();
    let mut hierarchical = None;
    for (key, setting) in lines.iter().filter(|(key, _)| !key.starts_with("server.")) {
        hierarchical.get_or_insert(setting.origin.clone());
        let number = key.split_once('.').and_then(|(_, number)| number.parse::<i64>().ok());
        let Some(number) = number else {
            let text = format!("{key} is not valid; allowed: group.N and weight.N");
            reader.diagnostics.error(&setting.origin, text);
            continue;
        };
        if key.starts_with("weight") {
            match setting.value.parse::<i64>() {
                Ok(weight) => drop(weight_of.insert(ServerId(number), weight)),
                Err(_) => reader.report_invalid(key, setting, "a whole number"),
            }
            continue;
        }
        for member in setting.value.split(':') {
            let Ok(id) = member.trim().parse::<i64>() else {
                reader.report_invalid(key, setting, "server numbers separated by colons, as in 1:2:3");
                break;
            };
            if group_of.insert(ServerId(id), number).is_some() {
                reader.diagnostics.error(&setting.origin, format!("Server {id} is in multiple groups"));
            }
        }
    }
    let Some(origin) = hierarchical else { return };
    let mut groups = Groups { group_of, weight_of };
    groups.set_default_weights(&membership.members);
    check_groups(reader, &origin, &groups, membership);
    let Groups { group_of, weight_of } = groups;
    membership.quorum_rule = QuorumRuleConfig::Hierarchical { group_of, weight_of };
}

fn check_groups(
    reader: &mut SettingReader<'_>,
    origin: &SettingOrigin,
    groups: &Groups,
    membership: &MembershipConfig,
) {
    let participants = membership.members.iter().filter(|(_, member)| member.role == Role::Participant);
    let voters: BTreeSet<ServerId> = participants.map(|(id, _)| *id).collect();
    let mut alone = voters.iter().filter(|id| !groups.group_of.contains_key(id)).peekable();
    if alone.peek().is_some() {
        alone.for_each(|id| reader.diagnostics.error(origin, format!("Server {} is not in a group", id.0)));
    } else if let Err(why) = groups.hierarchy(&voters) {
        reader.diagnostics.error(origin, why.to_string());
    }
}

/// Reads the first line of `myid`, not trimmed. A standalone server needs no such file.
fn read_my_id(
    reader: &mut SettingReader<'_>,
    data_dir: &Path,
    system: &dyn SystemAccess,
    membership: &mut MembershipConfig,
) {
    let path = data_dir.join("myid");
    let bytes = match system.read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            return reader.diagnostics.error(&SettingOrigin::File(path), format!("cannot be read: {error}"));
        }
    };
    let text = properties::decode_latin1(&bytes);
    let line = text.split(['\n', '\r']).next().unwrap_or_default();
    let Ok(id) = line.parse::<i64>() else {
        let text = format!("serverid \"{line}\" is not a number; the file must hold nothing else, no blank");
        return reader.diagnostics.error(&SettingOrigin::File(path), text);
    };
    if id == -1 {
        let text =
            "serverid -1 stands for a missing file in ZooKeeper, which does not start with it; use 1 to 255";
        reader.diagnostics.error(&SettingOrigin::File(path), text);
    } else if id > MAX_ID_WITH_TTL && reader.loose_switch("extendedTypesEnabled", false) {
        let text = format!("serverid {id} is too large while extendedTypesEnabled=true; allowed: 1 to 254");
        reader.diagnostics.error(&SettingOrigin::File(path), text);
    } else if !(1..=MAX_ID).contains(&id) {
        let text = format!("serverid {id} does not fit into session ids; use 1 to {MAX_ID}");
        reader.diagnostics.warn(&SettingOrigin::File(path), text);
    }
    membership.my_id = Some(ServerId(id));
}

/// The number N of a `server.N` key.
pub(super) fn server_number(key: &str) -> Option<ServerId> {
    key.strip_prefix("server.")?.parse().ok().map(ServerId)
}

/// Chooses between standalone and ensemble. Unreadable lines count as participants. They suppress
/// errors about the count, because they have been reported.
fn choose_deployment(
    reader: &mut SettingReader<'_>,
    membership: &MembershipConfig,
    unreadable: &BTreeSet<String>,
) -> DeploymentMode {
    if !unreadable.is_empty() {
        let numbered = unreadable.iter().filter(|key| server_number(key).is_some()).count();
        return if membership.members.len() + numbered > 1 {
            DeploymentMode::Ensemble
        } else {
            DeploymentMode::Standalone
        };
    }
    let participants = membership.members.values().filter(|member| member.role == Role::Participant).count();
    let observers = membership.members.len() - participants;
    let origin = reader.settings.default_origin.clone();
    let diagnostics = &mut *reader.diagnostics;
    match (participants, membership.standalone_enabled) {
        (0, true) => {
            if observers > 0 {
                diagnostics.error(&origin, "Observers w/o participants is an invalid configuration");
            }
            DeploymentMode::Standalone
        }
        (0, false) => {
            let text = "standaloneEnabled = false then number of participants should be >0";
            diagnostics.error(&origin, text);
            DeploymentMode::Standalone
        }
        (1, true) => {
            if observers > 0 {
                diagnostics.error(&origin, "Observers w/o quorum is an invalid configuration");
            } else {
                diagnostics.warn(&origin, "only one server is listed, so it runs standalone");
            }
            DeploymentMode::Standalone
        }
        (2, _) => {
            diagnostics
                .warn(&origin, "two servers tolerate no failure; three is the smallest useful ensemble");
            DeploymentMode::Ensemble
        }
        (count, _) => {
            if count % 2 == 0 {
                let text = format!("{count} servers tolerate no more failures than {}", count - 1);
                diagnostics.warn(&origin, text);
            }
            DeploymentMode::Ensemble
        }
    }
}

fn check_ensemble(
    reader: &mut SettingReader<'_>,
    data_dir: &Path,
    membership: &MembershipConfig,
    unreadable: &BTreeSet<String>,
) {
    let origin = reader.settings.default_origin.clone();
    for (key, limit) in [("initLimit", membership.init_limit), ("syncLimit", membership.sync_limit)] {
        if limit.is_none() {
            reader.diagnostics.error(&reader.origin(key), format!("{key} is not set; an ensemble needs it"));
        }
    }
    let path = data_dir.join("myid");
    match membership.my_id {
        None => {
            let text = "myid file is missing; it must hold the number N of this server's server.N line";
            reader.diagnostics.error(&SettingOrigin::File(path), text);
        }
        // Reported when the file was read.
        Some(NO_ID) => {}
        // Its line may be one of the unreadable ones.
        Some(_) if !unreadable.is_empty() => {}
        Some(id) if !membership.members.contains_key(&id) => {
            let listed: Vec<String> = membership.members.keys().map(|id| id.0.to_string()).collect();
            let text = format!("My id {} not in the peer list; listed: {}", id.0, listed.join(", "));
            reader.diagnostics.error(&SettingOrigin::File(path), text);
        }
        Some(_) => {}
    }
    if let QuorumRuleConfig::Oracle(path) = &membership.quorum_rule {
        let text = format!("oraclePath {} has no effect: this version asks no oracle", path.display());
        reader.diagnostics.error(&origin, text);
    }
}

fn warn_about_role(reader: &mut SettingReader<'_>, membership: &MembershipConfig) {
    let member = membership.my_id.and_then(|id| membership.members.get(&id));
    if let (Some(said), Some(member)) = (membership.peer_type, member)
        && said != member.role
    {
        let text = "peerType differs from the role in this server's server.N line, which counts";
        reader.diagnostics.warn(&reader.origin("peerType"), text);
    }
}
