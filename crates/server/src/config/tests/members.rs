//! The servers of an ensemble, and the settings that a member needs.

use zebu_zab::membership::MultiAddress;

use super::*;
use crate::config::peer_config::PeerConfig;

const THREE: &str =
    "initLimit=10\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";

#[test]
fn an_ensemble_is_checked() {
    assert!(with_base(THREE).other_file("/data/myid", "2\n").config().membership.is_ensemble());
    with_base(THREE).errors(&[
        "/data/myid: myid file is missing; it must hold the number N of this server's server.N line",
    ]);
    with_base(THREE)
        .other_file("/data/myid", "7")
        .errors(&["/data/myid: My id 7 not in the peer list; listed: 1, 2, 3"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2\n").other_file("/data/myid", "1").errors(&[
        "zoo.cfg: initLimit is not set; an ensemble needs it",
        "zoo.cfg: syncLimit is not set; an ensemble needs it",
    ]);
    let one = "standaloneEnabled=false\ninitLimit=1\nsyncLimit=1\nserver.1=a:1:2\n";
    assert!(with_base(one).other_file("/data/myid", "1").config().membership.is_ensemble());
}

#[test]
fn the_time_of_a_drain() {
    let time = |text: &str| with_base(text).config().sessions.drain_time;
    assert_eq!(time(""), Duration::from_secs(5));
    assert_eq!(time("zebu.drainTime=250\n"), Duration::from_millis(250));
    assert_eq!(time("zebu.drainTime=0\n"), Duration::ZERO);
    assert!(with_base("zebu.drainTime=soon\n").load().config.is_none());
}

