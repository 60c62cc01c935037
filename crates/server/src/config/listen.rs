//! Reads the client address from the file, the command line or this server's own `server.N` line,
//! and the limits of that listener.

use std::net::SocketAddr;

use super::load::SystemAccess;
use super::membership::{HostPort, MembershipConfig};
use super::server_config::{BindAddress, ConfigSource, ListenConfig};
use super::setting_reader::{NumberUnit, SettingReader, parse_number};
use super::sources::RawSetting;
use crate::ports::host_address;

/// The client port of the file, or the one behind the `;` of this server's own line.
pub(super) fn client_address(
    reader: &mut SettingReader<'_>,
    source: &ConfigSource,
    membership: &MembershipConfig,
    system: &dyn SystemAccess,
) -> Option<BindAddress> {
    let port =
        reader.number("clientPort", 0..=65535, NumberUnit::Port).and_then(|port| u16::try_from(port).ok());
    // In the file 0 means "not set"; on the command line the system chooses the port.
    let port = port.filter(|&port| port > 0 || *source == ConfigSource::Arguments);
    let host = reader.get("clientPortAddress").filter(|setting| !setting.value.is_empty());
    let own = membership.my_id.and_then(|id| membership.members.get(&id)).and_then(|me| me.client.as_ref());
    let unset = BindAddress::AllInterfaces { port: 0 };
    let stated = match (port, host) {
        (Some(port), None) => Some(BindAddress::AllInterfaces { port }),
        (Some(port), Some(host)) => {
            Some(resolve(reader, "clientPortAddress", host, port, system).unwrap_or(unset))
        }
        (None, Some(host)) => {
            let text = "clientPortAddress is set but clientPort is not; set both or neither";
            reader.diagnostics.error(&host.origin, text);
            Some(unset)
        }
        (None, None) => None,
    };
    match (stated, own) {
        (Some(stated), None) => Some(stated),
        (Some(stated), Some(own)) => Some(agreed_address(reader, stated, own, system)),
        (None, Some(own)) => member_address(reader, own, system),
        (None, None) => {
            let is_zero = |setting: &RawSetting| parse_number(&setting.value) == Some(0);
            let has_secure_port = reader.get("secureClientPort").is_some_and(|setting| !is_zero(setting));
            // A wrong clientPort has already been reported.
            if reader.get("clientPort").is_none_or(is_zero) && !has_secure_port {
                let text = "clientPort is not set; without it nobody can connect";
                reader.diagnostics.error(&reader.origin("clientPort"), text);
            }
            None
        }
    }
}

/// The address of the port for TLS only.
pub(super) fn secure_client_address(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
) -> Option<BindAddress> {
    let port = reader
        .number("secureClientPort", 0..=65535, NumberUnit::Port)
        .and_then(|port| u16::try_from(port).ok())
        .filter(|&port| port > 0);
    let host = reader.get("secureClientPortAddress").filter(|setting| !setting.value.is_empty());
    match (port, host) {
        (Some(port), None) => Some(BindAddress::AllInterfaces { port }),
        (Some(port), Some(host)) => resolve(reader, "secureClientPortAddress", host, port, system),
        (None, Some(host)) => {
            // A wrong secureClientPort has already been reported.
            if reader.get("secureClientPort").is_none_or(|setting| parse_number(&setting.value) == Some(0)) {
                let text = "secureClientPortAddress is set but secureClientPort is not; set both or neither";
                reader.diagnostics.error(&host.origin, text);
            }
            None
        }
        (None, None) => None,
    }
}

/// Merges two client addresses: the ports must match, and the addresses unless the file has a
/// wildcard.
fn agreed_address(
    reader: &mut SettingReader<'_>,
    stated: BindAddress,
    own: &HostPort,
    system: &dyn SystemAccess,
) -> BindAddress {
    let Some(member) = member_address(reader, own, system) else { return stated };
    let agree = match stated {
        BindAddress::AllInterfaces { port } => port == own.port,
        BindAddress::Address(address) if address.ip().is_unspecified() => address.port() == own.port,
        BindAddress::Address(_) => stated == member,
    };
    if !agree {
        let text = format!(
            "clientPort and clientPortAddress give {stated}, this server's server.N line gives {}:{}; \
             they must agree",
            own.host, own.port
        );
        reader.diagnostics.error(&reader.origin("clientPort"), text);
    }
    stated
}

fn member_address(
    reader: &mut SettingReader<'_>,
    own: &HostPort,
    system: &dyn SystemAccess,
) -> Option<BindAddress> {
    let host = RawSetting { value: own.host.clone(), origin: reader.settings.default_origin.clone() };
    resolve(reader, "the client address of server.N", &host, own.port, system)
}

pub(super) fn resolve(
    reader: &mut SettingReader<'_>,
    what: &str,
    host: &RawSetting,
    port: u16,
    system: &dyn SystemAccess,
) -> Option<BindAddress> {
    let bare = host.value.trim_start_matches('[').trim_end_matches(']');
    let found = match host_address::parse_literal(bare, port, |zone| system.interface_index(zone)) {
        Some(Ok(address)) => Some(address),
        Some(Err(_)) => {
            let text = format!(
                "{what} = \"{}\" names a zone that is no network interface of this machine",
                host.value
            );
            reader.diagnostics.error(&host.origin, text);
            return None;
        }
        None => system.resolve(bare).ok().and_then(|addresses| {
            let addresses: Vec<_> =
                addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
            host_address::prefer_ipv4(&addresses)
        }),
    };
    if found.is_none() {
        let text = format!("{what} = \"{}\" is neither an address nor a name that resolves", host.value);
        reader.diagnostics.error(&host.origin, text);
    }
    found.map(BindAddress::Address)
}

/// Reads the limits of the client listener.
pub(super) fn listen(reader: &mut SettingReader<'_>, defaults: ListenConfig) -> ListenConfig {
    ListenConfig {
        client: defaults.client,
        backlog: reader.limit("clientPortListenBacklog", NumberUnit::Count, defaults.backlog),
        max_connections_per_address: reader.limit(
            "maxClientCnxns",
            NumberUnit::Count,
            defaults.max_connections_per_address,
        ),
        max_connections: reader.limit("maxCnxns", NumberUnit::Count, defaults.max_connections),
        sessionless_timeout: reader.millis("nio.sessionlessCnxnTimeout", 1, defaults.sessionless_timeout),
        tcp_keep_alive: reader.loose_switch("clientTcpKeepAlive", defaults.tcp_keep_alive),
    }
}
