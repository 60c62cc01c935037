//! Every server of a committed config can start with the files that are written for it.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use zebu_proto::Zxid;
use zebu_zab::membership::{ConfigChange, ConfigChangeRules, MultiAddress};

use super::static_file::{ClientAddressSource, ClientAddressSources, rewrite_static_file};
use super::*;
use crate::config::{ConfigInputs, SystemAccess, load};

/// A system on which every name resolves.
struct ResolvingSystem(BTreeMap<PathBuf, Vec<u8>>);

impl SystemAccess for ResolvingSystem {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)])
    }

    fn interface_index(&self, _: &str) -> io::Result<u32> {
        Ok(1)
    }

    fn is_directory(&self, _: &Path) -> bool {
        false
    }
}

/// The static file after a config with or without client ports.
fn static_text(client: &str, lines: &str) -> String {
    format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\nreconfigEnabled=true\ndataDir=/data\n{client}{lines}\
         dynamicConfigFile=/zoo.cfg.dynamic.100000000\n"
    )
}

/// Starts a server with the files that an activated config writes.
fn start(
    me: ServerId,
    before: &str,
    now: &Configuration,
    client: Option<&HostPort>,
) -> Result<ServerConfig, String> {
    let own = now.members.get(&me);
    let place =
        |said: bool| if said { ClientAddressSource::DynamicFile } else { ClientAddressSource::StaticFile };
    let moved = ClientAddressSources {
        client: place(own.is_some_and(|own| own.client.is_some())),
        secure_client: place(own.is_some_and(|own| own.secure_client.is_some())),
    };
    let list = format!("/zoo.cfg.dynamic.{:x}", now.version);
    let files = BTreeMap::from([
        (PathBuf::from("/zoo.cfg"), rewrite_static_file(before.as_bytes(), &list, moved, client)),
        (PathBuf::from(&list), now.sorted_lines().join("\n").into_bytes()),
        (PathBuf::from("/data/myid"), format!("{}\n", me.0).into_bytes()),
    ]);
    let inputs = ConfigInputs {
        arguments: vec!["/zoo.cfg".to_owned()],
        properties: Vec::new(),
        environment: Default::default(),
    };
    let loaded = load(&inputs, &ResolvingSystem(files));
    loaded.config.ok_or_else(|| loaded.diagnostics.errors.iter().map(|error| format!("{error}\n")).collect())
}

fn committed(client: &str) -> Configuration {
    let line = |id: i64| format!("server.{id}=h{id}:2888:3888{client}\n");
    let text = format!("{}{}{}version=100000000", line(1), line(2), line(3));
    Configuration::parse(&text).unwrap()
}

/// Usual host names, and odd ones.
fn host() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z][a-z0-9.-]{0,6}",
        1 => Just("[::1]".to_owned()),
        1 => Just("[fe80::1%eth0]".to_owned()),
        1 => Just("0.0.0.0".to_owned()),
        2 => "[ -~\u{a0}-\u{17f}\n\t]{1,5}",
        1 => "\\\\u[0-9a-z]{1,4}",
    ]
}

fn address() -> impl Strategy<Value = String> {
    (host(), 1..6u16, 1..6u16).prop_map(|(host, quorum, election)| format!("{host}:{quorum}:{election}"))
}

fn line() -> impl Strategy<Value = String> {
    let role = prop_oneof![Just(""), Just(":participant"), Just(":observer")];
    let client = prop_oneof![
        Just(String::new()),
        (1..6u16).prop_map(|port| format!(";{port}")),
        (host(), 1..6u16).prop_map(|(host, port)| format!(";{host}:{port}")),
        (1..6u16, 1..6u16).prop_map(|(plain, secure)| format!(";{plain};{secure}")),
        (1..6u16).prop_map(|secure| format!(";;{secure}")),
    ];
    (-1..300i64, prop::collection::vec(address(), 1..3), role, client).prop_map(
        |(id, addresses, role, client)| format!("server.{}={}{role}{client}", id.min(9), addresses.join("|")),
    )
}

fn groups() -> impl Strategy<Value = Vec<String>> {
    let group = prop_oneof!["group.[0-9]=[1-9](:[1-9]){0,3}", "weight.[0-9]=-?[0-9]{1,3}"];
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(group, 1..4)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_leader_accepts_a_start_accepts(
        lines in prop::collection::vec(line(), 0..5),
        groups in groups(),
        complete in any::<bool>(),
        leaving in "([1-4](,[1-4])?)?",
        client_ports in any::<bool>(),
        several in any::<bool>(),
    ) {
        let committed = committed(if client_ports { ";2181" } else { "" });
        let text = [lines, if complete { groups } else { Vec::new() }].concat().join(",");
        let change = match complete {
            true => ConfigChange::Complete(&text),
            false => ConfigChange::Incremental { joining: Some(&text), leaving: Some(&leaving) },
        };
        let addresses = if several { MultiAddress::Enabled } else { MultiAddress::Disabled };
        let rules = ConfigChangeRules { voters_min: 2, addresses };
        let Ok(next) = committed.with_change(change, Zxid(0x1_0000_0007), rules) else { return Ok(()) };
        let switch = if several { "multiAddress.enabled=true\n" } else { "" };
        let before = static_text(if client_ports { "" } else { "clientPort=2181\n" }, switch);
        let client = HostPort { host: "0.0.0.0".to_owned(), port: 2181 };
        for me in next.members.keys() {
            let config = match start(*me, &before, &next, Some(&client)) {
                Ok(config) => config,
                Err(errors) => return Err(TestCaseError::fail(format!("server {}: {errors}{next}", me.0))),
            };
            prop_assert_eq!(ensemble_config(&config).to_string(), next.to_string());
        }
    }
}

/// Configs that were committed before the leader refused them, or by a ZooKeeper leader.
#[test]
fn every_committed_list_can_be_started_with() {
    for line in [
        "server.1=a:1:2|b:1:2:participant;2181",
        "server.1=a:1:2:participant;2181;2281",
        "server.1=[fe80::1%eth0]:1:2:participant;[fe80::1%eth0]:2181",
    ] {
        let text = format!("{line}\nserver.2=b:3:4;2181\nserver.3=c:3:4;2181\nversion=100000005");
        let list = Configuration::parse(&text).unwrap();
        for me in [1, 2, 3] {
            let config = start(ServerId(me), &static_text("", ""), &list, None).unwrap();
            assert_eq!(config.membership.members, list.members, "{line}");
        }
    }
}
