//! Sends a share of the clients to other servers. After a rolling restart the server that was restarted last has few
//! clients and the others have too many; a client stays where it is until its connection is closed.

use tracing::info;
use zebu_node::{CloseReason, Phase};

use crate::four_letter::Report;
use crate::shared::Shared;

/// A number from 0 to 100, as text.
pub(crate) fn percentage(argument: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(argument).ok()?;
    text.trim().parse().ok().filter(|percentage| *percentage <= 100)
}

/// Closes that share of the connections that have a session. Their clients lose nothing: the sessions go on elsewhere.
pub(crate) fn shed(shared: &Shared, percentage: usize) -> Report {
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for cell in shared.lanes.all() {
        let lane = cell.lock();
        if lane.phase == Phase::Serving {
            let is_idle = lane.outstanding() == 0 && lane.outbox_len() == 0;
            drop(lane);
            if is_idle { idle.push(cell) } else { busy.push(cell) }
        }
    }
    let all = idle.len() + busy.len();
    let wanted = all * percentage / 100;
    // Who waits for an answer would not know what became of its request, so these come last.
    let (quiet, rest) = (wanted.min(idle.len()), wanted.saturating_sub(idle.len()));
    for cell in spread(&idle, quiet).chain(spread(&busy, rest)) {
        cell.lock().close(CloseReason::Shed);
        cell.ring();
    }
    info!(closed = wanted, left = all - wanted, "clients were sent to other servers");
    Report::Shed { closed: wanted, left: all - wanted }
}

/// So many of them, of all ages.
fn spread<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    (0..count).map(move |index| &all[index * all.len() / count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_number_up_to_a_hundred() {
        assert_eq!(percentage(b" 25\n"), Some(25));
        assert_eq!(percentage(b" 100\n"), Some(100));
        assert_eq!(percentage(b"0"), Some(0));
        for wrong in [&b""[..], b" 101\n", b" -1\n", b" x\n", b"\xff", b" 1 2\n"] {
            assert_eq!(percentage(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn those_who_go_are_of_all_ages() {
        let all: Vec<usize> = (0..10).collect();
        let chosen = |count| spread(&all, count).copied().collect::<Vec<_>>();
        assert_eq!((chosen(0), chosen(2), chosen(3)), (vec![], vec![0, 5], vec![0, 3, 6]));
        assert_eq!(chosen(10), all);
    }
}
