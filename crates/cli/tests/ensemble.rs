//! Ensembles of real server processes: they elect a leader, give the same answers, and lose no acknowledged
//! write when any server is killed.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/dev_ports.rs"]
mod dev_ports;
#[path = "common/falsify.rs"]
mod falsify;
#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use tempfile::TempDir;
use zebu_testing::four_letter;

#[test]
fn writes_through_every_member_are_seen_by_all() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    // The root counts twice, as in ZooKeeper.
    let srvr = four_letter::ask(ensemble.clients[0], "srvr", TIME_LIMIT).unwrap();
    assert!(srvr.contains("Node count: 5\n"), "{srvr}");
    block_on(async {
        for index in 0..3 {
            let client = ensemble.client(&[index]).await;
            client.create(&format!("/from-{index}")).data(&b"x"[..]).await.unwrap();
            client.close().await.unwrap();
        }
        for index in 0..3 {
            let client = ensemble.client(&[index]).await;
            client.sync("/").await.unwrap();
            for other in 0..3 {
                assert_eq!(client.get(&format!("/from-{other}")).await.unwrap().data.as_ref(), b"x");
            }
            client.close().await.unwrap();
        }
    });
}

#[test]
fn status_and_words_show_the_ensemble() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[leader]).await;
        client.create("/x").await.unwrap();
        client.close().await.unwrap();
    });
    let list: Vec<String> = ensemble.clients.iter().map(ToString::to_string).collect();
    let status = || {
        let output = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["status", "--json", &list.join(",")])
            .output()
            .unwrap();
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), value)
    };
    let deadline = Instant::now() + TIME_LIMIT;
    // The leader may serve a moment before its second follower does.
    while status().1["servers"][leader]["synced_followers"] != 2 {
        assert!(Instant::now() < deadline, "{}", status().1);
        std::thread::sleep(Duration::from_millis(50));
    }
    let (code, value) = status();
    assert_eq!((code, &value["healthy"]), (Some(0), &true.into()), "{value}");
    let server = &value["servers"][leader];
    assert_eq!((&server["mode"], &server["epoch"]), (&"leader".into(), &1.into()), "{value}");
    for server in value["servers"].as_array().unwrap() {
        assert_eq!((&server["healthy"], server["reasons"].as_array().map(Vec::len)), (&true.into(), Some(0)));
        assert!(server["zxid_lag"].as_u64().is_some(), "{value}");
        assert_eq!(server["disk"]["digest_mismatches"], 0, "{value}");
        assert!(server["disk"]["fsync_ms_max"].is_u64() && server["disk"]["slow_fsyncs"].is_u64(), "{value}");
        assert_eq!(server["disk"]["snapshot_errors"], 0, "{value}");
    }
    let ask = |index: usize, word| four_letter::ask(ensemble.clients[index], word, TIME_LIMIT).unwrap();
    let monitor = ask(leader, "mntr");
    for line in ["zk_peer_state\tleading - broadcast\n", "zk_learners\t2\n", "zk_quorum_size\t3\n"] {
        assert!(monitor.contains(line), "{monitor}");
    }
    assert!(!ask(leader, "srvr").contains("Proposal sizes last/min/max: -1/"), "{}", ask(leader, "srvr"));
    let follower = (leader + 1) % 3;
    assert!(ask(follower, "mntr").contains("zk_peer_state\tfollowing - broadcast\n"));
    assert!(!ask(follower, "srvr").contains("Proposal sizes"));
    assert!(ask(follower, "conf").contains("membership: \nserver.1=127.0.0.1:"));
    ensemble.kill(follower);
    let (code, value) = status();
    assert_eq!((code, &value["reason"]), (Some(1), &"1 of 3 servers do not serve".into()), "{value}");
}

#[test]
fn a_wrong_digest_from_the_leader_is_counted() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let behind = (leader + 1) % 3;
    let others: Vec<usize> = (0..3).filter(|&index| index != behind).collect();
    block_on(async {
        let client = ensemble.client(&others).await;
        client.create("/a").await.unwrap();
        ensemble.kill(behind);
        client.create("/b").await.unwrap();
        client.create("/c").await.unwrap();
    });
    for &index in &others {
        ensemble.kill(index);
        let files = fs::read_dir(ensemble.data(index).join("version-2")).unwrap();
        let logs = files.map(|file| file.unwrap().path());
        let log = logs.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("log.")).max();
        falsify::falsify_last_digest(&log.unwrap());
    }
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    let monitor = four_letter::ask(ensemble.clients[behind], "mntr", TIME_LIMIT).unwrap();
    assert!(monitor.contains("zk_digest_mismatches_count\t1\n"), "{monitor}\n{}", ensemble.logs());
    let log = fs::read_to_string(ensemble.home.path().join(format!("log{behind}"))).unwrap();
    assert!(log.contains("the state differs from the leader's"), "{log}");
}

#[test]
fn a_killed_leader_is_replaced_and_catches_up() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[0, 1, 2]).await;
        client.create("/before").data(&b"1"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.kill(leader);
    let rest: Vec<usize> = (0..3).filter(|&index| index != leader).collect();
    let next = ensemble.await_leader(2);
    assert_ne!(next, leader);
    block_on(async {
        let client = ensemble.client(&rest).await;
        assert_eq!(client.get("/before").await.unwrap().data.as_ref(), b"1");
        client.create("/after").data(&b"2"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.run(leader);
    ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[leader]).await;
        client.sync("/").await.unwrap();
        assert_eq!(client.get("/after").await.unwrap().data.as_ref(), b"2");
        client.close().await.unwrap();
    });
}

