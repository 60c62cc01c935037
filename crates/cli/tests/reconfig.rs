//! Members that change while clients go on: real server processes, from the first list in zoo.cfg to the
//! files that the servers write themselves.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_client::{Client, ErrorCode};
use zebu_testing::{four_letter, port};

/// How long an ensemble may take to get somewhere. Far more than it needs: it decides nothing.
const TIME_LIMIT: Duration = Duration::from_secs(60);

struct Server {
    client: SocketAddr,
    quorum: u16,
    election: u16,
    child: Option<Child>,
}

/// Servers by number, from 1. Those that are no members yet have their place already.
struct Ensemble {
    home: TempDir,
    servers: Vec<Server>,
}

impl Ensemble {
    /// So many places, of which the first `members` form the ensemble.
    fn start(places: usize, members: usize) -> Ensemble {
        Ensemble::start_with(places, members, "reconfigEnabled=true")
    }

    fn start_with(places: usize, members: usize, line: &str) -> Ensemble {
        let home = TempDir::new().unwrap();
        let mut addresses: Vec<SocketAddr> = Vec::new();
        while addresses.len() < 3 * places {
            let address = port::free_address().unwrap();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let server = |of: &[SocketAddr]| Server {
            client: of[0],
            quorum: of[1].port(),
            election: of[2].port(),
            child: None,
        };
        let servers = addresses.chunks(3).map(server).collect();
        let mut ensemble = Ensemble { home, servers };
        for id in 1..=places {
            let listed: Vec<usize> = (1..=members).chain((id > members).then_some(id)).collect();
            ensemble.configure(id, &listed, line);
        }
        (1..=members).for_each(|id| ensemble.run(id));
        ensemble
    }

    fn server(&self, id: usize) -> &Server {
        &self.servers[id - 1]
    }

    fn config(&self, id: usize) -> PathBuf {
        self.home.path().join(format!("zoo{id}.cfg"))
    }

    fn configure(&self, id: usize, listed: &[usize], line: &str) {
        let data = self.home.path().join(format!("data{id}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("myid"), format!("{id}\n")).unwrap();
        let members: String =
            listed.iter().map(|&of| format!("{}\n", self.line(of, "participant"))).collect();
        let text = format!(
            "# written by hand\ntickTime=500\ninitLimit=20\nsyncLimit=10\n{line}\nskipACL=yes\n\
             standaloneEnabled=false\ndataDir={}\n4lw.commands.whitelist=*\nadmin.enableServer=false\n\
             {members}# the end\n",
            data.display()
        );
        fs::write(self.config(id), text).unwrap();
    }

    fn line(&self, id: usize, role: &str) -> String {
        let Server { client, quorum, election, .. } = self.server(id);
        format!("server.{id}=127.0.0.1:{quorum}:{election}:{role};127.0.0.1:{}", client.port())
    }

    fn run(&mut self, id: usize) {
        let log = self.home.path().join(format!("log{id}"));
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .arg("serve")
            .arg(self.config(id))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.servers[id - 1].child = Some(child);
    }

    fn kill(&mut self, id: usize) {
        let mut child = self.servers[id - 1].child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn mode(&self, id: usize) -> Option<String> {
        let text = four_letter::ask(self.server(id).client, "srvr", Duration::from_secs(5)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// Waits until these servers serve, one as the leader, and returns the leader.
    fn await_leader(&self, ids: &[usize]) -> usize {
        self.until(|| {
            let modes: Vec<_> = ids.iter().map(|&id| (id, self.mode(id))).collect();
            let mut leaders = modes.iter().filter(|(_, mode)| mode.as_deref() == Some("leader"));
            let leader = leaders.next().map(|(id, _)| *id)?;
            (leaders.next().is_none() && modes.iter().all(|(_, mode)| mode.is_some())).then_some(leader)
        })
    }

    fn await_mode(&self, id: usize, mode: &str) {
        self.until(|| (self.mode(id).as_deref() == Some(mode)).then_some(()));
    }

    fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(Instant::now() < deadline, "it never happened\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn logs(&self) -> String {
        let log = |id| fs::read_to_string(self.home.path().join(format!("log{id}"))).unwrap_or_default();
        (1..=self.servers.len()).map(|id| format!("server {id}:\n{}", log(id))).collect()
    }

    async fn client(&self, ids: &[usize]) -> Client {
        let list: Vec<String> = ids.iter().map(|&id| self.server(id).client.to_string()).collect();
        Client::connect(&list.join(",")).await.unwrap()
    }

    /// The list that a server's files hold.
    fn written(&self, id: usize) -> Option<(String, String)> {
        let text = fs::read_to_string(self.config(id)).unwrap();
        let file = text.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="))?;
        let version = file.rsplit_once('.').unwrap().1.to_owned();
        Some((fs::read_to_string(file).unwrap(), version))
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        for child in self.servers.iter_mut().filter_map(|server| server.child.as_mut()) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn the_first_leader_gives_the_list_a_version_and_files() {
    let ensemble = Ensemble::start(3, 3);
    ensemble.await_leader(&[1, 2, 3]);
    let lines: Vec<String> = (1..=3).map(|id| ensemble.line(id, "participant")).collect();
    block_on(async {
        for id in 1..=3 {
            let client = ensemble.client(&[id]).await;
            client.sync("/").await.unwrap();
            let config = client.config().await.unwrap();
            assert_eq!(config.text, format!("{}\nversion=100000000", lines.join("\n")));
        }
        let client = ensemble.client(&[1]).await;
        let error = client.reconfigure().leave(3).from_version(7).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadVersion));
        let error = client.reconfigure().leave(3).leave(2).leave(1).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadArguments), "somebody must be left");
        let line = "server.9=127.0.0.1:1:2:participant;127.0.0.1:3";
        let error = client.reconfigure().member(line).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NewConfigNoQuorum));
    });
    for id in 1..=3 {
        let (list, version) = ensemble.until(|| ensemble.written(id));
        assert_eq!((list, version.as_str()), (lines.join("\n"), "100000000"));
        let text = fs::read_to_string(ensemble.config(id)).unwrap();
        assert!(
            text.starts_with("# written by hand\ntickTime=500\n") && text.contains("\n# the end\n"),
            "{text}"
        );
        assert!(!text.contains("server."), "{text}");
        assert!(ensemble.config(id).with_extension("cfg.bak").exists());
        let next = ensemble.config(id).with_extension("cfg.dynamic.next");
        ensemble.until(|| (!next.exists()).then_some(()));
    }
}

#[test]
fn a_fourth_observes_then_votes_then_the_leader_goes_and_all_start_again() {
    let mut ensemble = Ensemble::start(4, 3);
    let leader = ensemble.await_leader(&[1, 2, 3]);
    let others: Vec<usize> = (1..=4).filter(|&id| id != leader).collect();
    ensemble.run(4);
    ensemble.await_mode(4, "follower");
    block_on(async {
        let client = ensemble.client(&[1, 2, 3]).await;
        client.create("/counted").data(&b"0"[..]).await.unwrap();
        let (_, changed) = client.watch_config().await.unwrap();

        let config = client.reconfigure().join(&ensemble.line(4, "observer")).await.unwrap();
        assert_eq!(config.members.len(), 4);
        assert!(config.text.contains(":observer;"), "{}", config.text);
        changed.await;
        ensemble.await_mode(4, "observer");

        let version = client.config().await.unwrap().version;
        assert_eq!(version, config.version);
        let promoted = client.reconfigure().join(&ensemble.line(4, "participant")).from_version(version);
        let config = promoted.await.unwrap();
        assert!(!config.text.contains("observer"), "{}", config.text);
        ensemble.await_mode(4, "follower");
        client.set("/counted", &b"1"[..]).await.unwrap();
        client.close().await.unwrap();

        // The client is connected to a server that stays.
        let client = ensemble.client(&others).await;
        let config = client.reconfigure().leave(leader as i64).await.unwrap();
        assert_eq!(config.members.iter().map(|member| member.id as usize).collect::<Vec<_>>(), others);
        let next = ensemble.await_leader(&others);
        assert_ne!(next, leader);
        client.set("/counted", &b"2"[..]).await.unwrap();
        client.close().await.unwrap();
        // The one that was removed goes on to listen, without a vote.
        ensemble.await_mode(leader, "follower");
    });
    ensemble.kill(leader);
    for &id in &others {
        ensemble
            .until(|| ensemble.written(id).filter(|(list, _)| !list.contains(&format!("server.{leader}="))));
        ensemble.kill(id);
    }
    others.iter().for_each(|&id| ensemble.run(id));
    ensemble.await_leader(&others);
    block_on(async {
        let client = ensemble.client(&others).await;
        assert_eq!(client.get("/counted").await.unwrap().data.as_ref(), b"2");
        assert_eq!(client.config().await.unwrap().members.len(), 3);
        client.set("/counted", &b"3"[..]).await.unwrap();
        client.close().await.unwrap();
    });
}

#[test]
fn from_one_server_to_three_and_back_to_one() {
    let mut ensemble = Ensemble::start(3, 1);
    ensemble.await_leader(&[1]);
    block_on(async {
        let client = ensemble.client(&[1]).await;
        client.create("/a").data(&b"1"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    for id in [2, 3] {
        ensemble.run(id);
        ensemble.await_mode(id, "follower");
        block_on(async {
            let client = ensemble.client(&[1]).await;
            let config = client.reconfigure().join(&ensemble.line(id, "participant")).await.unwrap();
            assert_eq!(config.members.len(), id);
            client.close().await.unwrap();
        });
    }
    // Now two of them are enough.
    let leader = ensemble.await_leader(&[1, 2, 3]);
    ensemble.kill(leader);
    let left: Vec<usize> = (1..=3).filter(|&id| id != leader).collect();
    ensemble.await_leader(&left);
    block_on(async {
        let client = ensemble.client(&left).await;
        client.set("/a", &b"2"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.run(leader);
    let leads = ensemble.await_leader(&[1, 2, 3]);
    let stays = left.into_iter().find(|&id| id != leads).unwrap_or(leader);
    block_on(async {
        let client = ensemble.client(&[stays]).await;
        let mut change = client.reconfigure();
        for id in (1..=3).filter(|&id| id != stays) {
            change = change.leave(id as i64);
        }
        assert_eq!(change.await.unwrap().members.len(), 1);
        client.close().await.unwrap();
    });
    ensemble.await_mode(stays, "leader");
    for id in (1..=3).filter(|&id| id != stays) {
        ensemble.kill(id);
    }
    ensemble.until(|| ensemble.written(stays).filter(|(list, _)| list.lines().count() == 1));
    ensemble.kill(stays);
    ensemble.run(stays);
    ensemble.await_leader(&[stays]);
    block_on(async {
        let client = ensemble.client(&[stays]).await;
        assert_eq!(client.get("/a").await.unwrap().data.as_ref(), b"2");
        client.set("/a", &b"3"[..]).await.unwrap();
        client.close().await.unwrap();
    });
}

/// The list that a server knows may be so old that its voters are all gone.
#[test]
fn a_server_with_an_old_list_finds_the_leader_by_a_former_observer() {
    let mut ensemble = Ensemble::start(4, 2);
    ensemble.await_leader(&[1, 2]);
    for id in [3, 4] {
        ensemble.run(id);
        ensemble.await_mode(id, "follower");
        block_on(async {
            let client = ensemble.client(&[1]).await;
            client.reconfigure().join(&ensemble.line(id, "observer")).await.unwrap();
            client.close().await.unwrap();
        });
        ensemble.await_mode(id, "observer");
    }
    ensemble.until(|| ensemble.written(4).filter(|(list, _)| list.lines().count() == 4));
    ensemble.kill(4);
    block_on(async {
        let client = ensemble.client(&[3]).await;
        client.reconfigure().join(&ensemble.line(3, "participant")).await.unwrap();
        ensemble.await_mode(3, "follower");
        client.reconfigure().leave(1).leave(2).await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.await_mode(3, "leader");
    ensemble.kill(1);
    ensemble.kill(2);
    ensemble.run(4);
    ensemble.await_mode(4, "observer");
    let (list, _) = ensemble.until(|| ensemble.written(4).filter(|(list, _)| list.lines().count() == 2));
    assert!(list.contains(&ensemble.line(3, "participant")), "{list}");
}

#[test]
fn a_member_gets_other_ports_while_it_runs() {
    let mut ensemble = Ensemble::start(3, 3);
    let leader = ensemble.await_leader(&[1, 2, 3]);
    let moves = if leader == 1 { 2 } else { 1 };
    let stays = 6 - leader - moves;
    let free: Vec<SocketAddr> = (0..3).map(|_| port::free_address().unwrap()).collect();
    let server = &mut ensemble.servers[moves - 1];
    (server.client, server.quorum, server.election) = (free[0], free[1].port(), free[2].port());
    block_on(async {
        let client = ensemble.client(&[stays]).await;
        client.reconfigure().join(&ensemble.line(moves, "participant")).await.unwrap();
        client.create("/moved").await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.await_mode(moves, "follower");
    // The others reach it there: without it and with one of them gone nothing would be decided.
    ensemble.kill(stays);
    block_on(async {
        let client = ensemble.client(&[moves]).await;
        client.create("/reached").await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.kill(leader);
    ensemble.run(stays);
    ensemble.await_leader(&[moves, stays]);
    block_on(async {
        let client = ensemble.client(&[moves, stays]).await;
        assert!(client.exists("/reached").await.unwrap().is_some());
        client.close().await.unwrap();
    });
}

#[test]
fn the_shell_shows_and_changes_the_members() {
    let mut ensemble = Ensemble::start(4, 3);
    ensemble.await_leader(&[1, 2, 3]);
    ensemble.run(4);
    ensemble.await_mode(4, "follower");
    let shell = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_zebu"))
            .args(["shell", "-server", &ensemble.server(1).client.to_string()])
            .args(words)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = shell(&["config"]);
    assert!(said.contains(&ensemble.line(3, "participant")) && said.contains("version=100000000"), "{said}");
    let said = shell(&["reconfig", "-add", &ensemble.line(4, "observer")]);
    assert!(said.contains("Committed new configuration:"), "{said}");
    assert!(said.contains(&ensemble.line(4, "observer")), "{said}");
    let said = shell(&["reconfig", "-remove", "4", "-v", "7"]);
    assert!(said.contains("version"), "{said}");
    let said = shell(&["reconfig", "-remove", "4"]);
    assert!(!said.contains("server.4=") && said.contains("Committed new configuration:"), "{said}");
    let said = shell(&["config", "-c"]);
    let clients: Vec<String> = (1..=3).map(|id| ensemble.server(id).client.to_string()).collect();
    assert!(said.contains(&clients.join(",")), "{said}");
}

/// Four-letter words show the active config, not the one of the file at the start.
#[test]
fn words_show_the_members_in_effect() {
    let mut ensemble = Ensemble::start(4, 3);
    let leader = ensemble.await_leader(&[1, 2, 3]);
    ensemble.run(4);
    ensemble.await_mode(4, "follower");
    let says = |id: usize, word: &str, text: &str| {
        let answer = four_letter::ask(ensemble.server(id).client, word, Duration::from_secs(5)).ok()?;
        answer.contains(text).then_some(())
    };
    ensemble.until(|| says(leader, "mntr", "zk_synced_non_voting_followers\t1\n"));
    ensemble.until(|| says(leader, "mntr", "zk_quorum_size\t3\n"));
    block_on(async {
        let client = ensemble.client(&[1]).await;
        let line = ensemble.line(4, "participant");
        client.reconfigure().join(&line).await.unwrap();
        for id in 1..=4 {
            ensemble.until(|| says(id, "conf", &line));
            ensemble.until(|| says(id, "mntr", "zk_quorum_size\t4\n"));
        }
        ensemble.until(|| says(leader, "mntr", "zk_synced_followers\t3\n"));
        client.reconfigure().leave(4).await.unwrap();
        ensemble.until(|| says(leader, "conf", &line).is_none().then_some(()));
        ensemble.until(|| says(leader, "mntr", "zk_quorum_size\t3\n"));
        client.close().await.unwrap();
    });
}

#[test]
fn a_fixed_ensemble_shows_its_members() {
    let ensemble = Ensemble::start_with(3, 3, "reconfigEnabled=false");
    ensemble.await_leader(&[1, 2, 3]);
    let lines: Vec<String> = (1..=3).map(|id| ensemble.line(id, "participant")).collect();
    block_on(async {
        for id in 1..=3 {
            let client = ensemble.client(&[id]).await;
            let config = client.config().await.unwrap();
            assert_eq!(config.text, format!("{}\nversion=0", lines.join("\n")));
            let error = client.reconfigure().leave(3).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::ReconfigDisabled));
            client.close().await.unwrap();
            assert_eq!(ensemble.written(id), None);
        }
    });
}

/// A list that the servers could not start with again is refused before it is committed.
#[test]
fn several_addresses_are_refused_unless_they_are_allowed() {
    let mut ensemble = Ensemble::start(3, 3);
    ensemble.await_leader(&[1, 2, 3]);
    block_on(async {
        let client = ensemble.client(&[1, 2, 3]).await;
        let before = client.config().await.unwrap();
        for id in 1..=3 {
            let Server { client: at, quorum, election, .. } = ensemble.server(id);
            let line = format!(
                "server.{id}=127.0.0.1:{quorum}:{election}|[::1]:{quorum}:{election}:participant;127.0.0.1:{}",
                at.port()
            );
            let error = client.reconfigure().join(&line).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::BadArguments), "{line}");
        }
        for line in ["server.3=127.0.0.1:1:2;;3", "server.3=127.0.0.1:1:2;2", "server.3=a\\u1:1:2;3"] {
            let error = client.reconfigure().join(line).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::BadArguments), "{line}");
        }
        assert_eq!(client.config().await.unwrap().version, before.version);
    });
    for id in 1..=3 {
        ensemble.until(|| ensemble.written(id));
        ensemble.kill(id);
    }
    (1..=3).for_each(|id| ensemble.run(id));
    ensemble.await_leader(&[1, 2, 3]);
}

/// An older release, or a leader of another kind, may have committed such a list: the servers start with it.
#[test]
fn a_committed_list_with_several_addresses_does_not_keep_servers_from_starting() {
    let mut ensemble = Ensemble::start(3, 3);
    ensemble.await_leader(&[1, 2, 3]);
    for id in 1..=3 {
        ensemble.until(|| ensemble.written(id));
        ensemble.kill(id);
    }
    for id in 1..=3 {
        let text = fs::read_to_string(ensemble.config(id)).unwrap();
        let file = text.lines().find_map(|line| line.strip_prefix("dynamicConfigFile=")).unwrap();
        let list = fs::read_to_string(file).unwrap();
        let twice = |line: &str| {
            let (key, value) = line.split_once('=').unwrap();
            let address = value.strip_suffix(&value[value.find(":participant").unwrap()..]).unwrap();
            let rest = &value[address.len()..];
            format!("{key}={address}|{}{rest}", address.replace("127.0.0.1", "[::1]"))
        };
        let list: Vec<String> = list.lines().map(twice).collect();
        fs::write(file, list.join("\n")).unwrap();
    }
    (1..=3).for_each(|id| ensemble.run(id));
    ensemble.await_leader(&[1, 2, 3]);
    assert!(ensemble.logs().contains("has several addresses although multiAddress.enabled is not true"));
}

/// A complete list without client ports must not lose the place where a server serves clients.
#[test]
fn a_list_without_client_ports_can_be_started_with() {
    let mut ensemble = Ensemble::start(3, 3);
    ensemble.await_leader(&[1, 2, 3]);
    block_on(async {
        let client = ensemble.client(&[1, 2, 3]).await;
        let mut change = client.reconfigure();
        for id in 1..=3 {
            let line = ensemble.line(id, "participant");
            change = change.member(line.split_once(';').unwrap().0);
        }
        change.await.unwrap();
    });
    for id in 1..=3 {
        ensemble.until(|| ensemble.written(id).filter(|(list, _)| !list.contains(';')));
    }
    (1..=3).for_each(|id| ensemble.kill(id));
    (1..=3).for_each(|id| ensemble.run(id));
    ensemble.await_leader(&[1, 2, 3]);
}
