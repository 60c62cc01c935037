//! Servers that are or may become members: a process, a directory and three ports each.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use zebu_testing::{Launch, four_letter, port};

/// How long a step may take. Far more than it needs.
const PATIENCE: Duration = Duration::from_secs(60);

const WORD_PATIENCE: Duration = Duration::from_secs(3);

struct Place {
    name: String,
    launch: Launch,
    client: SocketAddr,
    quorum: u16,
    election: u16,
    child: Option<Child>,
}

/// All of them; their numbers begin with 1.
pub(super) struct Places {
    home: PathBuf,
    places: Vec<Place>,
}

impl Places {
    /// Nothing runs yet.
    pub(super) fn new(home: PathBuf, launches: Vec<(String, Launch)>) -> Result<Places> {
        let mut ports: Vec<SocketAddr> = Vec::new();
        while ports.len() < 3 * launches.len() {
            let address = port::free_address()?;
            if !ports.contains(&address) {
                ports.push(address);
            }
        }
        let place = |(index, (name, launch)): (usize, (String, Launch))| Place {
            name,
            launch,
            client: ports[3 * index],
            quorum: ports[3 * index + 1].port(),
            election: ports[3 * index + 2].port(),
            child: None,
        };
        let places = launches.into_iter().enumerate().map(place).collect();
        Ok(Places { home, places })
    }

    pub(super) fn name(&self, id: usize) -> String {
        format!("{} {id}", self.places[id - 1].name)
    }

    pub(super) fn address(&self, id: usize) -> String {
        self.places[id - 1].client.to_string()
    }

    pub(super) fn election_port(&self, id: usize) -> u16 {
        self.places[id - 1].election
    }

    /// The member line of a server.
    pub(super) fn line(&self, id: usize, role: &str) -> String {
        let Place { client, quorum, election, .. } = &self.places[id - 1];
        format!("server.{id}=127.0.0.1:{quorum}:{election}:{role};127.0.0.1:{}", client.port())
    }

    /// Starts a server whose file lists these members, unless it has a file already.
    pub(super) fn start(&mut self, id: usize, listed: &[usize]) -> Result<()> {
        let config = self.home.join(format!("zoo{id}.cfg"));
        if !config.exists() {
            let data = self.home.join(format!("data{id}"));
            fs::create_dir_all(&data)?;
            fs::write(data.join("myid"), format!("{id}\n"))?;
            let lines: Vec<String> = listed.iter().map(|&of| self.line(of, "participant")).collect();
            let text = format!(
                "# by hand\ntickTime=500\ninitLimit=20\nsyncLimit=10\ndataDir={}\nmaxClientCnxns=0\n\
                 admin.enableServer=false\n4lw.commands.whitelist=*\nreconfigEnabled=true\nskipACL=yes\n\
                 standaloneEnabled=false\n{}\n",
                data.display(),
                lines.join("\n")
            );
            fs::write(&config, text)?;
        }
        let log = File::options().create(true).append(true).open(self.home.join(format!("log{id}")))?;
        let place = &mut self.places[id - 1];
        let child = Command::new(&place.launch.program)
            .args(&place.launch.before)
            .args(&place.launch.after)
            .arg(&config)
            .stdout(log.try_clone()?)
            .stderr(log)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", place.name))?;
        place.child = Some(child);
        Ok(())
    }

    /// Starts a server with the files that it has.
    pub(super) fn restart(&mut self, id: usize) -> Result<()> {
        self.stop(id)?;
        self.start(id, &[])
    }

    pub(super) fn stop(&mut self, id: usize) -> Result<()> {
        if let Some(mut child) = self.places[id - 1].child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Deletes the files of a removed server: their config does not contain it, and no server starts with
    /// such a config.
    pub(super) fn forget(&self, id: usize) -> Result<()> {
        let config = self.home.join(format!("zoo{id}.cfg"));
        if config.exists() {
            fs::remove_file(config)?;
            fs::remove_dir_all(self.home.join(format!("data{id}")))?;
        }
        // A proposed list of its former life would be read at the start.
        let next = self.home.join(format!("zoo{id}.cfg.dynamic.next"));
        if next.exists() {
            fs::remove_file(next)?;
        }
        Ok(())
    }

    pub(super) fn mode(&self, id: usize) -> Option<String> {
        let text = four_letter::ask(self.places[id - 1].client, "srvr", WORD_PATIENCE).ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
    }

    /// Waits until these servers serve, one as the leader, and returns the leader.
    pub(super) fn await_service(&self, ids: &[usize]) -> Result<usize> {
        let started = Instant::now();
        loop {
            let modes: Vec<_> = ids.iter().map(|&id| (id, self.mode(id))).collect();
            let leaders: Vec<usize> = modes
                .iter()
                .filter(|(_, mode)| mode.as_deref() == Some("leader"))
                .map(|(id, _)| *id)
                .collect();
            if let [leader] = leaders[..]
                && modes.iter().all(|(_, mode)| mode.is_some())
            {
                return Ok(leader);
            }
            if started.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} the servers are {modes:?}; logs: {}", self.home.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a server serves in a role.
    pub(super) fn await_mode(&self, id: usize, wanted: &str) -> Result<()> {
        let started = Instant::now();
        loop {
            let mode = self.mode(id);
            if mode.as_deref() == Some(wanted) {
                return Ok(());
            }
            if started.elapsed() > PATIENCE {
                bail!("{} is {mode:?}, not {wanted}; logs: {}", self.name(id), self.home.display());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        for child in self.places.iter_mut().filter_map(|place| place.child.as_mut()) {
            // It may be gone already, which is what is wanted.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
