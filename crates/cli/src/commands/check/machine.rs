//! What of this machine would keep a configured server from serving: ports, names, the lock and the data
//! directory. It looks and changes nothing; a server may be running on all of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access, statvfs};
use zebu_server::config::{BindAddress, ByteCount, ConfigSource, DiskRoomConfig, ServerConfig};
use zebu_server::host_address;
use zebu_server::peer_ports::{self, Endpoint, PeerPort, ResolvedEndpoints};

use super::data;
use super::notice::Notice;
use crate::server_process::{LockHolder, ServerFiles};

/// The exit status of `serve` when it cannot listen.
const CANNOT_LISTEN: u8 = 1;
/// The exit status of `serve` with a data directory that it cannot use.
const UNUSABLE: u8 = 3;

/// Looks at everything that a configuration names.
pub(super) fn look(config: &ServerConfig) -> Vec<Notice> {
    let mut notices = Vec::new();
    let lock = look_at_lock(config);
    let is_running = lock.is_some();
    notices.extend(lock);
    let secure = config.security.client_tls.secure_address;
    notices.extend(config.listen.client.into_iter().chain(secure).filter_map(client_port));
    if config.membership.is_ensemble() {
        look_at_ports(config, &mut notices);
    }
    look_at_directories(config, &mut notices);
    // A server that writes to the files would make them look torn.
    if !is_running && !notices.iter().any(|notice| matches!(notice, Notice::Fatal { .. })) {
        notices.extend(data::look(config));
    }
    notices
}

/// Whether a server has the data directory.
fn look_at_lock(config: &ServerConfig) -> Option<Notice> {
    let files = ServerFiles {
        config: match &config.source {
            ConfigSource::File(path) => path.clone(),
            ConfigSource::BuiltIn | ConfigSource::Arguments => PathBuf::new(),
        },
        data_dir: config.storage.data_dir.clone(),
        data_log_dir: Some(config.storage.data_log_dir.clone()),
    };
    let holder = match files.lock_holder() {
        LockHolder::Nobody => return None,
        LockHolder::Process(pid) => format!("process {}", pid.as_raw_nonzero()),
        LockHolder::Unnamed => "a server that is no process of this system".to_owned(),
    };
    let directory = files.data_dir.display();
    Some(Notice::Busy(format!(
        "{directory} is in use by {holder}; stop that server before you start this one"
    )))
}

/// Whether the client port could be opened now.
fn client_port(client: BindAddress) -> Option<Notice> {
    let everywhere = |port| {
        let v6 = TcpListener::bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
        match v6 {
            // A machine without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
            }
            bound => bound,
        }
    };
    let bound = match client {
        BindAddress::Address(address) => TcpListener::bind(address),
        BindAddress::AllInterfaces { port } => everywhere(port),
    };
    let error = bound.err()?;
    Some(match error.kind() {
        io::ErrorKind::AddrInUse => Notice::Busy(format!(
            "the client port {client} is in use; stop the server that this one is to replace before you start it, or \
             choose another port"
        )),
        io::ErrorKind::AddrNotAvailable => Notice::Fatal {
            text: format!("clientPortAddress: {client} is no address of this machine; correct or remove it"),
            status: CANNOT_LISTEN,
        },
        io::ErrorKind::PermissionDenied => Notice::Fatal {
            text: format!(
                "the client port {client} may not be opened by this user; choose a port above 1023"
            ),
            status: CANNOT_LISTEN,
        },
        _ => Notice::Fatal {
            text: format!("the client port {client} cannot be opened: {error}"),
            status: CANNOT_LISTEN,
        },
    })
}

fn look_at_ports(config: &ServerConfig, notices: &mut Vec<Notice>) {
    let membership = &config.membership;
    for port in [PeerPort::Quorum, PeerPort::Election] {
        notices.extend(open_all(port, &peer_ports::own_endpoints(config, port)));
    }
    for (id, member) in &membership.members {
        let others = member.addresses.iter().filter(|_| Some(*id) != membership.my_id);
        for address in others {
            if let Err(error) = host_address::resolve(&address.host, 0) {
                notices.push(Notice::Obstacle(format!(
                    "server.{}: the name {} has no address ({error}); correct the line, or the names of this machine",
                    id.0, address.host
                )));
            }
        }
    }
}

/// Whether a port could be opened now, at every address. A server starts if one of them can, so only the last
/// one that cannot is an obstacle.
fn open_all(port: PeerPort, endpoints: &[Endpoint]) -> Vec<Notice> {
    let ResolvedEndpoints { addresses, failures } = peer_ports::resolve(endpoints);
    let results: Vec<_> = addresses.iter().map(|address| (*address, peer_ports::bind(*address))).collect();
    let opened = results.iter().any(|(_, result)| result.is_ok());
    let unresolved = failures.into_iter().map(|(endpoint, error)| {
        format!("{endpoint} in this server's own line has no address ({error}); correct the line, or the names of this machine")
    });
    let mut notices: Vec<Notice> = unresolved.map(|text| weighed(text, opened)).collect();
    for (address, result) in results {
        let Err(error) = result else { continue };
        notices.push(match error.kind() {
            io::ErrorKind::AddrInUse => Notice::Busy(format!(
                "the {port} port {address} is in use; stop the server that this one is to replace before you start it"
            )),
            io::ErrorKind::AddrNotAvailable => weighed(
                format!(
                    "{} in this server's own line is no address of this machine; correct the line, or set \
                     quorumListenOnAllIPs=true",
                    address.ip()
                ),
                opened,
            ),
            io::ErrorKind::PermissionDenied => Notice::Obstacle(format!(
                "the {port} port {address} may not be opened by this user; choose a port above 1023"
            )),
            _ => weighed(format!("the {port} port {address} cannot be opened: {error}"), opened),
        });
    }
    notices
}

