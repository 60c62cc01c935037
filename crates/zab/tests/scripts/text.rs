//! Messages, actions and servers as text, and the arguments of commands.

use zebu_proto::quorum::{Notification, Packet, ServerState};
use zebu_proto::{ServerId, Zxid};
use zebu_zab::{Action, ConfigEffect, Configuration, DiskCommand, PeerEffect, ServingRole};

pub(crate) fn zxid(zxid: Zxid) -> String {
    match zxid.0 {
        -1 => "none".to_owned(),
        _ => format!("{}/{}", zxid.epoch(), zxid.counter()),
    }
}

/// The name of a packet, and the values that matter.
pub(crate) fn packet(packet: &Packet) -> (&'static str, String) {
    match packet {
        Packet::Request { .. } => ("REQUEST", String::new()),
        Packet::Proposal { zxid: at, .. } => ("PROPOSAL", zxid(*at)),
        Packet::Ack { zxid: at } => ("ACK", zxid(*at)),
        Packet::Commit { zxid: at } => ("COMMIT", zxid(*at)),
        Packet::Ping { zxid: at } => ("PING", zxid(*at)),
        Packet::PingReply { zxid: at, .. } => ("PINGREPLY", zxid(*at)),
        Packet::Revalidate { .. } | Packet::Revalidated { .. } => ("REVALIDATE", String::new()),
        Packet::Sync => ("SYNC", String::new()),
        Packet::Inform { zxid: at, .. } => ("INFORM", zxid(*at)),
        Packet::CommitAndActivate { zxid: at, designated_leader } => {
            ("COMMITANDACTIVATE", format!("{} leader {}", zxid(*at), designated_leader.0))
        }
        Packet::NewLeader { zxid: at, .. } => ("NEWLEADER", zxid(*at)),
        Packet::FollowerInfo { accepted, .. } => ("FOLLOWERINFO", format!("accepted {}", accepted.epoch())),
        Packet::UpToDate => ("UPTODATE", String::new()),
        Packet::Diff { zxid: at } => ("DIFF", zxid(*at)),
        Packet::Trunc { zxid: at } => ("TRUNC", zxid(*at)),
        Packet::Snap { zxid: at } => ("SNAP", zxid(*at)),
        Packet::ObserverInfo { accepted, .. } => ("OBSERVERINFO", format!("accepted {}", accepted.epoch())),
        Packet::LeaderInfo { zxid: at, .. } => ("LEADERINFO", format!("epoch {}", at.epoch())),
        Packet::AckEpoch { last, current_epoch } => {
            ("ACKEPOCH", format!("last {} currentEpoch {current_epoch}", zxid(*last)))
        }
        Packet::InformAndActivate { zxid: at, designated_leader, .. } => {
            ("INFORMANDACTIVATE", format!("{} leader {}", zxid(*at), designated_leader.0))
        }
    }
}

pub(crate) fn election_state(state: ServerState) -> &'static str {
    match state {
        ServerState::Looking => "LOOKING",
        ServerState::Following => "FOLLOWING",
        ServerState::Leading => "LEADING",
        ServerState::Observing => "OBSERVING",
    }
}

pub(crate) fn vote(vote: &Notification) -> String {
    let state = election_state(vote.state);
    let candidate = match vote.leader {
        ServerId(i64::MIN) => "no server".to_owned(),
        ServerId(id) => format!("{id} at {} epoch {}", zxid(vote.zxid), vote.epoch),
    };
    format!("{state} for {candidate} round {}", vote.round)
}

pub(crate) fn config(configuration: &Configuration) -> String {
    let ids = |servers: &mut dyn Iterator<Item = ServerId>| {
        servers.map(|server| server.0.to_string()).collect::<Vec<_>>().join(",")
    };
    let voters = ids(&mut configuration.voters());
    let observers = ids(&mut configuration.observers().into_iter());
    format!("config {} voters={voters} observers={observers}", zxid(configuration.zxid()))
}

