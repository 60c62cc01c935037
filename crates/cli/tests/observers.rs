//! Observers and groups: real server processes, each with a loopback address of its own, because the port
//! where followers serve observers has the same number everywhere.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_client::{Client, CreateMode, ErrorCode};
use zebu_testing::{four_letter, port};

/// How long an ensemble may take to get somewhere. Far more than it needs: it decides nothing.
const TIME_LIMIT: Duration = Duration::from_secs(60);

struct Server {
    host: String,
    role: &'static str,
    ports: [u16; 3],
    child: Option<Child>,
}

/// Servers by number, from 1.
struct Ensemble {
    home: TempDir,
    servers: Vec<Server>,
}

impl Ensemble {
    /// Servers with these roles. `lines` are added to every file.
    fn new(roles: &[&'static str], lines: &str) -> Ensemble {
        let home = TempDir::new().unwrap();
        let free = || port::free_address().unwrap().port();
        let server = |(index, role): (usize, &&'static str)| Server {
            host: format!("127.0.0.{}", index + 1),
            role,
            ports: [free(), free(), free()],
            child: None,
        };
        let servers = roles.iter().enumerate().map(server).collect();
        let ensemble = Ensemble { home, servers };
        for id in 1..=roles.len() {
            ensemble.configure(id, lines);
        }
        ensemble
    }

    fn start(roles: &[&'static str], lines: &str) -> Ensemble {
        let mut ensemble = Ensemble::new(roles, lines);
        (1..=roles.len()).for_each(|id| ensemble.run(id));
        ensemble
    }

    fn configure(&self, id: usize, lines: &str) {
        let data = self.data(id);
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), format!("{id}\n")).unwrap();
        let members: Vec<String> =
            (1..=self.servers.len()).map(|of| self.line(of, self.servers[of - 1].role)).collect();
        let text = format!(
            "tickTime=300\ninitLimit=30\nsyncLimit=10\nskipACL=yes\nstandaloneEnabled=false\ndataDir={}\n\
             4lw.commands.whitelist=*\nadmin.enableServer=false\n{lines}{}\n",
            data.display(),
            members.join("\n")
        );
        fs::write(self.config(id), text).unwrap();
    }

    fn data(&self, id: usize) -> PathBuf {
        self.home.path().join(format!("data{id}"))
    }

    fn config(&self, id: usize) -> PathBuf {
        self.home.path().join(format!("zoo{id}.cfg"))
    }

    fn line(&self, id: usize, role: &str) -> String {
        let Server { host, ports: [client, quorum, election], .. } = &self.servers[id - 1];
        format!("server.{id}={host}:{quorum}:{election}:{role};{host}:{client}")
    }

