//! The limit of open files. Connections, the log, snapshots and links to peers need descriptors.
//! Clients must not use them all, because a server that cannot open its log must stop.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{debug, info};

/// Descriptors reserved for everything but clients.
const RESERVED_FILES: u64 = 256;

/// Raises the soft limit to the hard limit. For the program, not for a library.
pub fn raise_open_file_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        debug!(%error, "the number of open files stays as it is");
    }
}

/// Most client connections, by the configuration and the limit of open files.
pub(crate) fn connections_max(configured: Option<u32>) -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    let max = cap_connections(configured.map(u64::from), limit);
    info!(max, open_files = limit, "connections that may be open at a time");
    usize::try_from(max).unwrap_or(usize::MAX)
}

/// Without a limit of open files only the configuration counts. With one, clients get at least half
/// of it.
fn cap_connections(configured: Option<u64>, limit: Option<u64>) -> u64 {
    let room = limit.map_or(u64::MAX, |limit| limit - RESERVED_FILES.min(limit / 2));
    configured.unwrap_or(u64::MAX).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_something_for_the_files() {
        assert_eq!(cap_connections(None, Some(1024)), 768);
        assert_eq!(cap_connections(Some(100), Some(1024)), 100);
        assert_eq!(cap_connections(Some(5000), Some(1024)), 768);
        assert_eq!(cap_connections(None, Some(64)), 32);
        assert_eq!((cap_connections(None, None), cap_connections(Some(7), None)), (u64::MAX, 7));
    }
}
