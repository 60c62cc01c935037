//! Changes of the config: servers join and leave, or the whole config is replaced. This module computes and
//! checks the new config. The node checks permissions, and Zab commits it.

use std::fmt;

use zebu_proto::{ServerId, Zxid};

use super::server_spec::{MultiAddress, parse_server_spec};
use super::text::ConfigParseError;
use super::{Configuration, HostPort, Role, ServerSpec};

/// The id that ZooKeeper treats as unset.
pub const NO_ID: ServerId = ServerId(-1);

/// A requested change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigChange<'a> {
    /// Servers join (`server.N=…`, comma separated) and leave (ids, comma separated). A joining server that
    /// is already in the config is replaced.
    Incremental {
        /// The `server.N` lines of the joining servers.
        joining: Option<&'a str>,
        /// The ids of the leaving servers.
        leaving: Option<&'a str>,
    },
    /// The complete new config, comma or line separated.
    Complete(&'a str),
}

/// The rules for a changed config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigChangeRules {
    /// The smallest allowed number of voters.
    pub voters_min: usize,
    /// Whether a server may have several addresses (`multiAddress.enabled`).
    pub addresses: MultiAddress,
}

/// The reason for refusing a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChangeError {
    /// The arguments are malformed or inconsistent.
    BadArguments(String),
    /// A server id is not a number. ZooKeeper returns another error code for it.
    NotANumber(String),
}

impl fmt::Display for ConfigChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigChangeError::BadArguments(why) => write!(f, "{why}"),
            ConfigChangeError::NotANumber(text) => write!(f, "\"{text}\" is not a server id"),
        }
    }
}

impl std::error::Error for ConfigChangeError {}

impl From<ConfigParseError> for ConfigChangeError {
    fn from(error: ConfigParseError) -> ConfigChangeError {
        ConfigChangeError::BadArguments(error.to_string())
    }
}

impl Configuration {
    /// Applies a change to this config. `at` is the zxid of the transaction and becomes the version.
    ///
    /// # Errors
    /// The arguments are malformed, or the new config breaks a rule.
    pub fn with_change(
        &self,
        change: ConfigChange<'_>,
        at: Zxid,
        rules: ConfigChangeRules,
    ) -> Result<Configuration, ConfigChangeError> {
        let mut next = match change {
            ConfigChange::Complete(text) => Configuration::parse(&text.replace(',', "\n"))?,
            ConfigChange::Incremental { joining, leaving } => {
                self.with_incremental_change(joining, leaving)?
            }
        };
        next.version = at.0;
        let voters = next.voters().count();
        if voters < rules.voters_min {
            return Err(ConfigChangeError::BadArguments(format!(
                "{voters} voters would remain; at least {} are required",
                rules.voters_min
            )));
        }
        // Lines that are already in effect stay allowed, so that the other lines can be changed.
        for (id, member) in next.members.iter().filter(|(id, member)| self.members.get(id) != Some(member)) {
            check_server_spec(*id, member, rules.addresses)?;
        }
        Ok(next)
    }

    fn with_incremental_change(
        &self,
        joining: Option<&str>,
        leaving: Option<&str>,
    ) -> Result<Configuration, ConfigChangeError> {
        if self.groups.is_some() {
            let why = "an ensemble with groups cannot be changed incrementally; send the complete config";
            return Err(ConfigChangeError::BadArguments(why.to_owned()));
        }
        let mut next = self.clone();
        for id in split_nonempty(leaving, ',') {
            next.members.remove(&parse_server_id(id)?);
        }
        for joiner in split_nonempty(joining, ',') {
            let [key, value] = split_nonempty(Some(joiner), '=').collect::<Vec<_>>()[..] else {
                return Err(ConfigChangeError::BadArguments(format!("\"{joiner}\" is not server.N=…")));
            };
            let id = parse_server_id(key.rsplit_once('.').map_or(key, |(_, id)| id))?;
            let member =
                parse_server_spec(value, MultiAddress::Enabled).map_err(ConfigChangeError::BadArguments)?;
            if member.client.is_none() {
                let why = format!(
                    "\"{joiner}\" has no client port; the form is server.N=host:port:port;clientPort"
                );
                return Err(ConfigChangeError::BadArguments(why));
            }
            next.members.remove(&id);
            next.check_addresses(id, &member)?;
            next.members.insert(id, member);
        }
        Ok(next)
    }

