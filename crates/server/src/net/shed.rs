//! Closes a share of the client connections, so that the clients connect to other servers. After a
//! rolling restart the last restarted server has few clients, because a client stays until its
//! connection closes.

use tracing::info;
use zebu_node::{ConnectionPhase, DisconnectReason};

use crate::core::context::ServerContext;
use crate::four_letter::FourLetterReport;

/// Parses a number from 0 to 100.
pub(crate) fn parse_percentage(argument: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(argument).ok()?;
    text.trim().parse().ok().filter(|percentage| *percentage <= 100)
}

/// Closes that share of the connections with a session. The sessions continue on other servers.
pub(crate) fn shed_connections(shared: &ServerContext, percentage: usize) -> FourLetterReport {
    let ShedCounts { closed, remaining } = close_share(shared, percentage);
    FourLetterReport::Shed { closed, remaining }
}

/// The connections that were closed, and those that stay.
pub(crate) struct ShedCounts {
    pub(crate) closed: usize,
    pub(crate) remaining: usize,
}

/// Closes that share of the connections with a session, and counts them.
pub(crate) fn close_share(shared: &ServerContext, percentage: usize) -> ShedCounts {
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for entry in shared.connections.all() {
        let connection = entry.lock();
        if connection.phase == ConnectionPhase::Serving {
            let is_idle = connection.outstanding() == 0 && connection.outbox_len() == 0;
            drop(connection);
            if is_idle { idle.push(entry) } else { busy.push(entry) }
        }
    }
    let all = idle.len() + busy.len();
    let wanted = all * percentage / 100;
    // A client with an outstanding request would not learn its result, so busy connections come
    // last.
    let (quiet, rest) = (wanted.min(idle.len()), wanted.saturating_sub(idle.len()));
    for entry in spread_evenly(&idle, quiet).chain(spread_evenly(&busy, rest)) {
        entry.lock().close(DisconnectReason::Shed);
        entry.wake_task();
    }
    info!(closed = wanted, left = all - wanted, "clients were sent to other servers");
    ShedCounts { closed: wanted, remaining: all - wanted }
}

/// Chooses this many entries, spread evenly over all ages.
fn spread_evenly<T>(all: &[T], count: usize) -> impl Iterator<Item = &T> {
    (0..count).map(move |index| &all[index * all.len() / count])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_number_up_to_a_hundred() {
        assert_eq!(parse_percentage(b" 25\n"), Some(25));
        assert_eq!(parse_percentage(b" 100\n"), Some(100));
        assert_eq!(parse_percentage(b"0"), Some(0));
        for wrong in [&b""[..], b" 101\n", b" -1\n", b" x\n", b"\xff", b" 1 2\n"] {
            assert_eq!(parse_percentage(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn those_who_go_are_of_all_ages() {
        let all: Vec<usize> = (0..10).collect();
        let chosen = |count| spread_evenly(&all, count).copied().collect::<Vec<_>>();
        assert_eq!((chosen(0), chosen(2), chosen(3)), (vec![], vec![0, 5], vec![0, 3, 6]));
        assert_eq!(chosen(10), all);
    }
}
