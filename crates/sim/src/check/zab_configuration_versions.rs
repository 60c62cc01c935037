//! A version names one list of members everywhere, and the lists in effect at a server only get newer: also over a
//! restart, as far as its files go.

use super::Judge;
use crate::history::{Verdict, Violation};
use crate::members::List;

const NAME: &str = "zab_configuration_versions";

/// A list was proposed to a server, or takes effect there.
pub(super) fn check_text(judge: &mut Judge, server: usize, list: &List) -> Verdict {
    let known = judge.lists.entry(list.version).or_insert_with(|| list.clone());
    if known == list {
        return Ok(());
    }
    let text =
        format!("server {server} knows list {:#x} as {:?}, not {:?}", list.version, list.seats, known.seats);
    Err(Violation::new(NAME, text))
}

/// A list takes effect.
pub(super) fn check_activation(judge: &mut Judge, server: usize, version: i64) -> Verdict {
    let view = &mut judge.servers[server];
    if version > view.list_version {
        view.list_version = version;
        return Ok(());
    }
    let text = format!("server {server} goes from list {:#x} to {version:#x}", view.list_version);
    Err(Violation::new(NAME, text))
}

/// A server starts with the list of its files.
pub(crate) fn check_start(judge: &mut Judge, server: usize, version: i64) -> Verdict {
    let view = &mut judge.servers[server];
    view.list_version = version;
    if version >= view.list_saved {
        return Ok(());
    }
    let text =
        format!("server {server} had list {:#x} in its files, but starts with {version:#x}", view.list_saved);
    Err(Violation::new(NAME, text))
}
