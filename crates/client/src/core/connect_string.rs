//! The connection string: `host[:port],host[:port]…[/chroot]`. Names are kept unresolved; the driver resolves
//! them on every attempt.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::path::{PathError, check_path};

/// The port of an entry without a port.
pub const DEFAULT_PORT: u16 = 2181;

/// The address of one server, as written in the connection string.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerAddress {
    /// Name, IPv4 address, or IPv6 address without brackets.
    pub host: Box<str>,
    /// Client port.
    pub port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// The servers of an ensemble and the chroot of all paths.
///
/// ```
/// use zebu_client::ServerList;
///
/// let list: ServerList = "zk1:2181,zk2,[2001:db8::7]:2182/apps/shop".parse()?;
/// assert_eq!(list.servers().len(), 3);
/// assert_eq!(list.servers()[1].to_string(), "zk2:2181");
/// assert_eq!(list.chroot(), "/apps/shop");
/// # Ok::<(), zebu_client::ConnectStringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerList {
    servers: Vec<ServerAddress>,
    chroot: Box<str>,
}

impl ServerList {
    /// The servers, in the order of the connection string.
    pub fn servers(&self) -> &[ServerAddress] {
        &self.servers
    }

    /// The chroot; empty if there is none.
    pub fn chroot(&self) -> &str {
        &self.chroot
    }
}

/// The reason why a text is not a connection string.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectStringError {
    /// The string has no server before the chroot.
    #[error("the connection string {text:?} names no server; write host:port,host:port/chroot")]
    NoServer {
        /// The text.
        text: String,
    },
    /// An entry that is not `host`, `host:port` or `[address]:port`.
    #[error("{entry:?} in the connection string is not host, host:port or [IPv6 address]:port")]
    BadEntry {
        /// The entry.
        entry: String,
    },
    /// A URL scheme before the servers.
    #[error("{text:?} begins with a scheme; name the servers as host:port,host:port/chroot")]
    Scheme {
        /// The text.
        text: String,
    },
    /// The chroot is not a path.
    #[error("the chroot {chroot:?} of the connection string is not a path: {reason}")]
    BadChroot {
        /// The chroot.
        chroot: String,
        /// The reason.
        reason: PathError,
    },
}

impl FromStr for ServerList {
    type Err = ConnectStringError;

    fn from_str(text: &str) -> Result<ServerList, ConnectStringError> {
        if text.contains("://") {
            return Err(ConnectStringError::Scheme { text: text.to_owned() });
        }
        let (host_provider, chroot) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        // A trailing slash means no chroot.
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            check_path(chroot)
                .map_err(|reason| ConnectStringError::BadChroot { chroot: chroot.to_owned(), reason })?;
        }
        let entries = host_provider.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let servers = entries.map(parse_entry).collect::<Result<Vec<_>, _>>()?;
        if servers.is_empty() {
            return Err(ConnectStringError::NoServer { text: text.to_owned() });
        }
        Ok(ServerList { servers, chroot: chroot.into() })
    }
}

impl fmt::Display for ServerList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            write!(f, "{}{server}", if index == 0 { "" } else { "," })?;
        }
        f.write_str(&self.chroot)
    }
}

fn parse_entry(entry: &str) -> Result<ServerAddress, ConnectStringError> {
    let bad = || ConnectStringError::BadEntry { entry: entry.to_owned() };
    let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(bad);
    if let Some(bracketed) = entry.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or_else(bad)?;
        // The resolver interprets the zone ("fe80::1%eth0").
        let address = host.split('%').next().unwrap_or_default();
        address.parse::<Ipv6Addr>().map_err(|_| bad())?;
        let port = match rest.strip_prefix(':') {
            Some(text) => port(text)?,
            None if rest.is_empty() => DEFAULT_PORT,
            None => return Err(bad()),
        };
        return Ok(ServerAddress { host: host.into(), port });
    }
    if entry.parse::<Ipv6Addr>().is_ok() {
        return Ok(ServerAddress { host: entry.into(), port: DEFAULT_PORT });
    }
    let (host, port) = match entry.split_once(':') {
        Some((host, text)) => (host, port(text)?),
        None => (entry, DEFAULT_PORT),
    };
    let is_name = |character: char| !character.is_whitespace() && !character.is_control();
    if host.is_empty() || !host.chars().all(is_name) {
        return Err(bad());
    }
    Ok(ServerAddress { host: host.into(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<ServerList>().map_or_else(|error| error.to_string(), |list| list.to_string())
    }

    #[test]
    fn servers_ports_and_chroot() {
        assert_eq!(shown("a"), "a:2181");
        assert_eq!(shown("a:1, b:2 ,c"), "a:1,b:2,c:2181");
        assert_eq!(shown("10.0.0.1:2182/x/y"), "10.0.0.1:2182/x/y");
        assert_eq!(shown("a/"), "a:2181");
        assert_eq!(
            shown("[::1]:2182,[fe80::1%eth0],2001:db8::1"),
            "[::1]:2182,[fe80::1%eth0]:2181,[2001:db8::1]:2181"
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, word) in [
            ("", "names no server"),
            ("/chroot", "names no server"),
            (",,", "names no server"),
            ("a:", "a:"),
            ("a:0", "a:0"),
            ("a:70000", "a:70000"),
            ("a:1:2", "a:1:2"),
            ("[::1", "[::1"),
            ("[::1]2181", "[::1]2181"),
            ("[nonsense]:1", "[nonsense]:1"),
            (":2181", ":2181"),
            ("a b", "a b"),
            ("a/x/", "chroot"),
            ("a//x", "chroot"),
            ("dns-srv://name", "dns-srv:"),
        ] {
            assert!(text.parse::<ServerList>().is_err(), "{text}");
            assert!(shown(text).contains(word), "{text}: {}", shown(text));
        }
    }
}
