//! Events of one peer on the election port, until the task of its connection handles them. At most
//! one of each kind is kept: a newer connection replaces an older one, which closes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::peer_stream::PeerStream;

/// An event of a peer.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A connection to use.
    Connection(PeerStream),
    /// The peer has the smaller id and asks to be dialed.
    DialBack,
    /// The peer is not in the config any more.
    Removed,
}

/// The pending events of one peer. One task takes them.
#[derive(Debug, Default)]
pub(super) struct IncomingSlot {
    pending: Mutex<PendingIncoming>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct PendingIncoming {
    connection: Option<PeerStream>,
    dial_back: bool,
    removed: bool,
}

impl IncomingSlot {
    pub(super) fn push(&self, event: Incoming) {
        let mut pending = self.pending();
        match event {
            Incoming::Connection(stream) => pending.connection = Some(stream),
            Incoming::DialBack => pending.dial_back = true,
            Incoming::Removed => pending.removed = true,
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// Waits for the next event. `Removed` is final and comes first.
    pub(super) async fn next(&self) -> Incoming {
        loop {
            if let Some(event) = self.try_next() {
                return event;
            }
            self.changed.notified().await;
        }
    }

    fn try_next(&self) -> Option<Incoming> {
        let mut pending = self.pending();
        if pending.removed {
            pending.connection = None;
            return Some(Incoming::Removed);
        }
        if let Some(stream) = pending.connection.take() {
            // A peer that has connected need not be dialed.
            pending.dial_back = false;
            return Some(Incoming::Connection(stream));
        }
        std::mem::take(&mut pending.dial_back).then_some(Incoming::DialBack)
    }

    fn pending(&self) -> MutexGuard<'_, PendingIncoming> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    use super::*;

    /// A bound far above the time of a close.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn the_newest_connection_counts_and_older_ones_close() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let incoming = IncomingSlot::default();
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            incoming.push(Incoming::DialBack);
            let accepted = PeerStream::plain(listener.accept().await.unwrap().0);
            incoming.push(Incoming::Connection(accepted));
        }
        let last = clients.pop().unwrap();
        for mut client in clients {
            let mut byte = [0];
            let read = timeout(PATIENCE, client.read(&mut byte)).await.expect("a replaced connection closes");
            assert_eq!(read.unwrap(), 0);
        }
        let Incoming::Connection(used) = incoming.next().await else { panic!("a connection is there") };
        assert_eq!(used.tcp().peer_addr().unwrap(), last.local_addr().unwrap());
        incoming.push(Incoming::DialBack);
        assert!(matches!(incoming.next().await, Incoming::DialBack));
        incoming.push(Incoming::DialBack);
        incoming.push(Incoming::Removed);
        assert!(matches!(incoming.next().await, Incoming::Removed));
        assert!(matches!(incoming.next().await, Incoming::Removed), "it is final");
    }
}