    fn check_addresses(&self, id: ServerId, joiner: &ServerSpec) -> Result<(), ConfigChangeError> {
        let own = endpoints(joiner);
        for (other, member) in &self.members {
            if let Some(endpoint) = endpoints(member).into_iter().find(|endpoint| own.contains(endpoint)) {
                let why = format!(
                    "{}:{} of server.{} is also used by server.{}",
                    endpoint.0, endpoint.1, id.0, other.0
                );
                return Err(ConfigChangeError::BadArguments(why));
            }
        }
        Ok(())
    }

    /// Whether the config has a voter.
    pub fn has_voters(&self) -> bool {
        self.members.values().any(|member| member.role == Role::Participant)
    }
}

/// Checks that a server can start with this line. Servers write it to their files, so a line that a start
/// refuses must not be committed.
fn check_server_spec(
    id: ServerId,
    member: &ServerSpec,
    addresses: MultiAddress,
) -> Result<(), ConfigChangeError> {
    let bad = |why: &str| Err(ConfigChangeError::BadArguments(format!("server.{}: {why}", id.0)));
    if member.addresses.len() > 1 && addresses == MultiAddress::Disabled {
        return bad("it has several addresses; set multiAddress.enabled=true on all servers to allow that");
    }
    if member.secure_client.is_some() && member.client.is_none() {
        return bad("its only client port is a TLS port, which this version cannot open");
    }
    if id == NO_ID {
        return bad("the id -1 means unset; use 1 to 255");
    }
    let clients = member.client.iter().chain(&member.secure_client);
    let hosts =
        member.addresses.iter().map(|address| &address.host).chain(clients.map(|client| &client.host));
    if let Some(host) = hosts.into_iter().find(|host| !is_host(host)) {
        return bad(&format!("{host:?} is not a host; allowed: letters, digits and . - _ : %"));
    }
    match duplicate_port(member) {
        Some(port) => bad(&format!("port {port} is used twice on one address")),
        None => Ok(()),
    }
}

/// Whether a host consists of characters that a property file keeps unchanged.
fn is_host(host: &str) -> bool {
    host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:%".contains(c))
}

/// A host and a port.
type HostAndPort = (String, u16);

fn endpoint(client: &HostPort) -> HostAndPort {
    (client.host.clone(), client.port)
}

/// A port that two listeners of a server would open on the same address.
fn duplicate_port(member: &ServerSpec) -> Option<u16> {
    let of_client = |client: &'_ Option<HostPort>| client.iter().map(endpoint).collect();
    let listeners: [Vec<HostAndPort>; 4] = [
        member.addresses.iter().map(|address| (address.host.clone(), address.quorum_port)).collect(),
        member.addresses.iter().map(|address| (address.host.clone(), address.election_port)).collect(),
        of_client(&member.client),
        of_client(&member.secure_client),
    ];
    let clash = |a: &HostAndPort, b: &HostAndPort| {
        a.1 == b.1 && (a.0 == b.0 || is_wildcard(&a.0) || is_wildcard(&b.0))
    };
    for (index, one) in listeners.iter().enumerate() {
        for other in &listeners[index + 1..] {
            if let Some((_, port)) = one.iter().find(|a| other.iter().any(|b| clash(a, b))) {
                return Some(*port);
            }
        }
    }
    None
}

fn is_wildcard(host: &str) -> bool {
    matches!(host, "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0")
}

/// The addresses that a server listens on. Wildcard addresses are left out.
fn endpoints(member: &ServerSpec) -> Vec<(&str, u16)> {
    let peers = member.addresses.iter().flat_map(|address| {
        [(address.host.as_str(), address.quorum_port), (address.host.as_str(), address.election_port)]
    });
    let clients = member.client.iter().chain(&member.secure_client);
    peers
        .chain(clients.map(|client| (client.host.as_str(), client.port)))
        .filter(|(host, _)| !is_wildcard(host))
        .collect()
}

