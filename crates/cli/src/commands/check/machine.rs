//! What of this machine would keep a configured server from serving: ports, names, the data directory. It looks and
//! changes nothing; a server may be running on all of it.

use std::fmt;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};

use zebu_server::config::ServerConfig;

/// One thing that was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// It keeps the server from serving.
    Obstacle(String),
    /// It does so only while it lasts, or is worth knowing.
    Remark(String),
}

impl Notice {
    pub(super) fn text(&self) -> &str {
        match self {
            Notice::Obstacle(text) | Notice::Remark(text) => text,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Notice::Obstacle(_) => "obstacle",
            Notice::Remark(_) => "note",
        };
        write!(formatter, "{kind}: {}", self.text())
    }
}

/// Looks at everything that a configuration names.
pub(super) fn look(config: &ServerConfig) -> Vec<Notice> {
    let mut notices = Vec::new();
    look_at_ports(config, &mut notices);
    look_at_directories(config, &mut notices);
    notices
}

fn look_at_ports(config: &ServerConfig, notices: &mut Vec<Notice>) {
    let membership = &config.membership;
    let own =
        membership.my_id.and_then(|id| membership.members.get(&id)).filter(|_| membership.is_ensemble());
    for address in own.iter().flat_map(|member| &member.addresses) {
        let everywhere = membership.listen_on_all_addresses;
        let host = if everywhere { "0.0.0.0" } else { address.host.as_str() };
        for (what, port) in [("quorum", address.quorum_port), ("election", address.election_port)] {
            notices.extend(bind(host, port, what));
        }
    }
    for (id, member) in &membership.members {
        let others = member.addresses.iter().filter(|_| Some(*id) != membership.my_id);
        for address in others {
            if let Err(error) = (address.host.as_str(), 0).to_socket_addrs() {
                notices.push(Notice::Obstacle(format!(
                    "server.{}: the name {} has no address ({error}); correct the line, or the names of this machine",
                    id.0, address.host
                )));
            }
        }
    }
}

/// Whether a port could be opened now.
fn bind(host: &str, port: u16, what: &str) -> Option<Notice> {
    let error = match TcpListener::bind((host, port)) {
        Ok(_) => return None,
        Err(error) => error,
    };
    Some(match error.kind() {
        io::ErrorKind::AddrInUse => Notice::Remark(format!(
            "the {what} port {host}:{port} is in use; stop the server that this one is to replace before you start it"
        )),
        io::ErrorKind::AddrNotAvailable => Notice::Obstacle(format!(
            "{host} in this server's own line is no address of this machine; correct the line, or set \
             quorumListenOnAllIPs=true"
        )),
        io::ErrorKind::PermissionDenied => Notice::Obstacle(format!(
            "the {what} port {host}:{port} may not be opened by this user; choose a port above 1023"
        )),
        _ => Notice::Obstacle(format!("the {what} port {host}:{port} cannot be opened: {error}")),
    })
}

fn look_at_directories(config: &ServerConfig, notices: &mut Vec<Notice>) {
    let storage = &config.storage;
    for path in [&storage.data_dir, &storage.data_log_dir] {
        match std::fs::metadata(path) {
            Ok(data) if !data.is_dir() => {
                notices.push(Notice::Obstacle(format!("{} is no directory", path.display())));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && storage.create_directories => {}
            Err(error) => notices.push(Notice::Obstacle(format!(
                "{} cannot be looked at: {error}; make it readable and writable for the user of the server",
                path.display()
            ))),
        }
    }
    if config.membership.is_ensemble() {
        notices.extend(epochs(&storage.snapshot_dir()));
    }
    for path in foreign_owners(&[storage.snapshot_dir(), storage.log_dir()]) {
        notices.push(Notice::Obstacle(format!(
            "{} cannot be opened for writing by this user; run this check and the server as the user that owns it",
            path.display()
        )));
    }
    notices.extend(marks(&storage.snapshot_dir()));
}

/// Whether the promises of a member can be read.
fn epochs(directory: &Path) -> Option<Notice> {
    let read = |name: &str| match std::fs::read_to_string(directory.join(name)) {
        Ok(text) => text.trim().parse::<i64>().map(Some).map_err(|_| name.to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(name.to_owned()),
    };
    let unusable = |name: &str| {
        Some(Notice::Obstacle(format!(
            "{} does not hold a number: this member has forgotten what it promised, and will not vote until the others \
             have caught it up; do not treat two servers so at a time",
            directory.join(name).display()
        )))
    };
    match (read("acceptedEpoch"), read("currentEpoch")) {
        (Err(name), _) | (_, Err(name)) => unusable(&name),
        (Ok(Some(_)), Ok(None)) => unusable("currentEpoch"),
        (Ok(None), Ok(Some(_))) => unusable("acceptedEpoch"),
        (Ok(_), Ok(_)) => None,
    }
}

/// The first file of each directory that this user may not write to.
fn foreign_owners(directories: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for directory in directories {
        let files = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let mut refused = files.filter(|path| {
            let opened = std::fs::OpenOptions::new().append(true).open(path);
            path.is_file() && opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        });
        found.extend(refused.next().filter(|path| !found.contains(path)));
    }
    found
}

/// What an earlier Zebu has left to be finished.
fn marks(directory: &Path) -> Vec<Notice> {
    let mut notices = Vec::new();
    for (name, meaning) in [
        ("zebu.pending", "a change of the whole directory has begun; the next start of Zebu finishes it"),
        (
            "zebu.untrusted",
            "this member may lack transactions and does not vote until the others have caught it up",
        ),
    ] {
        if directory.join(name).exists() {
            notices.push(Notice::Remark(format!("{} is there: {meaning}", directory.join(name).display())));
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_no_obstacle_and_a_foreign_address_is() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let notice = bind("127.0.0.1", port, "quorum").unwrap();
        assert!(matches!(&notice, Notice::Remark(text) if text.contains("is in use")), "{notice}");
        let notice = bind("192.0.2.1", 0, "quorum").unwrap();
        assert!(notice.to_string().starts_with("obstacle: 192.0.2.1 in this server's own line"), "{notice}");
        drop(listener);
        assert_eq!(bind("127.0.0.1", port, "quorum"), None);
    }
}
