//! A server can start with every committed configuration: the code that parses it at startup accepts every
//! line, with the settings of the ensemble.

use zebu_zab::Configuration;
use zebu_zab::membership::{MultiAddress, parse_server_spec};

use crate::history::{CheckResult, Violation};

const NAME: &str = "startable_configurations";

/// A server writes a configuration to its files.
pub(crate) fn check_written(server: usize, configuration: &Configuration) -> CheckResult {
    let refused = |why: String| {
        let version = configuration.version;
        let text = format!("server {server} could not start with configuration {version:#x}: {why}");
        Err(Violation::new(NAME, text))
    };
    let lines = configuration.sorted_lines();
    for line in &lines {
        let member = line.split_once('=').filter(|(key, _)| key.starts_with("server."));
        // The servers of the simulator have no multiAddress.enabled.
        if let Some(Err(why)) = member.map(|(_, value)| parse_server_spec(value, MultiAddress::Disabled)) {
            return refused(why);
        }
    }
    match Configuration::parse(&lines.join("\n")) {
        Err(error) => refused(error.to_string()),
        Ok(read) if read.members != configuration.members => refused("it reads another one".to_owned()),
        Ok(read) if !read.has_voters() => refused("it has no voter".to_owned()),
        Ok(_) => Ok(()),
    }
}