#[test]
fn all_killed_at_once_lose_nothing() {
    let mut ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[0, 1, 2]).await;
        for number in 0..50 {
            client.create(&format!("/n{number}")).data(&b"x"[..]).await.unwrap();
        }
        // No farewell: the server knows nothing of the end of this client.
        drop(client);
    });
    (0..3).for_each(|index| ensemble.kill(index));
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[0, 1, 2]).await;
        for number in 0..50 {
            client.get(&format!("/n{number}")).await.unwrap();
        }
        client.close().await.unwrap();
    });
}

#[test]
fn a_member_without_data_takes_the_whole_state() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let follower = (leader + 1) % 3;
    ensemble.kill(follower);
    block_on(async {
        let client = ensemble.client(&[leader]).await;
        for number in 0..700 {
            client.create(&format!("/n{number}")).data(&b"x"[..]).await.unwrap();
        }
        client.close().await.unwrap();
    });
    fs::remove_dir_all(ensemble.data(follower).join("version-2")).unwrap();
    ensemble.run(follower);
    ensemble.await_leader(3);
    block_on(async {
        let client = ensemble.client(&[follower]).await;
        client.sync("/").await.unwrap();
        assert_eq!(client.children("/").await.unwrap().names.len(), 701);
        client.close().await.unwrap();
    });
}

/// A new leader refuses followers that connect too early, and they connect again. A follower that waited for
/// the limit would wait for an hour here.
#[test]
fn a_killed_leader_is_replaced_soon() {
    let mut ensemble = Ensemble::start_with(3, "initLimit=7200");
    for _ in 0..4 {
        let leader = ensemble.await_leader(3);
        ensemble.kill(leader);
        ensemble.await_leader(2);
        ensemble.run(leader);
    }
    ensemble.await_leader(3);
}

/// Another program may still have one of the ports: then others are tried.
fn dev(home: &TempDir, more: &[&str]) -> (Child, Vec<String>) {
    for _ in 0..10 {
        let port = dev_ports::first_free();
        let mut child = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["dev", "--servers", "3", "--port", &port.to_string(), "--directory"])
            .arg(home.path().join("dev"))
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            let (ended, leads) = (line.contains("has ended"), line.ends_with(": leader"));
            lines.push(line);
            if leads {
                return (child, lines);
            }
            if ended {
                break;
            }
        }
        // Its servers end with it if it is told; if it were killed, they would stay.
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let _ = child.wait();
    }
    panic!("no free ports for a local ensemble");
}

/// The first page of a console; `None` if the port does not answer.
fn page_of(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
    let head = format!("GET /console/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn a_local_ensemble_in_one_command() {
    let home = TempDir::new().unwrap();
    let (child, lines) = dev(&home, &[]);
    assert!(lines[0].starts_with("connect with: zebu -server 127.0.0.1:"), "{lines:?}");
    // Each server shows its console.
    let consoles: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("console: http://")).collect();
    assert_eq!(consoles.len(), 3, "{lines:?}");
    let deadline = Instant::now() + Duration::from_secs(60);
    for address in consoles.iter().map(|text| text.strip_suffix("/console/").unwrap()) {
        while !page_of(address).is_some_and(|page| page.contains("<title>Zebu")) {
            assert!(Instant::now() < deadline, "no console at {address}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    end(child);
}

/// Ends a local ensemble, whose servers end with it.
fn end(mut child: Child) {
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

/// What whoami answers to the command of a line.
fn who_am_i(line: &str) -> String {
    let (_, words) = line.split_once(": zebu ").unwrap();
    let shell = Command::new(env!("CARGO_BIN_EXE_zebu"))
        .args(words.split(' '))
        .args(["-q", "-timeout", "10000", "-waitforconnection", "whoami"])
        .output()
        .unwrap();
    String::from_utf8_lossy(&shell.stdout).into_owned() + &String::from_utf8_lossy(&shell.stderr)
}

#[test]
fn a_protected_ensemble_in_one_command() {
    let home = TempDir::new().unwrap();
    for words in [&["--tls"][..], &["--sasl"], &["--tls", "--sasl"]] {
        // A later start finds the files of an earlier one.
        let (child, lines) = dev(&home, words);
        let has = |word| words.contains(&word);
        assert!(!lines.iter().any(|line| line.contains("console")), "{lines:?}");
        let answer = who_am_i(&lines[0]);
        let of_super = has("--sasl").then(|| who_am_i(&lines[1]));
        // Without the login there is no session of use.
        let anonymous =
            has("--sasl").then(|| who_am_i(&lines[0].replace("-Djava.security.auth.login.config", "-Dx")));
        // Two servers make a quorum; the third may still wait for a port that is in use.
        let log: String = (1..=3)
            .filter_map(|n| std::fs::read_to_string(home.path().join(format!("dev/server-{n}.log"))).ok())
            .collect();
        end(child);
        assert_eq!(answer.contains("x509: CN=dev"), has("--tls"), "{words:?}: {answer}");
        assert_eq!(answer.contains("sasl: dev"), has("--sasl"), "{words:?}: {answer}");
        if let (Some(of_super), Some(anonymous)) = (of_super, anonymous) {
            assert!(of_super.contains("sasl: super") && of_super.contains("super: "), "{of_super}");
            assert!(!anonymous.contains("ip: "), "{anonymous}");
        }
        let secure = log.contains("Using TLS encrypted quorum communication");
        assert_eq!(secure, has("--tls"), "{words:?}: {log}");
        assert!(!log.contains("quorum.auth"), "no warning about SASL: {log}");
    }
    let mode = std::fs::metadata(home.path().join("dev/jaas.conf")).unwrap().permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
}
