//! `leader`, `observers`, `voting_view` and `zabstate`.

use std::net::{IpAddr, SocketAddr};

use zebu_node::ServingMode;
use zebu_proto::ServerId;
use zebu_server::config::membership::{HostPort, PeerAddress, Role, ServerSpec};
use zebu_server::views::ServerViews;

use super::{AnswerError, Entries, entry};
use crate::json::Json;

pub(super) async fn leader(views: &ServerViews) -> Result<Entries, AnswerError> {
    let uninitialized = || AnswerError::Reported("server is not initialized".to_owned());
    let config = views.ensemble_config().ok_or_else(uninitialized)?;
    let core = views.core().await.ok_or(AnswerError::NotServing)?;
    let leader = core.leader.ok_or_else(uninitialized)?;
    let address = config.members.get(&leader).and_then(|member| member.addresses.first());
    Ok(vec![
        entry("is_leader", Json::Bool(views.serving_mode() == Some(ServingMode::Leader))),
        entry("leader_id", Json::Integer(leader.0)),
        entry("leader_ip", Json::text(address.map_or_else(String::new, |address| address.host.clone()))),
    ])
}

/// An observer whose connection has just ended is left out.
pub(super) async fn observers(views: &ServerViews) -> Result<Entries, AnswerError> {
    let core = views.core().await.ok_or(AnswerError::NotServing)?;
    let config = views.ensemble_config();
    let is_observer = |server: &ServerId| {
        let role = config.as_ref().and_then(|config| config.members.get(server)).map(|member| member.role);
        role == Some(Role::Observer)
    };
    let observers: Vec<_> = core.learners.iter().filter(|learner| is_observer(&learner.server)).collect();
    let synced = observers.iter().filter(|learner| learner.synced).count();
    let objects = observers.iter().filter_map(|learner| {
        let connection = learner.connection.as_ref()?;
        Some(Json::object([
            ("remote_socket_address", Json::text(format!("/{}", socket_address(connection.remote)))),
            ("sid", Json::Integer(learner.server.0)),
            ("established", Json::Integer(connection.established_ms)),
            ("queued_packets", Json::count(connection.queued_packets)),
            ("queued_packets_size", Json::count(connection.queued_bytes)),
            ("packets_received", Json::count(connection.received)),
            ("packets_sent", Json::count(connection.sent)),
            ("requests", Json::count(connection.requests)),
            ("last_zxid", Json::Integer(connection.last_zxid.0.max(learner.acked.0))),
        ]))
    });
    Ok(vec![
        entry("synced_observers", Json::count(synced)),
        entry("observers", Json::Array(objects.collect())),
    ])
}

pub(super) fn voting_view(views: &ServerViews) -> Entries {
    let members = views.ensemble_config().map(|config| config.members).unwrap_or_default();
    let voters = members.into_iter().filter(|(_, member)| member.role == Role::Participant);
    let objects = voters.map(|(id, member)| {
        let addresses = |port: fn(&PeerAddress) -> u16| {
            let texts =
                member.addresses.iter().map(|address| Json::Text(host_port(&address.host, port(address))));
            Json::Array(texts.collect())
        };
        let client = client_address(views, id, &member);
        let object = Json::object([
            ("server_addresses", addresses(|address| address.quorum_port)),
            ("election_addresses", addresses(|address| address.election_port)),
            ("client_address", Json::text(client)),
            ("learner_type", Json::text("participant")),
        ]);
        (id.0.to_string(), object)
    });
    vec![entry("current_config", Json::object(objects))]
}

/// The client address of a member: that of the config, or the own one of the file.
fn client_address(views: &ServerViews, id: ServerId, member: &ServerSpec) -> String {
    if let Some(HostPort { host, port }) = &member.client {
        return host_port(host, *port);
    }
    let config = views.config();
    match config.listen.client {
        Some(zebu_server::config::BindAddress::Address(address)) if views.server_id() == Some(id) => {
            host_port(&address.ip().to_string(), views.client_port().unwrap_or(address.port()))
        }
        Some(zebu_server::config::BindAddress::AllInterfaces { port }) if views.server_id() == Some(id) => {
            host_port("0.0.0.0", views.client_port().unwrap_or(port))
        }
        Some(_) | None => String::new(),
    }
}

