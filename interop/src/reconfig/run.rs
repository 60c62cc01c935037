//! The steps: from Apache alone over all mixtures to Zebu alone, and back.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use zebu_client::{Client, EnsembleConfig, Error, ErrorCode};
use zebu_testing::Launch;

use super::places::Places;
use super::vote;
use super::writer::{Servers, Writer};
use crate::apache::Edition;
use crate::differential::Random;

/// How often a change is asked for whose answer was lost, or for which the ensemble was not ready.
const ATTEMPTS: usize = 100;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// The Apache ZooKeeper at the beginning and at the end: `latest`, `debian` or a version
    #[arg(long, value_name = "EDITION", default_value = "latest")]
    apache: String,
    /// Instead of the walk: so many random changes, with members killed in the middle of them
    #[arg(long, value_name = "COUNT")]
    random: Option<usize>,
    /// Decides which
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep files and logs of the servers here
    #[arg(long, value_name = "PATH")]
    keep: Option<PathBuf>,
}

/// Runs it; the first thing that is wrong is an error.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let edition = Edition::parse(&arguments.apache);
    let apache = || Ok::<_, anyhow::Error>((edition.to_string(), edition.launch()?));
    let zebu = || match &arguments.zebu {
        Some(binary) => Ok(("Zebu".to_owned(), Launch::zebu(binary.canonicalize()?))),
        None => apache(),
    };
    let mut launches = Vec::new();
    for _ in 0..3 {
        launches.push(apache()?);
    }
    for _ in 0..3 {
        launches.push(zebu()?);
    }
    let temporary = tempfile::Builder::new().prefix("zebu-reconfig").tempdir()?;
    let home = match &arguments.keep {
        Some(path) => {
            std::fs::create_dir_all(path)?;
            path.canonicalize()?
        }
        None => temporary.path().to_owned(),
    };
    let mut places = Places::new(home, launches)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    vote::is_understood(&mut places)?;
    match arguments.random {
        None => runtime.block_on(walk(places)),
        Some(count) => runtime.block_on(wander(places, count, Random::new(arguments.seed))),
    }
}

struct Walk {
    places: Places,
    members: Vec<usize>,
    writer: Writer,
    started: Instant,
}

/// Random changes: who is no member joins, a member leaves, and some are killed while that is decided.
async fn wander(places: Places, count: usize, mut random: Random) -> Result<()> {
    let mut walk = Walk::begin(places).await?;
    for step in 1..=count {
        let killed = (random.below(2) == 0).then(|| walk.members[random.below(walk.members.len())]);
        if let Some(id) = killed.filter(|_| walk.members.len() >= 3) {
            walk.places.stop(id)?;
        }
        let id = 1 + random.below(6);
        match (walk.members.contains(&id), walk.members.len()) {
            (true, 4..) => walk.leave_quietly(id).await?,
            (true, _) => {}
            (false, _) => walk.join_quietly(id, killed).await?,
        }
        if let Some(id) = killed.filter(|id| walk.members.contains(id)) {
            walk.places.restart(id)?;
        }
        walk.places.await_service(&walk.members)?;
        let names: Vec<String> = walk.members.iter().map(|&id| walk.places.name(id)).collect();
        let killed = killed.map_or("nobody".to_owned(), |id| walk.places.name(id));
        walk.went_on(&format!("step {step}, {killed} killed: {}", names.join(", "))).await?;
    }
    let address = walk.places.address(walk.members[0]);
    let written = walk.writer.finish(&address).await?;
    println!("{written} writes were acknowledged and are there, after {:.0?}", walk.started.elapsed());
    Ok(())
}

async fn walk(places: Places) -> Result<()> {
    let mut walk = Walk::begin(places).await?;

    walk.places.start(4, &[1, 2, 3, 4])?;
    walk.places.await_mode(4, "follower")?;
    walk.join(4, "observer").await?;
    walk.places.await_mode(4, "observer")?;
    walk.join(4, "participant").await?;
    for id in [5, 6] {
        walk.places.start(id, &[1, 2, 3, 4, id])?;
        walk.places.await_mode(id, "follower")?;
        walk.join(id, "participant").await?;
    }
    walk.leave_all(&[1, 2, 3]).await?;
    walk.restart_everybody()?;
    walk.went_on("all members have started again").await?;

    for id in [1, 2, 3] {
        walk.places.stop(id)?;
        walk.places.forget(id)?;
        walk.places.start(id, &[4, 5, 6, id])?;
        walk.places.await_mode(id, "follower")?;
        walk.join(id, "participant").await?;
    }
    walk.leave_all(&[4, 5, 6]).await?;
    let Walk { places, writer, started, .. } = walk;
    let written = writer.finish(&places.address(1)).await?;
    println!("{written} writes were acknowledged and are there, after {:.0?}", started.elapsed());
    Ok(())
}

