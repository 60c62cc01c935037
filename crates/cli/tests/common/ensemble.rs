//! Ensembles of real server processes, for tests.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]
#![allow(dead_code, reason = "each test uses a part")]

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_client::Client;
use zebu_testing::{four_letter, port};

/// How long an ensemble may take to get somewhere. Far more than it needs: it decides nothing.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Names the file that a preloaded library works with.
pub(crate) const PRELOADED_FILE: &str = "ZEBU_TEST_PRELOADED_FILE";

/// Servers as processes, on one machine.
pub(crate) struct Ensemble {
    pub(crate) home: TempDir,
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) children: Vec<Option<Child>>,
    /// A library that is loaded before all others, which finds its server's own file by [`PRELOADED_FILE`].
    preloaded: Option<PathBuf>,
    /// Quorum port and election port of each.
    pub(crate) ports: Vec<[u16; 2]>,
    /// What each is in the configuration.
    roles: Vec<&'static str>,
    /// Lines that every configuration has.
    line: String,
}

impl Ensemble {
    pub(crate) fn start(count: usize) -> Ensemble {
        Ensemble::start_with(count, "initLimit=20")
    }

    pub(crate) fn start_with(count: usize, line: &str) -> Ensemble {
        Ensemble::start_preloaded(count, line, None)
    }

    /// With a library that is loaded into the servers before all others.
    pub(crate) fn start_preloaded(count: usize, line: &str, preloaded: Option<PathBuf>) -> Ensemble {
        let mut ensemble = Ensemble::prepare(count, line);
        ensemble.preloaded = preloaded;
        (0..count).for_each(|index| ensemble.run(index));
        ensemble
    }

    /// Servers with these roles; `line` is added to every file.
    pub(crate) fn start_as(roles: &[&'static str], line: &str) -> Ensemble {
        let mut ensemble = Ensemble::prepare_as(roles, line);
        (0..roles.len()).for_each(|index| ensemble.run(index));
        ensemble
    }

    /// Directories and configurations, of which each lists all; no server runs.
    pub(crate) fn prepare(count: usize, line: &str) -> Ensemble {
        Ensemble::prepare_as(&vec!["participant"; count], line)
    }

    /// The same with these roles.
    pub(crate) fn prepare_as(roles: &[&'static str], line: &str) -> Ensemble {
        let count = roles.len();
        let home = TempDir::new().unwrap();
        let mut addresses = Vec::new();
        while addresses.len() < 3 * count {
            let address = port::free_address().unwrap();
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let clients: Vec<SocketAddr> = (0..count).map(|index| addresses[3 * index]).collect();
        let ports = (0..count).map(|index| [1, 2].map(|port| addresses[3 * index + port].port())).collect();
        let children = (0..count).map(|_| None).collect();
        let (roles, line) = (roles.to_vec(), line.to_owned());
        let ensemble = Ensemble { home, clients, children, preloaded: None, ports, roles, line };
        let all: Vec<usize> = (0..count).collect();
        for index in 0..count {
            let data = ensemble.data(index);
            fs::create_dir(&data).unwrap();
            fs::write(data.join("myid"), format!("{}\n", index + 1)).unwrap();
            ensemble.configure(index, &all);
        }
        ensemble
    }

    /// Writes the configuration of a server, with these members.
    pub(crate) fn configure(&self, index: usize, members: &[usize]) {
        let members: String = members
            .iter()
            .map(|&index| {
                let [quorum, election] = self.ports[index];
                let (id, role) = (index + 1, self.roles[index]);
                format!("server.{id}=127.0.0.1:{quorum}:{election}:{role}\n")
            })
            .collect();
        let text = format!(
            "tickTime=500\nsyncLimit=10\ndataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n\
             4lw.commands.whitelist=*\nadmin.enableServer=false\n{}\n{members}",
            self.data(index).display(),
            self.clients[index].port(),
            self.line
        );
        fs::write(self.home.path().join(format!("zoo{index}.cfg")), text).unwrap();
    }

    pub(crate) fn data(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("data{index}"))
    }

    pub(crate) fn run(&mut self, index: usize) {
        self.run_as(index, &mut Command::new(env!("CARGO_BIN_EXE_zebu")));
    }

    /// Runs a server whose syncs of the disk can be made slow; see [`Ensemble::slow_down`].
    pub(crate) fn run_with_slow_disk(&mut self, index: usize) {
        let library = self.home.path().join("slow_sync.so");
        if !library.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/slow_sync.c");
            let built =
                Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).status();
            assert!(built.expect("cc is there, it links Rust programs too").success());
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        command.env("LD_PRELOAD", &library).env("ZEBU_SLOW_SYNC", self.sync_delay(index));
        self.run_as(index, &mut command);
    }

    /// Lets every sync of the disk take so much longer.
    pub(crate) fn slow_down(&self, index: usize, by: Duration) {
        fs::write(self.sync_delay(index), by.as_millis().to_string()).unwrap();
    }

    fn sync_delay(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("sync_delay{index}"))
    }

    fn run_as(&mut self, index: usize, command: &mut Command) {
        let log = fs::File::create(self.home.path().join(format!("log{index}"))).unwrap();
        if let Some(library) = &self.preloaded {
            command.env("LD_PRELOAD", library).env(PRELOADED_FILE, self.preloaded_file(index));
        }
        let child = command
            .arg("serve")
            .arg(self.home.path().join(format!("zoo{index}.cfg")))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.children[index] = Some(child);
    }

    pub(crate) fn preloaded_file(&self, index: usize) -> PathBuf {
        self.home.path().join(format!("preloaded{index}"))
    }

    pub(crate) fn kill(&mut self, index: usize) {
        let mut child = self.children[index].take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn mode(&self, index: usize) -> Option<String> {
        let text = four_letter::ask(self.clients[index], "srvr", Duration::from_secs(5)).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// Waits until this number of servers serve, one as the leader, and returns the leader.
    pub(crate) fn await_leader(&self, serving: usize) -> usize {
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let modes: Vec<_> = (0..self.clients.len()).map(|index| self.mode(index)).collect();
            let leaders: Vec<usize> =
                (0..modes.len()).filter(|&index| modes[index].as_deref() == Some("leader")).collect();
            if leaders.len() == 1 && modes.iter().flatten().count() == serving {
                return leaders[0];
            }
            assert!(Instant::now() < deadline, "no leader among {modes:?}\n{}", self.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn logs(&self) -> String {
        let log =
            |index| fs::read_to_string(self.home.path().join(format!("log{index}"))).unwrap_or_default();
        (0..self.clients.len()).map(|index| format!("server {index}:\n{}", log(index))).collect()
    }

    pub(crate) async fn client(&self, servers: &[usize]) -> Client {
        let list: Vec<String> = servers.iter().map(|&index| self.clients[index].to_string()).collect();
        Client::connect(&list.join(",")).await.unwrap()
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        for child in self.children.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}
