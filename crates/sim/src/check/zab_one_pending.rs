//! At most one config is proposed and not committed: a leader that proposes one has put the one before it
//! into effect.

use zebu_proto::Zxid;

use super::Checker;
use crate::history::{CheckResult, Violation};

const NAME: &str = "zab_one_pending";

/// A config was proposed to a server. The first server that has it is the leader that proposes it.
pub(super) fn check_proposal(checker: &mut Checker, server: usize, version: i64) -> CheckResult {
    if Zxid(version).counter() == 0 || !checker.proposed.insert(version) {
        return Ok(());
    }
    let view = &checker.servers[server];
    let same_epoch = |other: &i64| Zxid(*other).epoch() == Zxid(version).epoch();
    let open = checker.proposed.iter().copied().find(|other| {
        let here = same_epoch(other) || view.entry(*other).is_some();
        *other < version && here && !checker.activated.contains(other)
    });
    match open {
        None => Ok(()),
        Some(other) => {
            let text = format!("server {server} proposes list {version:#x} while {other:#x} is not decided");
            Err(Violation::new(NAME, text))
        }
    }
}
