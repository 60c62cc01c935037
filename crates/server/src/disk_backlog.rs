//! Bytes of the transaction log that wait for the disk. While there are too many, nothing is read from other servers:
//! a follower with a slow disk holds back its leader's proposals, a leader its followers' requests. It refuses nothing
//! that is here already, and waits for the disk alone, never for the network.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Bytes that may wait before the network is read on. Zab's history holds the same transactions once more.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(crate) struct DiskBacklog {
    bytes: AtomicUsize,
    /// Notified when there is room again.
    room: Notify,
}

impl DiskBacklog {
    /// The disk was given so much.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// So much of it is durable.
    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before > BYTES_MAX && before - bytes <= BYTES_MAX {
            self.room.notify_waiters();
        }
    }

    /// Waits while there is too much.
    pub(crate) async fn room(&self) {
        if self.bytes.load(Ordering::Acquire) <= BYTES_MAX {
            return;
        }
        loop {
            let room = self.room.notified();
            tokio::pin!(room);
            // From here on nothing is missed.
            room.as_mut().enable();
            if self.bytes.load(Ordering::Acquire) <= BYTES_MAX {
                return;
            }
            room.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_network_is_read_on_when_the_disk_has_caught_up() {
        let backlog = DiskBacklog::default();
        backlog.add(BYTES_MAX);
        backlog.room().await;
        backlog.add(2);
        let waits = async {
            backlog.room().await;
            backlog.bytes.load(Ordering::Acquire)
        };
        let works = async {
            for _ in 0..2 {
                // The other one waits by now: both run in turn.
                tokio::task::yield_now().await;
                backlog.remove(1);
            }
        };
        assert_eq!(tokio::join!(waits, works).0, BYTES_MAX);
    }
}
