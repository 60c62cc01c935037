//! Where servers listen for their peers: every address of every own name, both families, several addresses.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;

use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use addresses::{prepare, run_with_hosts};
use ensemble::{Ensemble, TIME_LIMIT, block_on};
use zebu_testing::four_letter;

const V4: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const V6: IpAddr = IpAddr::V6(Ipv6Addr::LOCALHOST);

/// Waits for a leader and writes something, so that quorum links are known to work too.
fn serves(ensemble: &Ensemble) {
    ensemble.await_leader(ensemble.clients.len());
    block_on(async {
        let client = ensemble.client(&[0, 1, 2]).await;
        client.create("/written").await.unwrap();
    });
}

/// Every peer port of every server is open at these addresses.
fn listen_at(ensemble: &Ensemble, addresses: &[IpAddr]) {
    for [quorum, election] in &ensemble.ports {
        for (address, port) in addresses.iter().flat_map(|address| [(address, quorum), (address, election)]) {
            let address = SocketAddr::new(*address, *port);
            let connected = TcpStream::connect_timeout(&address, Duration::from_secs(10));
            assert!(connected.is_ok(), "nobody listens at {address}: {connected:?}\n{}", ensemble.logs());
        }
    }
}

#[test]
fn a_name_with_two_families_is_listened_on_in_both() {
    if !Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        eprintln!("not run: this machine has no user namespaces, which another /etc/hosts needs");
        return;
    }
    let line = |_, id, quorum, election| format!("server.{id}=duo:{quorum}:{election}");
    let mut ensemble = prepare(3, "initLimit=20", &line);
    let hosts = ensemble.home.path().join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost duo\n::1 localhost duo\n").unwrap();
    (0..3).for_each(|index| run_with_hosts(&mut ensemble, index, &hosts));
    serves(&ensemble);
    listen_at(&ensemble, &[V4, V6]);
    let [_, election] = ensemble.ports[0];
    let logs = ensemble.logs();
    let said = format!("[::1]:{election}, 127.0.0.1:{election}");
    assert!(logs.contains("listening for peers") && logs.contains(&said), "{said}\n{logs}");
}

#[test]
fn all_interfaces_are_those_of_both_families() {
    let line = |_, id, quorum, election| format!("server.{id}=[::1]:{quorum}:{election}");
    let mut ensemble = prepare(3, "initLimit=20\nquorumListenOnAllIPs=true", &line);
    (0..3).for_each(|index| ensemble.run(index));
    serves(&ensemble);
    listen_at(&ensemble, &[V4, V6]);
}

/// The first address of each server in the config is closed, so that the servers use the second one.
#[test]
fn several_addresses_are_listened_on_and_dialled() {
    let line = |by: usize, id: usize, quorum: u16, election: u16| {
        let both = format!("127.0.0.1:{quorum}:{election}|[::1]:{quorum}:{election}");
        if by == id { format!("server.{id}={both}") } else { format!("server.{id}=127.0.0.1:1:2|{both}") }
    };
    let mut ensemble = prepare(3, "initLimit=20\nmultiAddress.enabled=true", &line);
    (0..3).for_each(|index| ensemble.run(index));
    serves(&ensemble);
    listen_at(&ensemble, &[V4, V6]);
}

#[test]
fn several_addresses_are_announced() {
    let line = |_, id, quorum, election| {
        format!("server.{id}=127.0.0.1:{quorum}:{election}|[::1]:{quorum}:{election}")
    };
    let mut ensemble = prepare(3, "initLimit=20\nmultiAddress.enabled=true", &line);
    let other = TcpListener::bind((V4, ensemble.ports[1][1])).unwrap();
    ensemble.run(0);
    let (mut stream, _) = other.accept().unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let mut head = [0; 20];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..8], (-65535i64).to_be_bytes(), "the form for several addresses");
    assert_eq!(head[8..16], 1i64.to_be_bytes());
    let mut addresses = vec![0; i32::from_be_bytes(head[16..].try_into().unwrap()) as usize];
    stream.read_exact(&mut addresses).unwrap();
    let [_, election] = ensemble.ports[0];
    let expected = format!("127.0.0.1:{election}|[::1]:{election}");
    assert_eq!(String::from_utf8(addresses).unwrap(), expected);
}

#[test]
fn addresses_may_have_a_zone() {
    let line = |_, id, quorum, election| format!("server.{id}=[::1%lo]:{quorum}:{election}");
    let mut ensemble = prepare(3, "initLimit=20", &line);
    for index in 0..3 {
        let file = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("clientPortAddress=127.0.0.1", "clientPortAddress=::1%lo")).unwrap();
        ensemble.clients[index].set_ip(V6);
        ensemble.run(index);
    }
    serves(&ensemble);
    listen_at(&ensemble, &[V6]);
    let status = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .arg("status")
        .arg(ensemble.home.path().join("zoo0.cfg"))
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
}

#[test]
fn a_zone_that_is_no_interface_is_a_mistake() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort=2181\nclientPortAddress=::1%no-such-if\n",
        directory.path().display()
    );
    fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_zebu")).arg("check").arg(&config).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("names a zone that is no network interface of this machine"), "{said}");
}

/// Another process has the second address of the election port only.
#[test]
fn a_port_of_peers_that_is_in_use_is_tried_again_and_then_given_up() {
    let line = |_, id, quorum, election| {
        format!("server.{id}=127.0.0.1:{quorum}:{election}|[::1]:{quorum}:{election}")
    };
    let more = "initLimit=20\nmultiAddress.enabled=true\nelectionPortBindRetry=1";
    let mut ensemble = prepare(3, more, &line);
    let other = TcpListener::bind((V6, ensemble.ports[0][1])).unwrap();
    ensemble.run(0);
    let mut child = ensemble.children[0].take().unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(14), "{}", ensemble.logs());
    assert!(ensemble.logs().contains("a port for peers is in use; trying again"), "{}", ensemble.logs());
    assert!(!ensemble.data(0).join("version-2").exists(), "files were touched");
    drop(other);
    let checked = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .arg("check")
        .arg(ensemble.home.path().join("zoo0.cfg"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    ensemble.run(0);
    let asked = || four_letter::ask(ensemble.clients[0], "srvr", Duration::from_secs(5)).ok();
    while asked().is_none() {
        assert!(Instant::now() < deadline, "it never started\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