/// An action in a line. The ensemble itself shows what happens to links.
pub(crate) fn action(action: &Action) -> Option<String> {
    Some(match action {
        Action::Peer(PeerEffect::Notify { to, notification }) => {
            format!("votes to {}: {}", to.0, vote(notification))
        }
        Action::Peer(PeerEffect::Dial { to, .. }) => format!("dials {}", to.0),
        Action::Peer(PeerEffect::PauseReading { .. }) => "stops reading".to_owned(),
        Action::Peer(PeerEffect::ResumeReading { .. }) => "reads again".to_owned(),
        Action::Peer(PeerEffect::ReadLog { after, up_to, .. }) => {
            format!("reads its log after {} up to {}", zxid(*after), zxid(*up_to))
        }
        Action::Peer(PeerEffect::LoadReceived { entries, .. }) => {
            format!("applies {} transactions to the snapshot", entries.len())
        }
        Action::Peer(
            PeerEffect::Send { .. }
            | PeerEffect::Close { .. }
            | PeerEffect::StreamSnapshot { .. }
            | PeerEffect::DiscardSnapshot { .. },
        ) => return None,
        Action::Disk(command) => disk(command),
        Action::Config(ConfigEffect::PersistProposed { configuration }) => {
            format!("keeps {}", config(configuration))
        }
        Action::Config(ConfigEffect::LearnAddresses { configuration }) => {
            format!("learns {}", config(configuration))
        }
        Action::Config(ConfigEffect::Activate { configuration }) => {
            format!("activates {}", config(configuration))
        }
        Action::Report(warning) => format!("warns: {warning}"),
        Action::Append { entry, .. } => format!("appends {}", zxid(entry.zxid)),
        Action::Deliver(entry) => format!("delivers {}", zxid(entry.zxid)),
        Action::Load(entry) => format!("loads {}", zxid(entry.zxid)),
        Action::Serve(serving) => format!("serves as {}", role(*serving)),
        Action::StopServing => "stops serving".to_owned(),
        Action::FromLearner { server, packet: it, .. } => {
            format!("passes {} of {} to the node", packet(it).0, server.0)
        }
        Action::LearnerLost { .. } => "loses a learner".to_owned(),
        Action::FromLeader { packet: it, .. } => format!("passes {} to the node", packet(it).0),
    })
}

fn disk(command: &DiskCommand) -> String {
    match command {
        DiskCommand::Truncate { to, .. } => format!("truncates its log to {}", zxid(*to)),
        DiskCommand::InstallSnapshot { zxid: at, .. } => format!("installs the snapshot {}", zxid(*at)),
        DiskCommand::Quarantine { .. } => "moves its data aside".to_owned(),
        DiskCommand::MarkTrusted { .. } => "marks its data as trusted".to_owned(),
        DiskCommand::SaveAcceptedEpoch { epoch, .. } => format!("saves acceptedEpoch {epoch}"),
        DiskCommand::SaveCurrentEpoch { epoch, .. } => format!("saves currentEpoch {epoch}"),
    }
}

pub(crate) fn role(serving: ServingRole) -> String {
    match serving {
        ServingRole::Leading { epoch } => format!("leader in epoch {epoch}"),
        ServingRole::Following { leader, epoch } => format!("follower of {} in epoch {epoch}", leader.0),
        ServingRole::Observing { leader, epoch } => format!("observer of {} in epoch {epoch}", leader.0),
    }
}

pub(crate) fn parse_zxid(text: &str) -> Zxid {
    let (epoch, counter) = text.split_once('/').unwrap_or_else(|| panic!("{text} is not epoch/counter"));
    Zxid::new(epoch.parse().unwrap(), counter.parse().unwrap())
}

pub(crate) fn parse_server(text: &str) -> ServerId {
    ServerId(text.parse().unwrap_or_else(|_| panic!("{text} is not a server")))
}

/// The value of `name=value` among the arguments.
pub(crate) fn value<'a>(arguments: &[&'a str], name: &str) -> Option<&'a str> {
    arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='))
}

/// The servers of `name=1,2,3`; none if it is missing.
pub(crate) fn servers(arguments: &[&str], name: &str) -> Vec<ServerId> {
    value(arguments, name).map_or(Vec::new(), |list| list.split(',').map(parse_server).collect())
}
