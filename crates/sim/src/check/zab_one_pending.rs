//! At most one list of members is proposed and not decided: who proposes one has put the one before it into effect.

use zebu_proto::Zxid;

use super::Judge;
use crate::history::{Verdict, Violation};

const NAME: &str = "zab_one_pending";

/// A list was proposed to a server. The first who hears of it is the leader that proposes it.
pub(super) fn check_proposal(judge: &mut Judge, server: usize, version: i64) -> Verdict {
    if Zxid(version).counter() == 0 || !judge.proposed.insert(version) {
        return Ok(());
    }
    let view = &judge.servers[server];
    let same_epoch = |other: &i64| Zxid(*other).epoch() == Zxid(version).epoch();
    let open = judge.proposed.iter().copied().find(|other| {
        let here = same_epoch(other) || view.entry(*other).is_some();
        *other < version && here && !judge.activated.contains(other)
    });
    match open {
        None => Ok(()),
        Some(other) => {
            let text = format!("server {server} proposes list {version:#x} while {other:#x} is not decided");
            Err(Violation::new(NAME, text))
        }
    }
}
