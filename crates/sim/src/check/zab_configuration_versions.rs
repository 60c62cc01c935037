//! A version names one config everywhere, and the configs in effect at a server only get newer. This holds
//! over a restart too, as far as its files go.

use super::Checker;
use crate::history::{CheckResult, Violation};
use crate::members::EnsembleConfig;

const NAME: &str = "zab_configuration_versions";

/// A config was proposed to a server, or takes effect there.
pub(super) fn check_text(checker: &mut Checker, server: usize, list: &EnsembleConfig) -> CheckResult {
    let known = checker.lists.entry(list.version).or_insert_with(|| list.clone());
    if known == list {
        return Ok(());
    }
    let text = format!(
        "server {server} knows list {:#x} as {:?}, not {:?}",
        list.version, list.servers, known.servers
    );
    Err(Violation::new(NAME, text))
}

/// A config takes effect.
pub(super) fn check_activation(checker: &mut Checker, server: usize, version: i64) -> CheckResult {
    let view = &mut checker.servers[server];
    if version > view.list_version {
        view.list_version = version;
        return Ok(());
    }
    let text = format!("server {server} goes from list {:#x} to {version:#x}", view.list_version);
    Err(Violation::new(NAME, text))
}

/// A server starts with the config of its files.
pub(crate) fn check_start(checker: &mut Checker, server: usize, version: i64) -> CheckResult {
    let view = &mut checker.servers[server];
    view.list_version = version;
    if version >= view.list_saved {
        return Ok(());
    }
    let text =
        format!("server {server} had list {:#x} in its files, but starts with {version:#x}", view.list_saved);
    Err(Violation::new(NAME, text))
}