/// A fault of one address matters less while another one works.
fn weighed(text: String, another_works: bool) -> Notice {
    match another_works {
        true => Notice::Remark(format!("{text}; the server would listen on its other addresses only")),
        false => Notice::Obstacle(text),
    }
}

fn look_at_directories(config: &ServerConfig, notices: &mut Vec<Notice>) {
    let storage = &config.storage;
    let separate = storage.data_log_dir != storage.data_dir;
    for path in std::iter::once(&storage.data_dir).chain(separate.then_some(&storage.data_log_dir)) {
        if let Some(text) = directory_refusal(path, storage.create_directories) {
            notices.push(Notice::Fatal { text, status: UNUSABLE });
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
    for path in std::iter::once(&storage.data_dir).chain(separate.then_some(&storage.data_log_dir)) {
        notices.extend(lack_of_room(path, &storage.room));
    }
}

/// Little room on the disk of a directory, compared with the marks of the configuration.
fn lack_of_room(directory: &Path, room: &DiskRoomConfig) -> Option<Notice> {
    let found = statvfs(directory).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    let free = bytes(found.f_bavail);
    let (ByteCount(low), ByteCount(stop)) = room.marks(bytes(found.f_blocks));
    let (shown, megabytes) = (directory.display(), free >> 20);
    if free < stop {
        let text = format!(
            "{shown} has {megabytes} MiB free, less than disk.stop: the server would refuse what makes the tree larger"
        );
        Some(Notice::Obstacle(text))
    } else if free < low {
        Some(Notice::Remark(format!("{shown} has {megabytes} MiB free, less than disk.low")))
    } else {
        None
    }
}

/// Why a server could not keep its files below a root; `None` if it could.
fn directory_refusal(root: &Path, may_create: bool) -> Option<String> {
    let directory = root.join("version-2");
    let shown = root.display();
    match std::fs::metadata(&directory) {
        Ok(data) if !data.is_dir() => Some(format!("{} is no directory", directory.display())),
        Ok(_) => [root, &directory].into_iter().find(|path| !is_writable(path)).map(|path| {
            format!(
                "{} is not writable for this user; run this check and the server as its owner",
                path.display()
            )
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound && may_create => {
            let mut existing = root.ancestors().filter(|path| !path.as_os_str().is_empty());
            let nearest = existing.find(|path| path.exists()).unwrap_or(Path::new("."));
            match nearest.is_dir() && is_writable(nearest) {
                true => None,
                false => Some(format!(
                    "{shown} cannot be created: {} is not writable for this user",
                    nearest.display()
                )),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(format!(
            "{} does not exist and datadir.autocreate is false; create it, or correct dataDir and dataLogDir",
            directory.display()
        )),
        Err(error) => Some(format!(
            "{shown} cannot be looked at: {error}; make it readable and writable for the user of the server"
        )),
    }
}

fn is_writable(path: &Path) -> bool {
    access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok()
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

    fn noticed(hosts: &[&str], port: u16) -> Vec<String> {
        let endpoints: Vec<Endpoint> =
            hosts.iter().map(|host| Endpoint::Host { host: (*host).to_owned(), port }).collect();
        open_all(PeerPort::Quorum, &endpoints).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_port_in_use_is_busy_and_a_foreign_address_is_an_obstacle() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let notices = noticed(&["127.0.0.1"], port);
        assert!(notices[0].starts_with("busy: the quorum port 127.0.0.1:"), "{notices:?}");
        let notices = noticed(&["192.0.2.1"], 0);
        assert!(notices[0].starts_with("obstacle: 192.0.2.1 in this server's own line"), "{notices:?}");
        drop(listener);
        assert_eq!(noticed(&["127.0.0.1"], port), [""; 0]);
    }

    #[test]
    fn every_address_is_looked_at() {
        let listener = std::net::TcpListener::bind(("::1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let notices = noticed(&["127.0.0.1", "::1"], port);
        assert!(matches!(&notices[..], [one] if one.contains("[::1]:")), "{notices:?}");
        let notices = noticed(&["127.0.0.1", "192.0.2.1", "::1%no-such-if"], 0);
        assert_eq!(notices.len(), 2);
        assert!(notices.iter().all(|notice| notice.starts_with("note: ")), "one works: {notices:?}");
        let notices = noticed(&["::1%no-such-if"], 0);
        assert!(
            notices[0].starts_with("obstacle: [::1%no-such-if]:0 in this server's own line"),
            "{notices:?}"
        );
    }
}
