//! A wish to change the members: some join and some leave, or all are named anew. What may become of it is
//! decided here; whether it may be asked for, and whether it becomes decided, elsewhere.

use std::fmt;

use zebu_proto::{ServerId, Zxid};

use super::member_line::{Addresses, parse_member};
use super::text::ConfigurationError;
use super::{Configuration, HostPort, Member, MemberRole};

/// What ZooKeeper takes for no id at all.
pub const NO_ID: ServerId = ServerId(-1);

/// A change, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Some join (`server.N=…`, comma separated), some leave (ids, comma separated). One that is there already
    /// and joins again is changed.
    Incremental {
        /// Who joins.
        joining: Option<&'a str>,
        /// Who leaves.
        leaving: Option<&'a str>,
    },
    /// All members, comma or line separated.
    Complete(&'a str),
}

/// What a changed configuration must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeRules {
    /// How many voters must be left.
    pub voters_min: usize,
    /// Whether a server may have several addresses (`multiAddress.enabled`).
    pub addresses: Addresses,
}

/// Why a change cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeError {
    /// It is badly written or makes no sense.
    BadArguments(String),
    /// An id is no number; ZooKeeper fails in another way then.
    NotANumber(String),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::BadArguments(why) => write!(f, "{why}"),
            ChangeError::NotANumber(text) => write!(f, "\"{text}\" is no number of a server"),
        }
    }
}

impl std::error::Error for ChangeError {}

impl From<ConfigurationError> for ChangeError {
    fn from(error: ConfigurationError) -> ChangeError {
        ChangeError::BadArguments(error.to_string())
    }
}

impl Configuration {
    /// What a change makes of this configuration, at a place in the history.
    ///
    /// # Errors
    /// Says why it is no change that could be made.
    pub fn changed(
        &self,
        change: Change<'_>,
        at: Zxid,
        rules: ChangeRules,
    ) -> Result<Configuration, ChangeError> {
        let mut next = match change {
            Change::Complete(text) => Configuration::parse(&text.replace(',', "\n"))?,
            Change::Incremental { joining, leaving } => self.with(joining, leaving)?,
        };
        next.version = at.0;
        let voters = next.voters().count();
        if voters < rules.voters_min {
            return Err(ChangeError::BadArguments(format!(
                "{voters} voters would be left; at least {} are needed",
                rules.voters_min
            )));
        }
        // A line that is in effect already stays allowed, so that the others can be changed.
        for (id, member) in next.members.iter().filter(|(id, member)| self.members.get(id) != Some(member)) {
            check_member(*id, member, rules.addresses)?;
        }
        Ok(next)
    }

    fn with(&self, joining: Option<&str>, leaving: Option<&str>) -> Result<Configuration, ChangeError> {
        if self.groups.is_some() {
            let why = "members of an ensemble with groups are changed all at once, not one by one";
            return Err(ChangeError::BadArguments(why.to_owned()));
        }
        let mut next = self.clone();
        for id in parts(leaving, ',') {
            next.members.remove(&number(id)?);
        }
        for joiner in parts(joining, ',') {
            let [key, value] = parts(Some(joiner), '=').collect::<Vec<_>>()[..] else {
                return Err(ChangeError::BadArguments(format!("\"{joiner}\" is not server.N=…")));
            };
            let id = number(key.rsplit_once('.').map_or(key, |(_, id)| id))?;
            let member = parse_member(value, Addresses::Many).map_err(ChangeError::BadArguments)?;
            if member.client.is_none() {
                let why = format!("\"{joiner}\" lacks its client port: server.N=host:port:port;clientPort");
                return Err(ChangeError::BadArguments(why));
            }
            next.members.remove(&id);
            next.check_addresses(id, &member)?;
            next.members.insert(id, member);
        }
        Ok(next)
    }

    fn check_addresses(&self, id: ServerId, joiner: &Member) -> Result<(), ChangeError> {
        let own = places(joiner);
        for (other, member) in &self.members {
            if let Some(place) = places(member).into_iter().find(|place| own.contains(place)) {
                let why = format!("{}:{} of server.{} is that of server.{}", place.0, place.1, id.0, other.0);
                return Err(ChangeError::BadArguments(why));
            }
        }
        Ok(())
    }

    /// Whether anybody in it votes.
    pub fn has_voters(&self) -> bool {
        self.members.values().any(|member| member.role == MemberRole::Participant)
    }
}

/// Whether a server can be started with a line. The servers write it to their files and read it at the next start, so a
/// line that a start would refuse must not be committed.
fn check_member(id: ServerId, member: &Member, addresses: Addresses) -> Result<(), ChangeError> {
    let bad = |why: &str| Err(ChangeError::BadArguments(format!("server.{}: {why}", id.0)));
    if member.addresses.len() > 1 && addresses == Addresses::One {
        return bad("it has several addresses; set multiAddress.enabled=true on all servers to allow that");
    }
    if member.secure_client.is_some() && member.client.is_none() {
        return bad("its only client port is a TLS port, which this version cannot open");
    }
    if id == NO_ID {
        return bad("-1 means that there is no id; use 1 to 255");
    }
    let clients = member.client.iter().chain(&member.secure_client);
    let hosts =
        member.addresses.iter().map(|address| &address.host).chain(clients.map(|client| &client.host));
    if let Some(host) = hosts.into_iter().find(|host| !is_host(host)) {
        return bad(&format!("{host:?} is no host; allowed: letters, digits and . - _ : %"));
    }
    match twice_used_port(member) {
        Some(port) => bad(&format!("port {port} is used twice on one address")),
        None => Ok(()),
    }
}

/// What a file of properties keeps as it is, and what a name or an address consists of.
fn is_host(host: &str) -> bool {
    host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:%".contains(c))
}

