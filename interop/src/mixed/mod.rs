//! Ensembles of Apache ZooKeeper and Zebu: every way in which a member is brought up to date, in every role
//! and with several releases of Apache; and servers that change hands one by one under load.

mod agree;
mod certificates;
mod fleet;
mod keeper_writes;
mod load;
mod long;
mod matrix;
mod migration;
mod poison;
mod protected;
mod rolling;
mod seen;
mod table;
mod upgrade;
mod writes;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::apache::Edition;
use crate::outcome::{self, Ending};
use fleet::Server;
use matrix::Matrix;
use table::Table;

/// What to run.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The zebu binary; without it Apache ZooKeeper takes its place, and any fault is its own or this
    /// program's
    #[arg(long, value_name = "PATH")]
    zebu: Option<PathBuf>,
    /// Releases for the matrix: `latest`, `debian` or a version
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    matrix: Vec<String>,
    /// Releases to migrate from and back to
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    migrate: Vec<String>,
    /// The previous Zebu, a binary or a git revision, to upgrade from and to go back to; `ZEBU_PREVIOUS` wins
    #[arg(long, value_name = "BINARY or REVISION")]
    upgrade_from: Option<String>,
    /// Releases for ensembles with SASL and TLS between the servers
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    protected: Vec<String>,
    /// Releases for ensembles whose TLS, SASL and certificates change while clients write
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    rolling: Vec<String>,
    /// Releases that follow a Zebu leader through writes of ClickHouse Keeper
    #[arg(long, value_name = "EDITION", value_delimiter = ',')]
    keeper_writes: Vec<String>,
    /// Writes of ClickHouse Keeper
    #[arg(long, value_name = "COUNT", default_value_t = 400)]
    keeper_write_count: usize,
    /// Write the counts of the matrix into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep configurations, logs and data below this directory
    #[arg(long, value_name = "DIRECTORY")]
    keep: Option<PathBuf>,
}

/// Runs it.
pub(crate) fn run(arguments: &Arguments) -> Result<Ending> {
    let tested = match &arguments.zebu {
        Some(binary) => Server::Zebu(binary.canonicalize()?),
        None => Server::Apache(Edition::parse("latest")),
    };
    let editions = |texts: &[String]| texts.iter().map(|text| Edition::parse(text)).collect::<Vec<_>>();
    let mut ending = Ending::Good;
    let mut table = Table::default();
    for edition in editions(&arguments.matrix) {
        let home = Home::new(arguments, &format!("matrix-{}", edition.number()))?;
        let mut matrix = Matrix::new(&home.path, &edition, tested.clone(), &mut table)?;
        println!("== {edition}: the matrix");
        if matrix.run().is_err() {
            ending = Ending::Bad;
        }
        matrix.verdict();
    }
    if !arguments.matrix.is_empty() {
        print!("{}", table.text());
        show_poison(arguments)?;
    }
    if let Some(path) = &arguments.json {
        table.save(path)?;
    }
    for edition in editions(&arguments.protected) {
        let home = Home::new(arguments, &format!("protected-{}", edition.number()))?;
        println!("== {edition}: SASL and TLS between the servers");
        if protected::run(&home.path, &edition, &tested)? == Ending::Bad {
            ending = Ending::Bad;
        }
    }
    if !arguments.keeper_writes.is_empty() {
        let home = Home::new(arguments, "keeper-writes")?;
        let releases = editions(&arguments.keeper_writes);
        println!("== {}: writes of ClickHouse Keeper", arguments.keeper_writes.join(" and "));
        if keeper_writes::run(&home.path, &releases, &tested, arguments.keeper_write_count).is_err() {
            ending = Ending::Bad;
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    for edition in editions(&arguments.rolling) {
        let home = Home::new(arguments, &format!("rolling-{}", edition.number()))?;
        println!("== {edition}: protection changes under load");
        let changes = runtime.block_on(rolling::run(&home.path, &edition, &tested))?;
        let replaced = runtime.block_on(certificates::run(&home.path, &edition, &tested))?;
        if [changes, replaced].contains(&Ending::Bad) {
            ending = Ending::Bad;
        }
    }
    for edition in editions(&arguments.migrate) {
        let home = Home::new(arguments, &format!("migration-{}", edition.number()))?;
        println!("== {edition}: there and back");
        if let Err(fault) = runtime.block_on(migration::run(&home.path, &edition, &tested)) {
            println!("{fault:#}");
            ending = Ending::Bad;
        }
    }
    if let Some(previous) = &arguments.upgrade_from {
        let previous = Server::PreviousZebu(upgrade::Previous::choose(previous).binary()?);
        let home = Home::new(arguments, "upgrade")?;
        println!("== upgrade and downgrade");
        if let Err(fault) = runtime.block_on(upgrade::run(&home.path, &previous, &tested)) {
            println!("{fault:#}");
            ending = Ending::Bad;
        }
    }
    Ok(ending)
}

/// The requests that Zebu keeps from Apache do harm where they arrive; otherwise nothing was tested.
fn show_poison(arguments: &Arguments) -> Result<()> {
    let edition = Edition::parse("latest");
    let home = Home::new(arguments, "poison")?;
    let name = format!("{} sent to Apache itself, what does not decode stops it", edition.number());
    match matrix::poison_is_poison(&home.path, &edition)? {
        true => outcome::ok(&name),
        false => outcome::not_ok(&name, &anyhow::anyhow!("Apache went on; the test shows nothing any more")),
    };
    Ok(())
}

/// A directory for one ensemble.
struct Home {
    path: PathBuf,
    _removed: Option<tempfile::TempDir>,
}

impl Home {
    fn new(arguments: &Arguments, name: &str) -> Result<Home> {
        match &arguments.keep {
            Some(directory) => {
                let path = directory.join(name);
                std::fs::create_dir_all(&path)?;
                Ok(Home { path: path.canonicalize()?, _removed: None })
            }
            None => {
                let directory = tempfile::Builder::new().prefix("zebu-mixed").tempdir()?;
                Ok(Home { path: directory.path().to_owned(), _removed: Some(directory) })
            }
        }
    }
}
