//! The paths of a connection's queued writes, in case that one turns out slow. They lie one behind the other,
//! so that a path costs no allocation of its own.

use zebu_metrics::cut_text;

use super::ClientConnection;
use crate::traffic::PATH_BYTES_MAX;

/// Bytes that an empty list keeps allocated.
const KEPT_BYTES: usize = 4096;

/// Paths in the order of their slots. The limits of the slots bound them.
#[derive(Debug, Default)]
pub(super) struct QueuedPaths {
    bytes: Vec<u8>,
    /// Bytes of paths whose slots are gone. The last of them stays readable until another path comes.
    gone: usize,
}

impl QueuedPaths {
    fn push(&mut self, path: &str) {
        if self.gone == self.bytes.len() {
            self.bytes.clear();
            self.gone = 0;
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes.shrink_to(KEPT_BYTES);
            }
        } else if self.gone > self.bytes.len() / 2 {
            self.bytes.drain(..self.gone);
            self.gone = 0;
        }
        self.bytes.extend_from_slice(path.as_bytes());
    }

    fn last_gone(&self, length: usize) -> Option<&str> {
        let bytes = self.bytes.get(self.gone.checked_sub(length)?..self.gone)?;
        std::str::from_utf8(bytes).ok()
    }
}

impl ClientConnection {
    /// Keeps the path of a write whose slot comes next. Returns its length there, which the slot must keep.
    pub(crate) fn queue_path(&mut self, path: &str) -> u16 {
        let path = if path.len() > PATH_BYTES_MAX { cut_text(path, PATH_BYTES_MAX) } else { path };
        self.observed.get_or_insert_default().paths.push(path);
        path.len() as u16
    }

    /// The path of the write that left its slot last.
    pub(crate) fn path_of_answered(&self, length: u16) -> Option<&str> {
        if length == 0 { None } else { self.observed.as_ref()?.paths.last_gone(usize::from(length)) }
    }

    /// Forgets all paths: the slots are gone.
    pub(super) fn forget_paths(&mut self) {
        if let Some(observed) = &mut self.observed {
            observed.paths = QueuedPaths::default();
        }
    }

    /// Counts a path whose slot is gone.
    pub(super) fn leave_path(&mut self, length: u16) {
        if let (Some(observed), 1..) = (&mut self.observed, length) {
            observed.paths.gone += usize::from(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use zebu_tree::Credentials;

    use super::*;
    use crate::connection::ConnectionId;

    #[test]
    fn each_path_is_found_when_its_write_is_answered() {
        let peer = std::net::Ipv4Addr::LOCALHOST.into();
        let mut connection = ClientConnection::new(ConnectionId(1), Credentials::of_peer(peer), 0, 0);
        let mut queued = std::collections::VecDeque::new();
        let long = format!("/{}", "ä".repeat(PATH_BYTES_MAX));
        for number in 0..10_000 {
            let path = if number % 7 == 0 { long.clone() } else { format!("/app/{number}") };
            queued.push_back((connection.queue_path(&path), path));
            if queued.len() > number % 50 {
                let (length, path) = queued.pop_front().unwrap();
                connection.leave_path(length);
                let found = connection.path_of_answered(length).unwrap();
                assert!(
                    path.starts_with(found) && found.len() + 1 >= path.len().min(PATH_BYTES_MAX),
                    "{path}"
                );
            }
        }
        let kept = connection.observed.as_ref().unwrap().paths.bytes.capacity();
        assert!(kept < 256 * PATH_BYTES_MAX, "{kept}");
        assert_eq!(connection.path_of_answered(0), None);
    }
}
