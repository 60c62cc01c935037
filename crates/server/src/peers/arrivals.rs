//! What another server has done on the election port of this one, until it is attended to. Holds at most one of each: a
//! newer connection replaces an older one, which closes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::net::TcpStream;
use tokio::sync::Notify;

/// Something that came from a server.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A connection that is to be used.
    Connection(TcpStream),
    /// The server wants to be dialled: its id is the smaller one.
    CallBack,
    /// The server is no member any more.
    Dismissal,
}

/// The arrivals of one server. One task takes them.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Pending {
    connection: Option<TcpStream>,
    call_back: bool,
    dismissed: bool,
}

impl Arrivals {
    pub(super) fn push(&self, arrival: Arrival) {
        let mut pending = self.pending();
        match arrival {
            Arrival::Connection(stream) => pending.connection = Some(stream),
            Arrival::CallBack => pending.call_back = true,
            Arrival::Dismissal => pending.dismissed = true,
        }
        drop(pending);
        self.changed.notify_one();
    }

    /// The next arrival. A dismissal is final and comes first.
    pub(super) async fn next(&self) -> Arrival {
        loop {
            if let Some(arrival) = self.take() {
                return arrival;
            }
            self.changed.notified().await;
        }
    }

    fn take(&self) -> Option<Arrival> {
        let mut pending = self.pending();
        if pending.dismissed {
            pending.connection = None;
            return Some(Arrival::Dismissal);
        }
        if let Some(stream) = pending.connection.take() {
            // A server that has connected need not be dialled.
            pending.call_back = false;
            return Some(Arrival::Connection(stream));
        }
        std::mem::take(&mut pending.call_back).then_some(Arrival::CallBack)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_newest_connection_counts_and_older_ones_close() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let arrivals = Arrivals::default();
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
            arrivals.push(Arrival::CallBack);
            arrivals.push(Arrival::Connection(listener.accept().await.unwrap().0));
        }
        let last = clients.pop().unwrap();
        for mut client in clients {
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0, "it was replaced");
        }
        let Arrival::Connection(used) = arrivals.next().await else { panic!("a connection is there") };
        assert_eq!(used.peer_addr().unwrap(), last.local_addr().unwrap());
        arrivals.push(Arrival::CallBack);
        assert!(matches!(arrivals.next().await, Arrival::CallBack));
        arrivals.push(Arrival::CallBack);
        arrivals.push(Arrival::Dismissal);
        assert!(matches!(arrivals.next().await, Arrival::Dismissal));
        assert!(matches!(arrivals.next().await, Arrival::Dismissal), "it is final");
    }
}
