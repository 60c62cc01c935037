//! How many files the process may have open. A connection takes one, and so do the log, snapshots and links to other
//! members: clients must not take those, for a server that cannot open its log has to stop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, info};

/// Left for everything but clients.
const RESERVED: u64 = 256;

/// Asks the system for as many as it gives without asking anybody. For the program, not for a library.
pub fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        debug!(%error, "the number of open files stays as it is");
    }
}

/// How many connections there may be, with what the configuration says.
pub(crate) fn connections_max(configured: Option<u32>) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let max = within(configured.map(u64::from), limit);
    info!(max, open_files = limit, "connections that may be open at a time");
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// No limit is no limit; with one, at least half of it is for clients.
fn within(configured: Option<u64>, limit: Option<u64>) -> u64 {
    let room = limit.map_or(u64::MAX, |limit| limit - RESERVED.min(limit / 2));
    configured.unwrap_or(u64::MAX).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_something_for_the_files() {
        assert_eq!(within(None, Some(1024)), 768);
        assert_eq!(within(Some(100), Some(1024)), 100);
        assert_eq!(within(Some(5000), Some(1024)), 768);
        assert_eq!(within(None, Some(64)), 32);
        assert_eq!((within(None, None), within(Some(7), None)), (u64::MAX, 7));
    }
}
