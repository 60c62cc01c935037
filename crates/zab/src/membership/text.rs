//! The text of a config in `/zookeeper/config`, in packets and in files. Printing and parsing match
//! ZooKeeper: a property file with few keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zebu_proto::ServerId;

use super::java_order::in_java_order;
use super::server_spec::{MultiAddress, parse_server_spec};
use super::{Configuration, Groups, HostPort, PeerAddress, Role, ServerSpec};

/// The reason for refusing a config text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigParseError {
    /// A key that is not allowed in a config.
    UnknownKey(String),
    /// A key with an invalid value, and the reason.
    Value(String, String),
    /// Groups and weights that are not a valid hierarchy.
    Groups(String),
}

impl fmt::Display for ConfigParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigParseError::UnknownKey(key) => {
                write!(f, "{key} is not allowed; allowed: server.N, group.N, weight.N, version")
            }
            ConfigParseError::Value(key, why) => write!(f, "{key}: {why}"),
            ConfigParseError::Groups(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for ConfigParseError {}

impl Configuration {
    /// Parses a text. Without a version line the version is zero.
    ///
    /// # Errors
    /// The first mistake in the text.
    pub fn parse(text: &str) -> Result<Configuration, ConfigParseError> {
        let mut configuration = Configuration { version: 0, members: BTreeMap::new(), groups: None };
        for (key, value) in entries(text) {
            configuration.set_property(key, value)?;
        }
        configuration.check_groups()?;
        Ok(configuration)
    }

    /// The version of a text, without parsing the rest.
    pub fn version_of(text: &str) -> Option<i64> {
        let (_, value) = entries(text).filter(|(key, _)| *key == "version").last()?;
        i64::from_str_radix(value, 16).ok()
    }

    fn set_property(&mut self, key: &str, value: &str) -> Result<(), ConfigParseError> {
        let wrong = |why: &str| ConfigParseError::Value(key.to_owned(), why.to_owned());
        let number = || {
            let (_, number) = key.split_once('.').ok_or_else(|| wrong("it needs a number after a dot"))?;
            number.parse::<i64>().map_err(|_| wrong("the part after the dot is not a number"))
        };
        if key.starts_with("server.") {
            let member = parse_server_spec(value, MultiAddress::Enabled).map_err(|why| wrong(&why))?;
            self.members.insert(ServerId(number()?), member);
        } else if key.starts_with("group") {
            let group = number()?;
            let groups = self.groups.get_or_insert_with(Groups::default);
            for member in value.split(':') {
                let server = member.trim().parse().map_err(|_| wrong("members are numbers, as in 1:2:3"))?;
                if groups.group_of.insert(ServerId(server), group).is_some() {
                    return Err(ConfigParseError::Groups(format!("Server {server} is in multiple groups")));
                }
            }
        } else if key.starts_with("weight") {
            let weight = value.parse().map_err(|_| wrong("a weight is a whole number"))?;
            let groups = self.groups.get_or_insert_with(Groups::default);
            groups.weight_of.insert(ServerId(number()?), weight);
        } else if key == "version" {
            self.version =
                i64::from_str_radix(value, 16).map_err(|_| wrong("it is not a hexadecimal number"))?;
        } else {
            return Err(ConfigParseError::UnknownKey(key.to_owned()));
        }
        Ok(())
    }

    fn check_groups(&mut self) -> Result<(), ConfigParseError> {
        let voters: BTreeSet<ServerId> = self.voters().collect();
        let Some(groups) = &mut self.groups else { return Ok(()) };
        groups.set_default_weights(&self.members);
        if let Some(server) = voters.iter().find(|server| !groups.group_of.contains_key(server)) {
            return Err(ConfigParseError::Groups(format!("Server {} is not in a group", server.0)));
        }
        groups.hierarchy(&voters).map(|_| ()).map_err(|why| ConfigParseError::Groups(why.to_string()))
    }

    /// The lines of a dynamic config file: sorted, without the version.
    pub fn sorted_lines(&self) -> Vec<String> {
        let mut lines = self.lines();
        lines.sort();
        lines
    }

    fn lines(&self) -> Vec<String> {
        let members = in_java_order(self.members.iter().map(|(id, member)| (id.0, member)));
        let mut lines: Vec<String> =
            members.into_iter().map(|(id, member)| format!("server.{id}={member}")).collect();
        if let Some(groups) = &self.groups {
            let mut members: BTreeMap<i64, Vec<String>> = BTreeMap::new();
            for (id, group) in in_java_order(groups.group_of.iter().map(|(id, group)| (id.0, *group))) {
                members.entry(group).or_default().push(id.to_string());
            }
            let members = in_java_order(members.into_iter());
            lines.extend(members.iter().map(|(group, of)| format!("group.{group}={}", of.join(":"))));
            let weights = in_java_order(groups.weight_of.iter().map(|(id, weight)| (id.0, *weight)));
            lines.extend(weights.iter().map(|(id, weight)| format!("weight.{id}={weight}")));
        }
        lines
    }
}

impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in self.lines() {
            writeln!(f, "{line}")?;
        }
        write!(f, "version={:x}", self.version)
    }
}

