//! Bytes of the transaction log that wait for the disk. Above a limit, nothing is read from peers:
//! a follower with a slow disk delays its leader's proposals, a leader its followers' requests.
//! Nothing already received is refused. The wait depends only on the disk, never on the network.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicUsize, Notify};

/// Bytes that may wait before the links stop reading. Zab's history holds the same transactions
/// once more.
const BYTES_MAX: usize = 16 << 20;

#[derive(Debug, Default)]
pub(crate) struct DiskBacklog {
    bytes: AtomicUsize,
    /// Notified when the backlog falls below the limit.
    room_available: Notify,
}

impl DiskBacklog {
    /// Bytes in the queue.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Adds bytes that the disk thread was given.
    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Removes bytes that are durable.
    pub(crate) fn remove(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        if before > BYTES_MAX && before - bytes <= BYTES_MAX {
            self.room_available.notify_waiters();
        }
    }

    /// Waits while the backlog is above the limit.
    pub(crate) async fn wait_for_room(&self) {
        if self.bytes.load(Ordering::Acquire) <= BYTES_MAX {
            return;
        }
        loop {
            let room = self.room_available.notified();
            tokio::pin!(room);
            // A notification after this line is not missed.
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
    use std::time::Duration;

    use super::*;

    /// A bound far above the time of a wakeup.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn the_network_is_read_on_when_the_disk_has_caught_up() {
        let backlog = DiskBacklog::default();
        backlog.add(BYTES_MAX);
        backlog.wait_for_room().await;
        backlog.add(2);
        let waits = async {
            backlog.wait_for_room().await;
            backlog.bytes.load(Ordering::Acquire)
        };
        let works = async {
            for _ in 0..2 {
                // The other future waits by now, because both run on one thread in turn.
                tokio::task::yield_now().await;
                backlog.remove(1);
            }
        };
        let both = async { tokio::join!(waits, works).0 };
        let left = tokio::time::timeout(PATIENCE, both).await.expect("the network is read on");
        assert_eq!(left, BYTES_MAX);
    }
}
