//! Ensembles of Apache and Zebu whose servers protect their connections: SASL, TLS, and both. Every server is
//! killed once while it leads or follows, and comes back.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::agree;
use super::fleet::{Fleet, Server, Signal, Vote};
use super::writes::Writes;
use crate::apache::Edition;
use crate::outcome::{self, Ending};
use crate::stores;

/// Writes of one step.
const FEW: usize = 24;

/// Kills of each server; the highest id leads again after the first round.
const ROUNDS: usize = 2;

/// The protection of one run.
#[derive(Clone, Copy, Debug)]
struct Protection {
    name: &'static str,
    sasl: bool,
    /// The names of the key store and the trust store.
    tls: Option<(&'static str, &'static str)>,
}

const PROTECTIONS: [Protection; 4] = [
    Protection { name: "SASL", sasl: true, tls: None },
    Protection { name: "TLS with PEM stores", sasl: false, tls: Some(("server.pem", "trust.pem")) },
    Protection { name: "TLS with PKCS12 stores", sasl: false, tls: Some(("server.p12", "trust.p12")) },
    Protection { name: "SASL and TLS", sasl: true, tls: Some(("server.pem", "trust.pem")) },
];

/// Runs all kinds of protection with one release.
pub(super) fn run(home: &Path, edition: &Edition, tested: &Server) -> Result<Ending> {
    stores::make_authority(home, "trust", "/CN=authority")?;
    stores::make_server(home, "server", "trust")?;
    stores::make_pkcs12(home, "server", "trust")?;
    let mut ending = Ending::Good;
    for protection in PROTECTIONS {
        let name = format!("{} with {}", edition.number(), protection.name);
        match run_one(home, edition, tested, protection) {
            Ok(()) => drop(outcome::ok(&name)),
            Err(fault) => ending = outcome::not_ok(&name, &fault),
        }
    }
    Ok(ending)
}

fn run_one(home: &Path, edition: &Edition, tested: &Server, protection: Protection) -> Result<()> {
    let directory = home.join(protection.name.replace(' ', "-"));
    fs::create_dir_all(&directory)?;
    let apache = Server::Apache(edition.clone());
    // Zebu leads by its id when all are there; Apache does when it is gone.
    let seats = vec![
        (apache.clone(), Vote::Participant),
        (apache, Vote::Participant),
        (tested.clone(), Vote::Participant),
        (tested.clone(), Vote::Observer),
    ];
    let mut fleet = Fleet::new(&directory, seats)?;
    fleet.protect(&lines(home, protection)?, &properties(home, protection))?;
    let result = survive(&mut fleet);
    if result.is_err() {
        println!("{}", fleet.last_words());
    }
    result
}

fn survive(fleet: &mut Fleet) -> Result<()> {
    let mut writes = Writes::default();
    (0..fleet.len()).try_for_each(|index| fleet.start(index))?;
    fleet.await_service()?;
    for _ in 0..ROUNDS {
        for killed in (0..fleet.len()).rev() {
            let (leader, _) = fleet.await_service()?;
            writes.write(fleet.address(leader), FEW)?;
            fleet.signal(killed, Signal::Kill)?;
            let (leader, _) = fleet.await_service()?;
            writes.write(fleet.address(leader), FEW)?;
            fleet.start(killed)?;
        }
    }
    let (leader, _) = fleet.await_service()?;
    writes.write(fleet.address(leader), FEW)?;
    fleet.await_equal_zxids()?;
    let agreement = agree::compare(fleet)?;
    println!("  {} nodes and {} digests are equal", agreement.nodes, agreement.digests);
    Ok(())
}

/// Lines for each configuration.
fn lines(home: &Path, protection: Protection) -> Result<String> {
    let mut lines = String::new();
    if protection.sasl {
        stores::make_logins(home)?;
        lines.push_str(
            "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n",
        );
    }
    if let Some((keys, trust)) = protection.tls {
        lines.push_str("sslQuorum=true\n");
        for (store, file) in [("keyStore", keys), ("trustStore", trust)] {
            lines.push_str(&format!("ssl.quorum.{store}.location={}\n", home.join(file).display()));
            if file.ends_with(".p12") {
                lines.push_str(&format!("ssl.quorum.{store}.password=secret\n"));
            }
        }
    }
    Ok(lines)
}

/// Words of the command line for both.
fn properties(home: &Path, protection: Protection) -> Vec<String> {
    if protection.sasl { stores::login_words(home) } else { Vec::new() }
}