pub(super) async fn zabstate(views: Option<&ServerViews>) -> Result<Entries, AnswerError> {
    let no_role = || vec![entry("voting", Json::Bool(false)), entry("zabstate", Json::text(""))];
    let Some(views) = views else { return Ok(no_role()) };
    let (Some(mode), Some(config), Some(me)) =
        (views.serving_mode(), views.ensemble_config(), views.server_id())
    else {
        return Ok(no_role());
    };
    let member = config.members.get(&me).or_else(|| views.config().membership.members.get(&me));
    let Some(member) = member else { return Ok(no_role()) };
    let zxid = views.last_zxid();
    let is_read_only = mode == ServingMode::ReadOnly;
    Ok(vec![
        entry("myid", Json::Integer(me.0)),
        entry("is_leader", Json::Bool(mode == ServingMode::Leader)),
        entry("quorum_address", multiple_addresses(member, |address| address.quorum_port)),
        entry("election_address", multiple_addresses(member, |address| address.election_port)),
        entry("client_address", Json::text(client_address(views, me, member))),
        entry("voting", Json::Bool(member.role == Role::Participant && !is_read_only)),
        entry("last_zxid", Json::text(format!("0x{:x}", zxid.0))),
        entry("zab_epoch", Json::Integer(zxid.0 >> 32)),
        entry("zab_counter", Json::Integer(zxid.0 & 0xffff_ffff)),
        entry("zabstate", Json::text(if is_read_only { "election" } else { "broadcast" })),
    ])
}

/// The ten fields of ZooKeeper's address object. The addresses are not tested for being reachable, because a
/// test takes a second each; they count as reachable.
fn multiple_addresses(member: &ServerSpec, port: fn(&PeerAddress) -> u16) -> Json {
    let texts = |host: fn(&PeerAddress) -> &str| {
        let texts =
            member.addresses.iter().map(|address| Json::Text(host_port(host(address), port(address))));
        Json::Array(texts.collect())
    };
    let own = || texts(|address| &address.host);
    let first = member.addresses.first();
    let one =
        || Json::text(first.map_or_else(String::new, |address| host_port(&address.host, port(address))));
    let ports = member.addresses.iter().map(|address| Json::Integer(i64::from(port(address))));
    let hosts = member.addresses.iter().map(|address| Json::text(&address.host));
    Json::object([
        ("empty", Json::Bool(member.addresses.is_empty())),
        ("all_addresses", own()),
        ("wildcard_addresses", texts(|_| "0.0.0.0")),
        ("all_ports", Json::Array(ports.collect())),
        ("all_host_strings", Json::Array(hosts.collect())),
        ("reachable_address", one()),
        ("all_reachable_addresses", own()),
        ("all_reachable_addresses_or_all", own()),
        ("reachable_or_one", one()),
        ("one", one()),
    ])
}

fn socket_address(address: SocketAddr) -> String {
    host_port(&address.ip().to_canonical().to_string(), address.port())
}

/// A host and a port as ZooKeeper writes them: IPv6 in brackets, without shortened groups.
fn host_port(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => {
            let groups: Vec<String> = ip.segments().iter().map(|group| format!("{group:x}")).collect();
            format!("[{}]:{port}", groups.join(":"))
        }
        Ok(IpAddr::V4(_)) | Err(_) => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_javas_form() {
        assert_eq!(host_port("127.0.0.1", 2181), "127.0.0.1:2181");
        assert_eq!(host_port("zk1.example", 2181), "zk1.example:2181");
        assert_eq!(host_port("::1", 2181), "[0:0:0:0:0:0:0:1]:2181");
    }
}