#[test]
fn sizes_of_ensembles() {
    with_base("server.1=a:1:2\n").warnings(&["zoo.cfg: only one server is listed, so it runs standalone"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2\n")
        .warnings(&["zoo.cfg: two servers tolerate no failure; three is the smallest useful ensemble"]);
    with_base(&format!("{THREE}server.4=d:1:2\n"))
        .warnings(&["zoo.cfg: 4 servers tolerate no more failures than 3"]);
    with_base("server.1=a:1:2:observer\n")
        .errors(&["zoo.cfg: Observers w/o participants is an invalid configuration"]);
    with_base("server.1=a:1:2\nserver.2=b:1:2:observer\n")
        .errors(&["zoo.cfg: Observers w/o quorum is an invalid configuration"]);
    with_base("standaloneEnabled=false\n")
        .errors(&["zoo.cfg: standaloneEnabled = false then number of participants should be >0"]);
}

#[test]
fn a_single_member_line_may_hold_the_client_port() {
    let case = file("dataDir=/data\nserver.1=zk1.example:2888:3888;2191\n").other_file("/data/myid", "1");
    let config = case.config();
    assert_eq!(config.listen.client, Some(address("0.0.0.0:2191")));
    assert_eq!(config.server_id(), Some(ServerId(1)));
    let both = |first: &str| {
        let text = format!("dataDir=/data\n{first}\nserver.1=a:2888:3888;10.0.0.1:2191\n");
        file(&text).other_file("/data/myid", "1")
    };
    both("clientPort=2191").config();
    both("clientPort=2191\nclientPortAddress=zk1.example").config();
    both("clientPort=2181").errors(&["zoo.cfg:2: clientPort and clientPortAddress give *:2181, \
        this server's server.N line gives 10.0.0.1:2191; they must agree"]);
    both("clientPort=2191\nclientPortAddress=10.0.0.2").errors(&["zoo.cfg:2: clientPort and \
        clientPortAddress give 10.0.0.2:2191, \
        this server's server.N line gives 10.0.0.1:2191; they must agree"]);
}

#[test]
fn tls_client_port_of_a_member_is_a_wish_for_protection() {
    with_base("server.1=a:1:2;2181;2281\n").errors(&["zoo.cfg:4: server.1 (its TLS client port) asks for \
        protection that this version does not have; remove it, or start without protection with \
        -Dzebu.startUnprotected=true"]);
}

#[test]
fn member_lines_with_mistakes() {
    with_base("server.x=a:1:2\nserver.1=a:1\n").errors(&[
        "zoo.cfg:4: server.x is not valid; allowed: server.N with a whole number N",
        "zoo.cfg:5: server.1 = \"a:1\" is not valid: \"a:1\" does not have 3 or 4 parts; \
         the form is host:quorumPort:electionPort[:role][;[host:]clientPort]",
    ]);
    with_base("server.1=a:1:2|b:1:2\n").errors(&["zoo.cfg:4: server.1 = \"a:1:2|b:1:2\" is not valid: \
        it has several addresses; set multiAddress.enabled=true to allow that"]);
    let many = with_base("multiAddress.enabled=true\nserver.1=a:1:2|b:1:2\n").config();
    assert_eq!(many.membership.members[&ServerId(1)].addresses.len(), 2);
    with_base("server.1=a:1:2|b:1:2\n").word("zookeeper.multiAddress.enabled=true").config();
}

#[test]
fn how_peers_are_reached() {
    let peers = |text: &str| with_base(text).config().membership.peers;
    assert_eq!(peers(""), PeerConfig::default());
    let all = peers(
        "cnxTimeout=7\nquorumCnxnTimeoutMs=8\ntcpKeepAlive=true\nelectionPortBindRetry=9\n\
         fastleader.minNotificationInterval=10\nfastleader.maxNotificationInterval=11\nmultiAddress.enabled=true\n",
    );
    let expected = PeerConfig {
        connect_timeout: Duration::from_millis(7),
        identification_timeout: Some(Duration::from_millis(8)),
        tcp_keep_alive: true,
        bind_retries: Some(9),
        notification_interval_min: Duration::from_millis(10),
        notification_interval_max: Duration::from_millis(11),
        address_support: MultiAddress::Enabled,
    };
    assert_eq!(all, expected);
    assert_eq!(peers("electionPortBindRetry=0\n").bind_retries, None, "for ever");
    assert_eq!(peers("electionPortBindRetry=-1\nquorumCnxnTimeoutMs=-1\n"), PeerConfig::default());
    with_base("fastleader.minNotificationInterval=90000\n")
        .warnings(&["zoo.cfg: fastleader.maxNotificationInterval \
        is shorter than fastleader.minNotificationInterval; 90000 milliseconds are used for both"]);
}

#[test]
fn keys_of_members_without_effect_are_noted() {
    with_base("multiAddress.reachabilityCheckTimeoutMs=5\nleader.nodelay=true\nlearner.asyncSending=true\n")
        .notes(&[
            "zoo.cfg:4: multiAddress.reachabilityCheckTimeoutMs has no effect: connections are attempted to all \
             addresses, and the first that answers is used",
            "zoo.cfg:5: leader.nodelay has no effect: connections between servers are never delayed",
            "zoo.cfg:6: learner.asyncSending has no effect: packets are always sent without blocking",
        ]);
}

/// Servers must be able to start with a config that the ensemble committed.
#[test]
fn a_committed_list_with_several_addresses_is_started_with() {
    let list = "server.1=a:1:2|b:1:2:participant;2181\nserver.2=c:1:2;2181;2281\nserver.3=d:1:2;2181\n";
    let with = |name: &str| {
        file(&format!("tickTime=2000\ndataDir=/data\ninitLimit=1\nsyncLimit=1\ndynamicConfigFile={name}\n"))
            .other_file(name, list)
            .other_file("/data/myid", "1")
    };
    let committed = with("/zoo.cfg.dynamic.100000005");
    assert_eq!(committed.config().membership.members[&ServerId(1)].addresses.len(), 2);
    committed.warnings(&[
        "/zoo.cfg.dynamic.100000005:1: server.1 has several addresses although multiAddress.enabled is not true; \
         all of them are used. Set multiAddress.enabled=true on all servers, or give server.1 one address with \
         reconfig",
        "/zoo.cfg.dynamic.100000005:2: the TLS client port of server.2 is not opened: this version has no TLS",
    ]);
    let errors = texts(&with("/zoo.cfg.dynamic").load().diagnostics.errors).join("\n");
    let refused = ["it has several addresses", "server.2 (its TLS client port) asks for protection"];
    assert!(refused.iter().all(|why| errors.contains(why)), "a person wrote it: {errors}");
}

#[test]
fn how_observers_are_kept() {
    let observers = |text: &str| with_base(text).config().membership.observers;
    assert_eq!(observers(""), ObserverConfig::default());
    assert!(!observers("syncEnabled=false\n").sync_enabled);
    assert!(observers("syncEnabled=false\nobserver.syncEnabled=true\n").sync_enabled, "the property wins");
    let case = with_base("").word("zookeeper.observer.syncEnabled=false");
    assert!(!case.config().membership.observers.sync_enabled);
    assert_eq!(observers("observerMasterPort=2191\n").master_port, Some(2191));
    for off in ["0", "-1"] {
        assert_eq!(observers(&format!("observerMasterPort={off}\n")).master_port, None);
    }
    let slow =
        observers("observer.election.DelayMs=7\nobserver.reconnectDelayMs=8\nobserverMaster.sizeLimit=9\n");
    let delays = [slow.election_delay, slow.reconnect_delay].map(|delay| delay.as_millis());
    assert_eq!((delays, slow.master_history_bytes), ([7, 8], 9));
    with_base("observerMasterPort=65536\nsyncEnabled=1\n").errors(&[
        "zoo.cfg:4: observerMasterPort = \"65536\" is not valid; allowed: -2147483648 to 65535 (a TCP port)",
        "zoo.cfg:5: syncEnabled = \"1\" is not valid; allowed: true or false",
    ]);
}

#[test]
fn groups_and_weights() {
    let case = with_base("server.1=a:1:2\ngroup.1=1\nweight.1=3\n");
    let QuorumRuleConfig::Hierarchical { group_of, weight_of } = case.config().membership.quorum_rule else {
        panic!("not hierarchical")
    };
    assert_eq!(group_of, BTreeMap::from([(ServerId(1), 1)]));
    assert_eq!(weight_of, BTreeMap::from([(ServerId(1), 3)]));
    with_base("server.1=a:1:2\ngroup.1=1\ngroup.2=1:x\nweight.1=z\ngroupie=1\n").errors(&[
        "zoo.cfg:6: Server 1 is in multiple groups",
        "zoo.cfg:6: group.2 = \"1:x\" is not valid; allowed: server numbers separated by colons, as in 1:2:3",
        "zoo.cfg:7: weight.1 = \"z\" is not valid; allowed: a whole number",
        "zoo.cfg:8: groupie is not valid; allowed: group.N and weight.N",
    ]);
    with_base("server.1=a:1:2\nweight.1=1\n").errors(&["zoo.cfg:5: Server 1 is not in a group"]);
    for (lines, why) in [
        ("group.1=1\nweight.1=0\n", "no group has any weight, so there is no quorum"),
        ("group.1=1\nweight.1=-1\n", "weight.1=-1: a weight is zero or more"),
        ("group.1=1:2\n", "server 2 is in a group, but is not a participant; remove it from the group"),
    ] {
        with_base(&format!("server.1=a:1:2\n{lines}")).errors(&[&format!("zoo.cfg:5: {why}")]);
    }
}

#[test]
fn dynamic_file() {
    let static_part = "dynamicConfigFile=/conf/zoo.cfg.dynamic.1a\n";
    let case =
        with_base(static_part).other_file("/conf/zoo.cfg.dynamic.1a", "server.1=a:1:2:participant;2181\n");
    let membership = case.config().membership;
    assert_eq!(membership.version, 0x1a);
    assert_eq!(membership.dynamic_file, Some(PathBuf::from("/conf/zoo.cfg.dynamic.1a")));
    assert_eq!(membership.members[&ServerId(1)].role, Role::Participant);
    with_base(static_part)
        .other_file("/conf/zoo.cfg.dynamic.1a", "server.1=a:1:2\nversion=5\ntickTime=3\n")
        .errors(&[
            "/conf/zoo.cfg.dynamic.1a:2: version does not belong into the dynamic file; \
             it is part of the file's name",
            "/conf/zoo.cfg.dynamic.1a:3: tickTime does not belong into the dynamic file; \
             allowed: server.*, group.*, weight.*",
        ]);
    with_base(static_part)
        .errors(&["zoo.cfg:4: dynamicConfigFile /conf/zoo.cfg.dynamic.1a cannot be read: entity not found"]);
    with_base("server.1=a:1:2\ndynamicConfigFile=d.next\n")
        .other_file("d.next", "")
        .errors(&["zoo.cfg:4: server.1 must be in the dynamic file d.next, not here"]);
}

#[test]
fn my_id() {
    let id = |text: &str| with_base("").other_file("/data/myid", text);
    assert_eq!(id("5\nmore\n").clean().server_id(), Some(ServerId(5)));
    assert_eq!(id("5\r\n").clean().server_id(), Some(ServerId(5)));
    id("5 \n")
        .errors(&["/data/myid: serverid \"5 \" is not a number; the file must hold nothing else, no blank"]);
    id("300").warnings(&["/data/myid: serverid 300 does not fit into session ids; use 1 to 255"]);
    id("255").clean();
    with_base("extendedTypesEnabled=true\n").other_file("/data/myid", "255").errors(&[
        "/data/myid: serverid 255 is too large while extendedTypesEnabled=true; allowed: 1 to 254",
    ]);
}

#[test]
fn role_of_the_member_line_counts() {
    let case = with_base("peerType=observer\nserver.1=a:1:2\n").other_file("/data/myid", "1");
    case.warnings(&[
        "zoo.cfg:4: peerType differs from the role in this server's server.N line, which counts",
        "zoo.cfg: only one server is listed, so it runs standalone",
    ]);
}

#[test]
fn no_text_panics() {
    for text in ["server.=", "server.1=", "server.1=;;;", "group", "weight.=", "=", ":", "server.1=[", "\\"] {
        let _ = with_base(text).load();
    }
}

const MEMBERS: &str = "initLimit=10\nsyncLimit=5\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";

#[test]
fn what_keeps_a_member_from_a_mixed_ensemble_is_named() {
    let member = |text: &str| with_base(&format!("{MEMBERS}{text}")).other_file("/data/myid", "1\n");
    let mixed = |text: &str| texts(&member(text).load().diagnostics.apache_conflicts);
    assert_eq!(mixed("snapshot.compression.method=gz\n"), [""; 0]);
    let found = mixed("closeSessionTxn.enabled=false\n");
    let beginning = "zoo.cfg:9: closeSessionTxn.enabled=false: transactions";
    assert!(found.len() == 1 && found[0].starts_with(beginning), "{found:?}");
    assert_eq!(mixed("localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true\n"), [""; 0]);
    assert_eq!(
        texts(&with_base("closeSessionTxn.enabled=false\n").load().diagnostics.apache_conflicts),
        [""; 0],
        "it stands alone"
    );
    let versioned = |text: &str| {
        with_base(&format!("initLimit=10\nsyncLimit=5\ndynamicConfigFile=/zoo.cfg.dynamic.100000002\n{text}"))
            .other_file("/zoo.cfg.dynamic.100000002", "server.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n")
            .other_file("/data/myid", "1\n")
    };
    assert_eq!(
        texts(&versioned("").load().diagnostics.apache_conflicts),
        ["zoo.cfg:6: dynamicConfigFile /zoo.cfg.dynamic.100000002 has the version 0x100000002: without \
             reconfigEnabled=true this version announces 0, and the others would refuse it; put the server.N lines \
             into zoo.cfg of every server instead"]
    );
    assert_eq!(texts(&versioned("reconfigEnabled=true\n").load().diagnostics.apache_conflicts), [""; 0]);
}

#[test]
fn what_must_be_the_same_on_all_members_is_a_note() {
    let text = format!("{MEMBERS}jute.maxbuffer=2000000\nlocalSessionsEnabled=true\n");
    let member = with_base(&text).other_file("/data/myid", "1\n").word("zookeeper.extendedTypesEnabled=true");
    let note = "zoo.cfg: in a mixed ensemble these must be the same on all servers: jute.maxbuffer, \
                extendedTypesEnabled, localSessionsEnabled";
    assert!(texts(&member.load().diagnostics.notes).iter().any(|line| line == note));
}

#[test]
fn what_follows_from_a_wrong_line_is_not_told() {
    let lines = "initLimit=10\nsyncLimit=5\nserver.1=zk1.example:x:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n";
    let case = with_base(lines).other_file("/data/myid", "1");
    let loaded = case.load();
    assert_eq!(loaded.diagnostics.warnings, []);
    let errors = texts(&loaded.diagnostics.errors);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with("zoo.cfg:6: server.1 = \"zk1.example:x:3888\" is not valid"), "{errors:?}");
}

#[test]
fn lines_that_contradict_each_other() {
    let limits = "initLimit=10\nsyncLimit=5\n";
    let twice = format!("{limits}server.1=a:1:2\nserver.01=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n");
    with_base(&twice)
        .other_file("/data/myid", "1")
        .warnings(&["zoo.cfg:6: server.1 is the same server as server.01; one of the two lines is lost"]);
    let one_place = format!("{limits}server.1=a:1:2\nserver.2=a:1:2\nserver.3=a:1:2\n");
    with_base(&one_place).other_file("/data/myid", "1").warnings(&[
        "zoo.cfg:7: server.1 and server.2 both listen on a:1; only one of them can",
        "zoo.cfg:8: server.2 and server.3 both listen on a:1; only one of them can",
    ]);
}

#[test]
fn the_number_that_stands_for_no_number() {
    let lines = "initLimit=10\nsyncLimit=5\nserver.-1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n";
    with_base(lines).other_file("/data/myid", "-1").errors(&[
        "/data/myid: serverid -1 stands for a missing file in ZooKeeper, which does not start with it; use 1 to 255",
    ]);
}

#[test]
fn clients_stay_between_leaders_for_two_ticks_unless_it_is_switched_off() {
    let grace = |lines: &str| with_base(lines).config().sessions.election_grace.as_millis();
    assert_eq!(grace("tickTime=3000\n"), 6000);
    assert_eq!(grace("zebu.electionGrace=0\n"), 0, "connections close as in ZooKeeper");
    assert_eq!(grace("zebu.electionGrace=1000\n"), 1000);
}
