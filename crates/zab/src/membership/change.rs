//! A wish to change the members: some join and some leave, or all are named anew. What may become of it is
//! decided here; whether it may be asked for, and whether it becomes decided, elsewhere.

use std::fmt;

use zebu_proto::{ServerId, Zxid};

use super::member_line::{Addresses, parse_member};
use super::text::ConfigurationError;
use super::{Configuration, Member, MemberRole};

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
        voters_min: usize,
    ) -> Result<Configuration, ChangeError> {
        let mut next = match change {
            Change::Complete(text) => Configuration::parse(&text.replace(',', "\n"))?,
            Change::Incremental { joining, leaving } => self.with(joining, leaving)?,
        };
        next.version = at.0;
        let voters = next.voters().count();
        if voters < voters_min {
            return Err(ChangeError::BadArguments(format!(
                "{voters} voters would be left; at least {voters_min} are needed"
            )));
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
            if member.client.is_none() && member.secure_client.is_none() {
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

/// Where a member listens. Every interface is no place of its own.
fn places(member: &Member) -> Vec<(&str, u16)> {
    let peers = member.addresses.iter().flat_map(|address| {
        [(address.host.as_str(), address.quorum_port), (address.host.as_str(), address.election_port)]
    });
    let clients = member.client.iter().chain(&member.secure_client);
    peers
        .chain(clients.map(|client| (client.host.as_str(), client.port)))
        .filter(|(host, _)| !matches!(*host, "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0"))
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

    fn ids(configuration: &Configuration) -> Vec<i64> {
        configuration.members.keys().map(|id| id.0).collect()
    }

    #[test]
    fn some_join_and_some_leave() {
        let joining = " server.4=d:1:2:observer;d:5 , server.2=b:9:8;5,";
        let next = three().changed(incremental(joining, "1, 9"), Zxid(0x10), 2).unwrap();
        assert_eq!(ids(&next), [2, 3, 4]);
        assert_eq!(next.version, 0x10);
        assert_eq!(next.members[&ServerId(2)].addresses[0].quorum_port, 9);
        assert_eq!(next.observers().into_iter().collect::<Vec<_>>(), [ServerId(4)]);
        let same = three().changed(incremental("", ""), Zxid(8), 2).unwrap();
        assert_eq!((same.members, same.version), (three().members, 8));
    }

    #[test]
    fn all_anew() {
        let change = Change::Complete("server.5=e:1:2;5,server.6=f:1:2;5,version=99");
        let next = three().changed(change, Zxid(8), 2).unwrap();
        assert_eq!((ids(&next), next.version), (vec![5, 6], 8));
    }

    #[test]
    fn what_cannot_be() {
        let bad = |change, voters_min| three().changed(change, Zxid(8), voters_min).unwrap_err();
        for (change, voters_min) in [
            (incremental("", "1,2"), 2),
            (incremental("server.4=d:1:2", ""), 2),
            (incremental("server.4", ""), 2),
            (incremental("server.4=d:1:2;5=6", ""), 2),
            (incremental("server.4=a:1:9;5", ""), 2),
            (incremental("server.4=d:1:2;c:2", ""), 2),
            (incremental("server.4=d:1;5", ""), 2),
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
        assert!(three().changed(incremental("", "1,2"), Zxid(8), 1).is_ok());
    }

    #[test]
    fn groups_are_changed_as_a_whole() {
        let text = "server.1=a:1:2;5\nserver.2=b:1:2;5\ngroup.1=1:2";
        let grouped = Configuration::parse(text).unwrap();
        assert!(matches!(
            grouped.changed(incremental("", "2"), Zxid(8), 1),
            Err(ChangeError::BadArguments(_))
        ));
        assert!(grouped.changed(Change::Complete("server.1=a:1:2"), Zxid(8), 1).is_ok());
    }
}