    fn address(&self, id: usize) -> SocketAddr {
        let Server { host, ports, .. } = &self.servers[id - 1];
        format!("{host}:{}", ports[0]).parse().unwrap()
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
        let text = four_letter::ask(self.address(id), "srvr", Duration::from_secs(5)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    fn monitor(&self, id: usize, key: &str) -> Option<i64> {
        let text = four_letter::ask(self.address(id), "mntr", Duration::from_secs(5)).ok()?;
        let value = |line: &str| line.strip_prefix("zk_")?.strip_prefix(key)?.trim().parse().ok();
        text.lines().find_map(value)
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

    /// Whom an observer learns from, once it is one of these.
    fn await_master(&self, observer: usize, among: &[usize]) -> usize {
        self.until(|| {
            let master = self.monitor(observer, "observer_master_id\t")? as usize;
            among.contains(&master).then_some(master)
        })
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
        let list: Vec<String> = ids.iter().map(|&id| self.address(id).to_string()).collect();
        Client::connect(&list.join(",")).await.unwrap()
    }

    /// Whether these bytes are in a server's log.
    fn is_in_log(&self, id: usize, bytes: &[u8]) -> bool {
        let files = fs::read_dir(self.data(id).join("version-2")).unwrap().flatten();
        files.filter(|file| file.file_name().to_string_lossy().starts_with("log.")).any(|file| {
            let text = fs::read(file.path()).unwrap();
            text.windows(bytes.len()).any(|window| window == bytes)
        })
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

const VOTER: &str = "participant";
const OBSERVER: &str = "observer";

#[test]
fn followers_serve_observers_who_move_when_they_go() {
    let master_port = port::free_address().unwrap().port();
    let lines = format!("observerMasterPort={master_port}\nobserver.election.DelayMs=20\n");
    let mut ensemble = Ensemble::start(&[VOTER, VOTER, VOTER, OBSERVER, OBSERVER], &lines);
    let leader = ensemble.await_leader(&[1, 2, 3, 4, 5]);
    let followers: Vec<usize> = (1..=3).filter(|&id| id != leader).collect();
    let master = ensemble.await_master(4, &followers);
    let left = followers.iter().copied().find(|&id| id != master).unwrap();
    ensemble.await_master(5, &followers);
    let served = |id| ensemble.monitor(id, "synced_observers\t").unwrap();
    assert_eq!(followers.iter().map(|&id| served(id)).sum::<i64>(), 2);
    assert_eq!((served(leader), ensemble.monitor(leader, "learners\t")), (0, Some(2)));
    block_on(async {
        let servers = ensemble.address(4).to_string();
        let builder = Client::builder(&servers).unwrap().session_timeout(Duration::from_secs(4));
        let client = builder.connect().await.unwrap();
        client.create("/a").data(&b"1"[..]).await.unwrap();
        client.create("/mine").mode(CreateMode::Ephemeral).await.unwrap();
        let other = ensemble.client(&[leader]).await;
        other.set("/a", &b"2"[..]).await.unwrap();
        client.sync("/").await.unwrap();
        assert_eq!(client.get("/a").await.unwrap().data.as_ref(), b"2");
        // Both ask the leader over one connection, which does not say who is answered.
        let neighbour = ensemble.client(&[master]).await;
        let ask = |client: Client| async move {
            for _ in 0..100 {
                client.sync("/").await.unwrap();
                assert_eq!(client.get("/a").await.unwrap().data.as_ref(), b"2");
            }
        };
        tokio::join!(ask(client.clone()), ask(neighbour.clone()), ask(client.clone()));
        neighbour.close().await.unwrap();
        // The leader hears of the session by the pings of the follower alone.
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(other.exists("/mine").await.unwrap().is_some());

        ensemble.kill(master);
        assert_eq!(ensemble.await_master(4, &[left, leader]), left);
        ensemble.await_mode(4, "observer");
        // The session comes over, which the leader has to say.
        let set = || async { client.set("/a", &b"3"[..]).await };
        let deadline = Instant::now() + TIME_LIMIT;
        while set().await.is_err() {
            assert!(Instant::now() < deadline, "{}", ensemble.logs());
        }
        other.sync("/").await.unwrap();
        assert_eq!(other.get("/a").await.unwrap().data.as_ref(), b"3");
        assert!(other.exists("/mine").await.unwrap().is_some(), "{}", ensemble.logs());
    });
}

#[test]
fn an_observer_without_a_log_writes_nothing_until_it_votes() {
    let roles = [VOTER, VOTER, VOTER, OBSERVER];
    let lines = "reconfigEnabled=true\nsyncEnabled=false\n";
    let mut ensemble = Ensemble::start(&roles, lines);
    let leader = ensemble.await_leader(&[1, 2, 3, 4]);
    block_on(async {
        let client = ensemble.client(&[1]).await;
        client.create("/kept").data(&b"only in memory"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    let shows = |ensemble: &Ensemble, id: usize, value: &'static [u8]| {
        block_on(async {
            let client = ensemble.client(&[id]).await;
            client.sync("/").await.unwrap();
            assert_eq!(client.get("/kept").await.unwrap().data.as_ref(), value, "server {id}");
            client.close().await.unwrap();
        });
    };
    shows(&ensemble, 4, b"only in memory");
    assert!(ensemble.is_in_log(1, b"only in memory"));
    assert!(!ensemble.is_in_log(4, b"only in memory"));

    // A restart has nothing, and says so.
    ensemble.kill(4);
    ensemble.run(4);
    ensemble.await_mode(4, "observer");
    shows(&ensemble, 4, b"only in memory");
    assert!(!ensemble.is_in_log(4, b"only in memory"));

    block_on(async {
        let client = ensemble.client(&[1, 2, 3]).await;
        client.reconfigure().join(&ensemble.line(4, VOTER)).await.unwrap();
        ensemble.await_mode(4, "follower");
        // Three of four: without the new voter nothing could be decided.
        let other = (1..=3).find(|&id| id != leader).unwrap();
        ensemble.kill(other);
        let left: Vec<usize> = (1..=4).filter(|&id| id != other).collect();
        ensemble.await_leader(&left);
        let client = ensemble.client(&left).await;
        client.set("/kept", &b"on the disk of all voters"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    ensemble.until(|| ensemble.is_in_log(4, b"on the disk of all voters").then_some(()));
    ensemble.kill(4);
    ensemble.run(4);
    // It may lead now: without it there was no quorum.
    ensemble.until(|| ensemble.mode(4));
    shows(&ensemble, 4, b"on the disk of all voters");
}

#[test]
fn three_groups_lose_one_and_get_other_weights() {
    let groups = "group.1=1:2\ngroup.2=3:4\ngroup.3=5:6\nweight.2=0\n";
    let mut ensemble = Ensemble::start(&[VOTER; 6], &format!("reconfigEnabled=true\n{groups}"));
    let leader = ensemble.await_leader(&[1, 2, 3, 4, 5, 6]);
    assert_ne!(leader, 2, "who has no weight does not lead");
    let lines: Vec<String> = (1..=6).map(|id| ensemble.line(id, VOTER)).collect();
    let text = format!(
        "{}\ngroup.1=1:2\ngroup.2=3:4\ngroup.3=5:6\nweight.1=1\nweight.2=0\nweight.3=1\nweight.4=1\n\
         weight.5=1\nweight.6=1\nversion=100000000",
        lines.join("\n")
    );
    let gone = if leader >= 5 { [3, 4] } else { [5, 6] };
    gone.into_iter().for_each(|id| ensemble.kill(id));
    let left: Vec<usize> = (1..=6).filter(|id| !gone.contains(id)).collect();
    block_on(async {
        let client = ensemble.client(&left).await;
        assert_eq!(client.config().await.unwrap().text, text);
        client.create("/decided").data(&b"by two groups"[..]).await.unwrap();
        let error = client.reconfigure().leave(2).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::BadArguments), "groups are changed as a whole");

        // All in one group, and the two that are gone have no weight.
        let mut change = client.reconfigure();
        for line in &lines {
            change = change.member(line);
        }
        change = change.member("group.7=1:2:3:4:5:6");
        for id in gone {
            change = change.member(&format!("weight.{id}=0"));
        }
        let config = change.await.unwrap();
        let weights: String =
            (1..=6).map(|id| format!("weight.{id}={}\n", i32::from(!gone.contains(&id)))).collect();
        assert!(config.text.contains(&format!("group.7=1:2:3:4:5:6\n{weights}version=")), "{}", config.text);
        client.close().await.unwrap();
    });
    // Three of the four that weigh anything are left.
    let follower = left.iter().copied().find(|&id| ensemble.mode(id).as_deref() == Some("follower")).unwrap();
    ensemble.kill(follower);
    block_on(async {
        let ids: Vec<usize> = left.iter().copied().filter(|&id| id != follower).collect();
        let client = ensemble.client(&ids).await;
        client.set("/decided", &b"by weight"[..]).await.unwrap();
        client.close().await.unwrap();
    });
    for id in [follower, gone[0], gone[1]] {
        ensemble.run(id);
    }
    ensemble.await_leader(&[1, 2, 3, 4, 5, 6]);
    let file = ensemble.until(|| {
        let text = fs::read_to_string(ensemble.config(gone[0])).unwrap();
        let file = text.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="))?.to_owned();
        fs::read_to_string(file).ok().filter(|text| text.contains("group.7="))
    });
    assert!(file.lines().is_sorted() && file.contains("\nweight.1="), "{file}");
}
