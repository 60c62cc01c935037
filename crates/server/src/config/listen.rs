//! Reads where clients connect: the port and address of the file, of the command line or of this server's own
//! member line, and the limits of that listener.

use std::net::SocketAddr;

use super::load::Surroundings;
use super::membership::{HostPort, Membership};
use super::reader::{Reader, Unit, parse_number};
use super::server_config::{BindAddress, ConfigSource, ListenConfig};
use super::sources::Setting;
use crate::host_address;

/// The client port of the file, or the one behind the `;` of this server's own member line.
pub(super) fn client_address(
    reader: &mut Reader<'_>,
    source: &ConfigSource,
    membership: &Membership,
    surroundings: &dyn Surroundings,
) -> BindAddress {
    let port = reader.number("clientPort", 0..=65535, Unit::Port).and_then(|port| u16::try_from(port).ok());
    // In the file 0 means "not set"; on the command line it lets the system choose.
    let port = port.filter(|&port| port > 0 || *source == ConfigSource::Arguments);
    let host = reader.get("clientPortAddress").filter(|setting| !setting.value.is_empty());
    let own = membership.my_id.and_then(|id| membership.members.get(&id)).and_then(|me| me.client.as_ref());
    let unset = BindAddress::AllInterfaces { port: 0 };
    let stated = match (port, host) {
        (Some(port), None) => Some(BindAddress::AllInterfaces { port }),
        (Some(port), Some(host)) => {
            Some(resolve(reader, "clientPortAddress", host, port, surroundings).unwrap_or(unset))
        }
        (None, Some(host)) => {
            let text = "clientPortAddress is set but clientPort is not; set both or neither";
            reader.findings.error(&host.origin, text);
            Some(unset)
        }
        (None, None) => None,
    };
    match (stated, own) {
        (Some(stated), None) => stated,
        (Some(stated), Some(own)) => agreed_address(reader, stated, own, surroundings),
        (None, Some(own)) => member_address(reader, own, surroundings).unwrap_or(unset),
        (None, None) => {
            // A wrong clientPort has been reported already.
            if reader.get("clientPort").is_none_or(|setting| parse_number(&setting.value) == Some(0)) {
                let text = "clientPort is not set; without it nobody can connect";
                reader.findings.error(&reader.origin("clientPort"), text);
            }
            unset
        }
    }
}

/// Both places name a client address: the ports must match, and the addresses unless the file says "all".
fn agreed_address(
    reader: &mut Reader<'_>,
    stated: BindAddress,
    own: &HostPort,
    surroundings: &dyn Surroundings,
) -> BindAddress {
    let Some(member) = member_address(reader, own, surroundings) else { return stated };
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
        reader.findings.error(&reader.origin("clientPort"), text);
    }
    stated
}

fn member_address(
    reader: &mut Reader<'_>,
    own: &HostPort,
    surroundings: &dyn Surroundings,
) -> Option<BindAddress> {
    let host = Setting { value: own.host.clone(), origin: reader.settings.whole.clone() };
    resolve(reader, "the client address of server.N", &host, own.port, surroundings)
}

fn resolve(
    reader: &mut Reader<'_>,
    what: &str,
    host: &Setting,
    port: u16,
    surroundings: &dyn Surroundings,
) -> Option<BindAddress> {
    let bare = host.value.trim_start_matches('[').trim_end_matches(']');
    let found = match host_address::literal(bare, port, |zone| surroundings.interface_index(zone)) {
        Some(Ok(address)) => Some(address),
        Some(Err(_)) => {
            let text = format!(
                "{what} = \"{}\" names a zone that is no network interface of this machine",
                host.value
            );
            reader.findings.error(&host.origin, text);
            return None;
        }
        None => surroundings.resolve(bare).ok().and_then(|addresses| {
            let addresses: Vec<_> =
                addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect();
            host_address::preferred(&addresses)
        }),
    };
    if found.is_none() {
        let text = format!("{what} = \"{}\" is neither an address nor a name that resolves", host.value);
        reader.findings.error(&host.origin, text);
    }
    found.map(BindAddress::Address)
}

/// Reads the limits of the client listener.
pub(super) fn listen(reader: &mut Reader<'_>, defaults: ListenConfig) -> ListenConfig {
    ListenConfig {
        client: defaults.client,
        backlog: reader.limit("clientPortListenBacklog", Unit::Count, defaults.backlog),
        max_connections_per_address: reader.limit(
            "maxClientCnxns",
            Unit::Count,
            defaults.max_connections_per_address,
        ),
        max_connections: reader.limit("maxCnxns", Unit::Count, defaults.max_connections),
        sessionless_timeout: reader.millis("nio.sessionlessCnxnTimeout", 1, defaults.sessionless_timeout),
        tcp_keep_alive: reader.loose_switch("clientTcpKeepAlive", defaults.tcp_keep_alive),
    }
}
