//! Everything that one call has measured, as it is kept: tables, plots and the document are made from this
//! alone.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::forest::Filling;
use super::versions::Versions;
use super::{
    ceiling, fixed_rate, flat_out, machine::Machine, occasions, scaling, snapshots, start, throughput, tls,
};

/// All measurements of a run; a part that was not measured is empty.
#[derive(Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) machine: Machine,
    pub(crate) versions: Versions,
    pub(crate) load_average_after: String,
    pub(crate) loads: Vec<throughput::Outcome>,
    pub(crate) ensembles: Vec<throughput::Outcome>,
    pub(crate) fixed_rates: Vec<fixed_rate::Outcome>,
    pub(crate) scaling: Option<scaling::Scaling>,
    pub(crate) filling: Vec<Filling>,
    pub(crate) starts: Vec<start::Outcome>,
    pub(crate) snapshots: Vec<snapshots::Outcome>,
    pub(crate) flat_out: Vec<flat_out::Outcome>,
    pub(crate) occasions: Option<occasions::Occasions>,
    pub(crate) ceiling: Vec<ceiling::Outcome>,
    #[serde(default)]
    pub(crate) tls: Option<tls::TlsOutcome>,
    /// Parts that could not be measured, and why.
    pub(crate) failures: Vec<String>,
}

impl Measured {
    pub(crate) fn new(machine: Machine, versions: Versions) -> Measured {
        Measured {
            machine,
            versions,
            load_average_after: String::new(),
            loads: Vec::new(),
            ensembles: Vec::new(),
            fixed_rates: Vec::new(),
            scaling: None,
            filling: Vec::new(),
            starts: Vec::new(),
            snapshots: Vec::new(),
            flat_out: Vec::new(),
            occasions: None,
            ceiling: Vec::new(),
            tls: None,
            failures: Vec::new(),
        }
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let file = File::create(path).with_context(|| format!("create {}", path.display()))?;
        serde_json::to_writer(std::io::BufWriter::new(file), self)
            .with_context(|| format!("write {}", path.display()))
    }

    pub(crate) fn read(path: &Path) -> Result<Measured> {
        let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
        serde_json::from_reader(std::io::BufReader::new(file))
            .with_context(|| format!("{} was not written by this program", path.display()))
    }

    /// A load on one server.
    pub(crate) fn load(&self, mix: &str, in_flight: usize) -> Option<&throughput::Outcome> {
        find(&self.loads, mix, in_flight)
    }

    /// A load on three servers.
    pub(crate) fn ensemble(&self, mix: &str, in_flight: usize) -> Option<&throughput::Outcome> {
        find(&self.ensembles, mix, in_flight)
    }
}

/// Small data, one session or 32.
fn find<'a>(
    outcomes: &'a [throughput::Outcome],
    mix: &str,
    in_flight: usize,
) -> Option<&'a throughput::Outcome> {
    outcomes.iter().find(|outcome| {
        outcome.name() == mix
            && outcome.data_bytes == 100
            && outcome.in_flight == in_flight
            && outcome.sessions == in_flight
    })
}