impl Walk {
    /// Three Apache servers, and a client.
    async fn begin(mut places: Places) -> Result<Walk> {
        for id in 1..=3 {
            places.start(id, &[1, 2, 3])?;
        }
        places.await_service(&[1, 2, 3])?;
        let servers: Vec<String> = (1..=3).map(|id| places.address(id)).collect();
        let writer = Writer::start(&servers.join(","), Servers::Members).await?;
        Ok(Walk { places, members: vec![1, 2, 3], writer, started: Instant::now() })
    }

    /// Whatever was there before begins anew; a member may be down.
    async fn join_quietly(&mut self, id: usize, down: Option<usize>) -> Result<()> {
        self.places.stop(id)?;
        self.places.forget(id)?;
        let mut listed = self.members.clone();
        listed.push(id);
        self.places.start(id, &listed)?;
        let up: Vec<usize> = self.members.iter().copied().filter(|&member| Some(member) != down).collect();
        if up.len() > self.members.len() / 2 {
            self.places.await_mode(id, "follower")?;
        }
        let line = self.places.line(id, "participant");
        self.change(&[], Some(&line), |config: &EnsembleConfig| config.text.contains(&line)).await?;
        self.members.push(id);
        Ok(())
    }

    async fn leave_quietly(&mut self, id: usize) -> Result<()> {
        let begins = format!("server.{id}=");
        self.change(&[id], None, |config| !config.text.contains(&begins)).await?;
        self.members.retain(|&member| member != id);
        Ok(())
    }

    async fn join(&mut self, id: usize, role: &str) -> Result<()> {
        let line = self.places.line(id, role);
        let has = |config: &EnsembleConfig| config.text.contains(&line);
        self.change(&[], Some(&line), has).await?;
        if !self.members.contains(&id) {
            self.members.push(id);
        }
        self.places.await_service(&self.members)?;
        self.went_on(&format!("{} is a member as {role}", self.places.name(id))).await
    }

    /// Removes the current leader first, because this is the hardest case.
    async fn leave_all(&mut self, ids: &[usize]) -> Result<()> {
        let mut left = ids.to_vec();
        while !left.is_empty() {
            let leader = self.places.await_service(&self.members)?;
            let index = left.iter().position(|&id| id == leader).unwrap_or(0);
            self.leave(left.remove(index), leader).await?;
        }
        Ok(())
    }

    async fn leave(&mut self, id: usize, leader: usize) -> Result<()> {
        let begins = format!("server.{id}=");
        self.change(&[id], None, |config| !config.text.contains(&begins)).await?;
        self.members.retain(|&member| member != id);
        let next = self.places.await_service(&self.members)?;
        let whom = if id == leader { " (the leader)" } else { "" };
        let name = self.places.name(id);
        self.went_on(&format!("{name}{whom} is no member; {} leads", self.places.name(next))).await
    }

    /// Asks for a change until it is there.
    async fn change(
        &self,
        leaving: &[usize],
        joining: Option<&str>,
        is_there: impl Fn(&EnsembleConfig) -> bool,
    ) -> Result<()> {
        let staying: Vec<String> = self
            .members
            .iter()
            .filter(|id| !leaving.contains(id))
            .map(|&id| self.places.address(id))
            .collect();
        let client = Client::connect(&staying.join(",")).await?;
        let mut last: Option<Error> = None;
        for _ in 0..ATTEMPTS {
            let mut call = client.reconfigure();
            for &id in leaving {
                call = call.leave(id as i64);
            }
            if let Some(line) = joining {
                call = call.join(line);
            }
            match call.await {
                Ok(_) => {
                    client.close().await?;
                    return Ok(());
                }
                Err(error) => {
                    let ready = !matches!(
                        error.code(),
                        Some(ErrorCode::NewConfigNoQuorum | ErrorCode::ReconfigInProgress)
                    );
                    last = Some(error);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    // The answer may be lost, and the change made.
                    if ready && client.config().await.is_ok_and(|config| is_there(&config)) {
                        return Ok(());
                    }
                }
            }
        }
        Err(last.map_or_else(|| anyhow::anyhow!("it was never tried"), Into::into))
            .with_context(|| format!("leaving {leaving:?}, joining {joining:?}"))
    }

    fn restart_everybody(&mut self) -> Result<()> {
        for id in self.members.clone() {
            self.places.stop(id)?;
        }
        for id in self.members.clone() {
            self.places.start(id, &[])?;
        }
        self.places.await_service(&self.members).map(|_| ())
    }

    async fn went_on(&self, what: &str) -> Result<()> {
        self.writer.goes_on().await.with_context(|| what.to_owned())?;
        let client = Client::connect(&self.places.address(self.members[0])).await?;
        client.sync("/").await?;
        let listed = client.config().await?;
        let mut ids: Vec<usize> = listed.members.iter().map(|member| member.id as usize).collect();
        let mut members = self.members.clone();
        ids.sort_unstable();
        members.sort_unstable();
        ensure!(ids == members, "{what}: the list names {ids:?}, not {members:?}");
        client.close().await?;
        println!("ok {what}");
        Ok(())
    }
}