/// A host and a port.
type Place = (String, u16);

fn place(client: &HostPort) -> Place {
    (client.host.clone(), client.port)
}

/// A port that two of the listeners of a server would open on the same address.
fn twice_used_port(member: &Member) -> Option<u16> {
    let of_client = |client: &'_ Option<HostPort>| client.iter().map(place).collect();
    let listeners: [Vec<Place>; 4] = [
        member.addresses.iter().map(|address| (address.host.clone(), address.quorum_port)).collect(),
        member.addresses.iter().map(|address| (address.host.clone(), address.election_port)).collect(),
        of_client(&member.client),
        of_client(&member.secure_client),
    ];
    let clash = |a: &Place, b: &Place| a.1 == b.1 && (a.0 == b.0 || is_wildcard(&a.0) || is_wildcard(&b.0));
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

/// Where a member listens. Every interface is no place of its own.
fn places(member: &Member) -> Vec<(&str, u16)> {
    let peers = member.addresses.iter().flat_map(|address| {
        [(address.host.as_str(), address.quorum_port), (address.host.as_str(), address.election_port)]
    });
    let clients = member.client.iter().chain(&member.secure_client);
    peers
        .chain(clients.map(|client| (client.host.as_str(), client.port)))
        .filter(|(host, _)| !is_wildcard(host))
        .collect()
}

fn parts(text: Option<&str>, separator: char) -> impl Iterator<Item = &str> {
    text.into_iter()
        .flat_map(move |text| text.split(separator))
        .map(str::trim)
        .filter(|part| !part.is_empty())
}

fn number(text: &str) -> Result<ServerId, ChangeError> {
    text.parse().map(ServerId).map_err(|_| ChangeError::NotANumber(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Configuration {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\nserver.3=c:1:2;5\nversion=7";
        Configuration::parse(text).unwrap()
    }

    fn incremental<'a>(joining: &'a str, leaving: &'a str) -> Change<'a> {
        let some = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        Change::Incremental { joining: some(joining), leaving: some(leaving) }
    }

    fn rules(voters_min: usize) -> ChangeRules {
        ChangeRules { voters_min, addresses: Addresses::One }
    }

    fn ids(configuration: &Configuration) -> Vec<i64> {
        configuration.members.keys().map(|id| id.0).collect()
    }

    #[test]
    fn some_join_and_some_leave() {
        let joining = " server.4=d:1:2:observer;d:5 , server.2=b:9:8;5,";
        let next = three().changed(incremental(joining, "1, 9"), Zxid(0x10), rules(2)).unwrap();
        assert_eq!(ids(&next), [2, 3, 4]);
        assert_eq!(next.version, 0x10);
        assert_eq!(next.members[&ServerId(2)].addresses[0].quorum_port, 9);
        assert_eq!(next.observers().into_iter().collect::<Vec<_>>(), [ServerId(4)]);
        let same = three().changed(incremental("", ""), Zxid(8), rules(2)).unwrap();
        assert_eq!((same.members, same.version), (three().members, 8));
    }

    #[test]
    fn all_anew() {
        let change = Change::Complete("server.5=e:1:2;5,server.6=f:1:2;5,version=99");
        let next = three().changed(change, Zxid(8), rules(2)).unwrap();
        assert_eq!((ids(&next), next.version), (vec![5, 6], 8));
    }

    #[test]
    fn what_cannot_be() {
        let bad = |change, voters_min| three().changed(change, Zxid(8), rules(voters_min)).unwrap_err();
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
            (Change::Complete("server.1=a:1:2,server.2=b:1:2|c:1:2"), 2),
            (Change::Complete("server.1=a:1:2;;3,server.2=b:1:2"), 2),
            (Change::Complete("server.1=a:1:2;a:1,server.2=b:1:2"), 2),
            (Change::Complete("server.1=ä:1:2,server.2=b:1:2"), 2),
            (incremental("", "1,2,3"), 1),
            (Change::Complete("server.1=a:1:2"), 2),
            (Change::Complete("nonsense"), 1),
            (Change::Complete(""), 1),
        ] {
            assert!(matches!(bad(change, voters_min), ChangeError::BadArguments(_)), "{change:?}");
        }
        for change in [incremental("", "one"), incremental("server.x=d:1:2;5", "")] {
            assert!(matches!(bad(change, 2), ChangeError::NotANumber(_)), "{change:?}");
        }
        assert!(three().changed(incremental("", "1,2"), Zxid(8), rules(1)).is_ok());
    }

    #[test]
    fn several_addresses_where_they_are_allowed() {
        let many = ChangeRules { voters_min: 2, addresses: Addresses::Many };
        let joining = incremental("server.4=d:1:2|[fe80::1%eth0]:1:2;5", "");
        let next = three().changed(joining, Zxid(8), many).unwrap();
        assert_eq!(next.members[&ServerId(4)].addresses.len(), 2);
        let twice = incremental("server.4=d:1:2|d:2:3;5", "");
        assert!(three().changed(twice, Zxid(8), many).is_err(), "one port for votes and links");
        // A list that came into effect otherwise does not keep the others from being changed.
        let after = next.changed(incremental("server.5=e:1:2;5", "1"), Zxid(9), rules(2)).unwrap();
        assert_eq!(ids(&after), [2, 3, 4, 5]);
    }

    #[test]
    fn groups_are_changed_as_a_whole() {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\ngroup.1=1:2";
        let grouped = Configuration::parse(text).unwrap();
        assert!(matches!(
            grouped.changed(incremental("", "2"), Zxid(8), rules(1)),
            Err(ChangeError::BadArguments(_))
        ));
        assert!(grouped.changed(Change::Complete("server.1=a:1:2"), Zxid(8), rules(1)).is_ok());
    }
}