fn split_nonempty(text: Option<&str>, separator: char) -> impl Iterator<Item = &str> {
    text.into_iter()
        .flat_map(move |text| text.split(separator))
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn parse_server_id(text: &str) -> Result<ServerId, ConfigChangeError> {
    text.parse().map(ServerId).map_err(|_| ConfigChangeError::NotANumber(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Configuration {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2;5\nversion=7";
        Configuration::parse(text).unwrap()
    }

    fn incremental<'a>(joining: &'a str, leaving: &'a str) -> ConfigChange<'a> {
        let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        ConfigChange::Incremental { joining: some(joining), leaving: some(leaving) }
    }

    fn rules(voters_min: usize) -> ConfigChangeRules {
        ConfigChangeRules { voters_min, addresses: MultiAddress::Disabled }
    }

    fn ids(configuration: &Configuration) -> Vec<i64> {
        configuration.members.keys().map(|id| id.0).collect()
    }

    #[test]
    fn some_join_and_some_leave() {
        let joining = " server.4=d:1:2:observer;d:5 , server.2=b:9:8;5,";
        let next = three().with_change(incremental(joining, "1, 9"), Zxid(0x10), rules(2)).unwrap();
        assert_eq!(ids(&next), [2, 3, 4]);
        assert_eq!(next.version, 0x10);
        assert_eq!(next.members[&ServerId(2)].addresses[0].quorum_port, 9);
        assert_eq!(next.observers().into_iter().collect::<Vec<_>>(), [ServerId(4)]);
        let same = three().with_change(incremental("", ""), Zxid(8), rules(2)).unwrap();
        assert_eq!((same.members, same.version), (three().members, 8));
    }

    #[test]
    fn all_anew() {
        let change = ConfigChange::Complete("server.5=e:1:2;5,server.6=f:1:2;5,version=99");
        let next = three().with_change(change, Zxid(8), rules(2)).unwrap();
        assert_eq!((ids(&next), next.version), (vec![5, 6], 8));
    }

    #[test]
    fn what_cannot_be() {
        let bad = |change, voters_min| three().with_change(change, Zxid(8), rules(voters_min)).unwrap_err();
        for (change, voters_min) in [
            (incremental("", "1,2"), 2),
            (incremental("server.4=d:1:2", ""), 2),
            (incremental("server.4", ""), 2),
            (incremental("server.-1=d:1:2;5", ""), 2),
            (incremental("server.4=d:1:2;5=6", ""), 2),
            (incremental("server.4=a:1:9;5", ""), 2),
            (incremental("server.4=d:1:2;c:2", ""), 2),
            (incremental("server.4=d:1;5", ""), 2),
            (incremental("server.4=d:1:2;;5", ""), 2),
            (incremental("server.4=d:1:2|e:1:2;5", ""), 2),
            (incremental("server.2=b:1:2|e:1:2;5", ""), 2),
            (incremental("server.4=d:1:2;2", ""), 2),
            (incremental("server.4=d\ne:1:2;5", ""), 2),
            (incremental("server.4=d\\u12:1:2;5", ""), 2),
            (ConfigChange::Complete("server.1=a:1:2,server.2=b:1:2|c:1:2"), 2),
            (ConfigChange::Complete("server.1=a:1:2;;3,server.2=b:1:2"), 2),
            (ConfigChange::Complete("server.1=a:1:2;a:1,server.2=b:1:2"), 2),
            (ConfigChange::Complete("server.1=ä:1:2,server.2=b:1:2"), 2),
            (incremental("", "1,2,3"), 1),
            (ConfigChange::Complete("server.1=a:1:2"), 2),
            (ConfigChange::Complete("nonsense"), 1),
            (ConfigChange::Complete(""), 1),
        ] {
            assert!(matches!(bad(change, voters_min), ConfigChangeError::BadArguments(_)), "{change:?}");
        }
        for change in [incremental("", "one"), incremental("server.x=d:1:2;5", "")] {
            assert!(matches!(bad(change, 2), ConfigChangeError::NotANumber(_)), "{change:?}");
        }
        assert!(three().with_change(incremental("", "1,2"), Zxid(8), rules(1)).is_ok());
    }

    #[test]
    fn several_addresses_where_they_are_allowed() {
        let many = ConfigChangeRules { voters_min: 2, addresses: MultiAddress::Enabled };
        let joining = incremental("server.4=d:1:2|[fe80::1%eth0]:1:2;5", "");
        let next = three().with_change(joining, Zxid(8), many).unwrap();
        assert_eq!(next.members[&ServerId(4)].addresses.len(), 2);
        let twice = incremental("server.4=d:1:2|d:2:3;5", "");
        assert!(three().with_change(twice, Zxid(8), many).is_err(), "one port for votes and links");
        // A config that became active under other rules does not block changes of other servers.
        let after = next.with_change(incremental("server.5=e:1:2;5", "1"), Zxid(9), rules(2)).unwrap();
        assert_eq!(ids(&after), [2, 3, 4, 5]);
    }

    #[test]
    fn groups_are_changed_as_a_whole() {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\ngroup.1=1:2";
        let grouped = Configuration::parse(text).unwrap();
        assert!(matches!(
            grouped.with_change(incremental("", "2"), Zxid(8), rules(1)),
            Err(ConfigChangeError::BadArguments(_))
        ));
        assert!(grouped.with_change(ConfigChange::Complete("server.1=a:1:2"), Zxid(8), rules(1)).is_ok());
    }
}