impl fmt::Display for ServerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut addresses: Vec<&PeerAddress> = self.addresses.iter().collect();
        addresses.sort_by(|a, b| a.host.cmp(&b.host));
        for (index, address) in addresses.into_iter().enumerate() {
            let separator = if index == 0 { "" } else { "|" };
            let host = bracketed(&address.host);
            write!(f, "{separator}{host}:{}:{}", address.quorum_port, address.election_port)?;
        }
        f.write_str(match self.role {
            Role::Participant => ":participant",
            Role::Observer => ":observer",
        })?;
        match (&self.client, &self.secure_client) {
            (None, None) => Ok(()),
            (Some(client), None) => write!(f, ";{client}"),
            (Some(client), Some(secure)) => write!(f, ";{client};{secure}"),
            (None, Some(secure)) => write!(f, ";;{secure}"),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// The keys and values of a property file. Escapes are not supported, because no config line needs them.
fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(['\n', '\r'])
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with(['#', '!']))
        .map(|line| {
            let end = line.find(['=', ':', ' ', '\t']).unwrap_or(line.len());
            let rest = line[end..].trim_start();
            (&line[..end], rest.strip_prefix(['=', ':']).unwrap_or(rest).trim())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As three releases of ZooKeeper print them.
    const TEXTS: [&str; 5] = [
        "server.1=127.0.0.1:2888:3888:participant\nserver.2=127.0.0.1:2889:3889:participant\nversion=0",
        "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.4=zk4:2888:3888:observer;zk4:2181\n\
         version=100000003",
        "server.1=[2001:db8::1]:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181\nversion=ffffffff",
        "server.1=a:1:2|b:3:4:participant;;0.0.0.0:2281\nversion=a",
        "server.1=a:1:2:participant\nserver.2=b:1:2:participant\nserver.3=c:1:2:observer\ngroup.1=1\n\
         group.2=2\nweight.1=1\nweight.2=3\nversion=5",
    ];

    #[test]
    fn what_was_printed_is_read_and_printed_again() {
        for text in TEXTS {
            let configuration = Configuration::parse(text).unwrap();
            assert_eq!(configuration.to_string(), text);
            assert_eq!(Configuration::version_of(text), Some(configuration.version));
        }
    }

    /// A writer that accepts this many bytes.
    struct Full(usize);

    impl fmt::Write for Full {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_printed_as_a_whole_is_an_error() {
        for text in TEXTS {
            let configuration = Configuration::parse(text).unwrap();
            for room in 0..text.len() {
                assert!(
                    fmt::write(&mut Full(room), format_args!("{configuration}")).is_err(),
                    "{room}: {text}"
                );
            }
            assert!(fmt::write(&mut Full(text.len()), format_args!("{configuration}")).is_ok());
            for member in configuration.members.values() {
                let length = member.to_string().len();
                for room in 0..length {
                    assert!(fmt::write(&mut Full(room), format_args!("{member}")).is_err(), "{room}: {text}");
                }
                assert!(fmt::write(&mut Full(length), format_args!("{member}")).is_ok());
            }
        }
    }

    #[test]
    fn what_people_write() {
        let text = "# ours\n\n server.1 = zk1:2888:3888;2181\r\nserver.2:zk2:2888:3888:OBSERVER ; 2181\n";
        let configuration = Configuration::parse(text).unwrap();
        assert_eq!(
            configuration.to_string(),
            "server.1=zk1:2888:3888:participant;0.0.0.0:2181\nserver.2=zk2:2888:3888:observer;0.0.0.0:2181\n\
             version=0"
        );
        assert_eq!(Configuration::version_of(text), None);
        let weighted = "server.1=a:1:2\nserver.2=a:3:4\ngroup.1=1:2\nweight.2=0";
        assert!(Configuration::parse(weighted).unwrap().to_string().contains("weight.1=1\nweight.2=0\n"));
    }

    /// An observer has no default weight, and no vote even if it is in a group with a weight.
    #[test]
    fn weights_are_for_participants() {
        let text = "server.1=a:1:2\nserver.2=a:3:4\nserver.3=a:5:6:observer\ngroup.1=1:2";
        let printed = Configuration::parse(text).unwrap().to_string();
        assert!(printed.ends_with("group.1=1:2\nweight.1=1\nweight.2=1\nversion=0"), "{printed}");
        let text = "server.1=a:1:2\nserver.2=a:3:4:observer\ngroup.1=1:2\nweight.1=2\nweight.2=1";
        let quorum = Configuration::parse(text).unwrap().quorum();
        assert_eq!(quorum.voters().collect::<Vec<_>>(), [ServerId(1)]);
        assert!(quorum.is_quorum(&BTreeSet::from([ServerId(1)])));
    }

    /// Large ids, as ZooKeeper 3.9.5 orders them.
    #[test]
    fn lines_have_the_order_of_javas_maps() {
        let text = "server.2=a:1:2\nserver.17=b:1:2\nserver.16=c:1:2\ngroup.20=16:2\ngroup.3=17";
        let lines = Configuration::parse(text).unwrap().to_string();
        let keys: Vec<&str> = lines.lines().filter_map(|line| line.split('=').next()).collect();
        let expected = "server.16 server.17 server.2 group.3 group.20 weight.16 weight.17 weight.2 version";
        assert_eq!(keys.join(" "), expected);
        assert!(lines.contains("group.20=16:2\n"));
    }

    #[test]
    fn what_is_no_configuration() {
        for (text, why) in [
            ("clientPort=1", "clientPort is not allowed; allowed: server.N, group.N, weight.N, version"),
            ("server.x=a:1:2", "server.x: the part after the dot is not a number"),
            ("version=zz", "version: it is not a hexadecimal number"),
            ("server.1=a:1:2\ngroup.1=1\ngroup.2=1", "Server 1 is in multiple groups"),
            ("server.1=a:1:2\nserver.2=a:3:4\ngroup.1=1", "Server 2 is not in a group"),
            ("server.1=a:1:2\ngroup.1=1\nweight.1=0", "no group has any weight, so there is no quorum"),
            ("server.1=a:1:2\ngroup.1=1\nweight.x=0", "weight.x: the part after the dot is not a number"),
            ("server.1=a:1:2\ngroup.1=1\nweight.1=x", "weight.1: a weight is a whole number"),
            ("server.1=a:1:2\ngroup=1", "group: it needs a number after a dot"),
            (
                "server.1=a:1:2\nserver.2=a:3:4:observer\ngroup.1=1:2",
                "server 2 is in a group, but is not a participant; remove it from the group",
            ),
            (
                "server.1=a:1:2\nserver.2=a:3:4\ngroup.1=1:2\nweight.1=9223372036854775807",
                "the weights of group 1 are too large to be added up",
            ),
            (
                "server.1=a:1:2\ngroup.1=1:7",
                "server 7 is in a group, but is not a participant; remove it from the group",
            ),
        ] {
            assert_eq!(Configuration::parse(text).unwrap_err().to_string(), why);
        }
        assert!(Configuration::parse("server.1=a:1").is_err());
        assert!(Configuration::parse("server.1=a:1:2\ngroup.1=x").is_err());
    }

    proptest::proptest! {
        /// Every text is refused, or parses to a config that prints and parses again to the same.
        #[test]
        fn any_text(text in "((server|group|weight|version)[.]?[0-9a-z]{0,3}[=:]?[a-z0-9:;|.,-]{0,30}(\n|,| )?){0,5}") {
            if let Ok(read) = Configuration::parse(&text) {
                proptest::prop_assert_eq!(Configuration::parse(&read.to_string()).unwrap(), read);
            }
        }

        #[test]
        fn members_of_any_kind(
            ids in proptest::collection::btree_map(0..300i64, (1..9u16, proptest::bool::ANY, 0..3u8), 1..6),
            version in 0..i64::MAX,
        ) {
            let line = |(id, (port, observes, client)): (&i64, &(u16, bool, u8))| {
                let role = if *observes { "observer" } else { "participant" };
                let client = [String::new(), format!(";h{id}:{port}"), format!(";;h{id}:{port}")][*client as usize].clone();
                format!("server.{id}=h{id}:{port}:1{port}:{role}{client}\n")
            };
            let text = format!("{}version={version:x}", ids.iter().map(line).collect::<String>());
            let printed = Configuration::parse(&text).unwrap().to_string();
            let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
            proptest::prop_assert_eq!(sorted(&printed), sorted(&text));
        }
    }
}
