//! An ensemble of Apache and Zebu whose protection changes while clients write: TLS and SASL come and go by
//! rolling restarts. Nothing that was acknowledged is lost, no session expires, and no follower's restart
//! costs the ensemble its leader.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::fleet::{Fleet, Server, Signal, Vote};
use super::load::{self, Writer};
use super::migration;
use super::seen::{self, Kind};
use crate::apache::Edition;
use crate::outcome::{self, Ending};
use crate::stores;

const WRITERS: usize = 4;

/// How long clients write between two restarts.
const STAY: Duration = Duration::from_millis(1000);

/// One state of the configuration, for all servers.
struct Stage {
    name: &'static str,
    lines: String,
}

/// Runs both changes with one release.
pub(super) async fn run(home: &Path, edition: &Edition, tested: &Server) -> Result<Ending> {
    stores::make_authority(home, "trust", "/CN=authority")?;
    stores::make_server(home, "server", "trust")?;
    stores::make_logins(home)?;
    let mut ending = Ending::Good;
    for (name, stages) in [("TLS", tls_stages(home)), ("SASL", sasl_stages())] {
        let directory = home.join(format!("rolling-{name}"));
        std::fs::create_dir_all(&directory)?;
        let apache = Server::Apache(edition.clone());
        let servers = [apache.clone(), tested.clone(), apache];
        let mut fleet = Fleet::new(&directory, servers.map(|server| (server, Vote::Participant)).to_vec())?;
        fleet.protect("", &stores::login_words(home))?;
        let name = format!("{} {name} by rolling restarts", edition.number());
        match roll_all(&mut fleet, &stages).await {
            Ok(row) => {
                println!("  {row}");
                outcome::ok(&name);
            }
            Err(fault) => {
                println!("{}", fleet.last_words());
                ending = outcome::not_ok(&name, &fault);
            }
        }
    }
    Ok(ending)
}

/// There in three steps, and back.
fn tls_stages(home: &Path) -> Vec<Stage> {
    let file =
        |store: &str, name: &str| format!("ssl.quorum.{store}.location={}\n", home.join(name).display());
    let files = file("keyStore", "server.pem") + &file("trustStore", "trust.pem");
    let stage =
        |name, ssl, both| Stage { name, lines: format!("{files}sslQuorum={ssl}\nportUnification={both}\n") };
    vec![
        stage("listeners take both", false, true),
        stage("TLS is dialled", true, true),
        stage("TLS only", true, false),
        stage("listeners take both again", true, true),
        stage("plain is dialled", false, true),
        Stage { name: "plain only", lines: String::new() },
    ]
}

fn sasl_stages() -> Vec<Stage> {
    let lines = |learner, server| {
        format!(
            "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl={learner}\n\
             quorum.auth.serverRequireSasl={server}\n"
        )
    };
    vec![
        Stage { name: "SASL is known", lines: lines(false, false) },
        Stage { name: "learners authenticate", lines: lines(true, false) },
        Stage { name: "servers insist", lines: lines(true, true) },
        Stage { name: "servers do not insist", lines: lines(true, false) },
        Stage { name: "learners do not authenticate", lines: lines(false, false) },
        Stage { name: "without SASL", lines: String::new() },
    ]
}

async fn roll_all(fleet: &mut Fleet, stages: &[Stage]) -> Result<String> {
    let mut writers = start_under_load(fleet).await?;
    for stage in stages {
        for index in migration::order(fleet)? {
            let what = || format!("{}, server {}", stage.name, index + 1);
            restart(fleet, index, &stage.lines, &writers).await.with_context(what)?;
        }
        let written: usize = writers.iter().map(Writer::acknowledged).sum();
        println!("  {}: {written} writes so far", stage.name);
    }
    migration::conclude(fleet, std::mem::take(&mut writers)).await
}

/// Starts all members and the clients.
pub(super) async fn start_under_load(fleet: &mut Fleet) -> Result<Vec<Writer>> {
    (0..fleet.len()).try_for_each(|index| fleet.start(index))?;
    fleet.await_service()?;
    let servers = fleet.connect_string();
    load::make_top(&servers).await?;
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        writers.push(Writer::start(&servers, number).await?);
    }
    tokio::time::sleep(STAY).await;
    Ok(writers)
}

/// Restarts one member with other lines. If it does not lead, the leader must stay the same.
pub(super) async fn restart(fleet: &mut Fleet, index: usize, lines: &str, writers: &[Writer]) -> Result<()> {
    let leader = fleet.leader().context("nobody leads")?;
    let epoch = fleet.epoch(leader)?;
    let before: usize = writers.iter().map(Writer::acknowledged).sum();
    let marks = fleet.log_marks();
    fleet.configure(index, lines)?;
    fleet.signal(index, Signal::Terminate)?;
    fleet.start(index)?;
    let (new_leader, _) = fleet.await_service()?;
    if index != leader {
        ensure!(new_leader == leader, "server {} leads instead of {}", new_leader + 1, leader + 1);
        let now = fleet.epoch(leader)?;
        ensure!(now == epoch, "epoch {epoch} became {now}: the quorum was lost");
    }
    tokio::time::sleep(STAY).await;
    // Apache counts wrong digests while it takes a whole state, and if it loses its leader while it is
    // behind: it reads its log while it still applies. The trees are compared in the end.
    for (member, mark) in marks.into_iter().enumerate() {
        let took_all = seen::received(fleet, member, mark)?.of(Kind::Snap) > 0;
        if (took_all || index == leader) && !fleet.server(member).is_zebu() {
            fleet.excuse_digests(member)?;
        }
    }
    check_sessions(fleet, index, writers).await?;
    let after: usize = writers.iter().map(Writer::acknowledged).sum();
    ensure!(after > before, "nothing was written meanwhile");
    Ok(())
}

/// All clients still have the sessions that they began with, as one member shows it.
pub(super) async fn check_sessions(fleet: &Fleet, index: usize, writers: &[Writer]) -> Result<()> {
    let visitor = load::visit(&fleet.address(index).to_string()).await?;
    for writer in writers {
        writer.check_session(&visitor).await?;
    }
    visitor.close().await?;
    Ok(())
}
