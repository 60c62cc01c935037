//! A wire that can be cut: forwards connections to a server and loses them on demand. What it does changes
//! only when a test says so.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What happens to bytes and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Everything passes.
    Whole,
    /// What the server answers is thrown away; the connection stays.
    Deaf,
    /// Live connections end, new ones end at once.
    Cut,
}

/// See the module.
pub(crate) struct Proxy {
    address: SocketAddr,
    wire: Arc<watch::Sender<Wire>>,
    /// Counts requests' bytes that reached the server while it was deaf.
    passed: watch::Receiver<usize>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (wire, _) = watch::channel(Wire::Whole);
        let wire = Arc::new(wire);
        let (count, passed) = watch::channel(0);
        let control = wire.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, server, control.subscribe(), count.clone()));
            }
        });
        Proxy { address, wire, passed }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn set(&self, wire: Wire) {
        self.wire.send_replace(wire);
    }

    /// Ends live connections; new ones pass.
    pub(crate) fn snap(&self) {
        self.set(Wire::Cut);
        self.set(Wire::Whole);
    }

    /// Waits until at least this many more bytes have reached the server since `before`.
    pub(crate) async fn passed(&mut self, before: usize) {
        self.passed.wait_for(|count| *count > before).await.expect("the proxy lives");
    }

    pub(crate) fn count(&self) -> usize {
        *self.passed.borrow()
    }
}

async fn forward(
    mut client: TcpStream,
    server: SocketAddr,
    mut wire: watch::Receiver<Wire>,
    count: watch::Sender<usize>,
) {
    // As it was when this connection last looked: an answer that came while it was deaf stays unheard, even
    // if the wire is whole again by now.
    let mut seen = *wire.borrow_and_update();
    if seen == Wire::Cut {
        return;
    }
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    let (mut up, mut down) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            // A snap is seen even if the wire is whole again: any change ends a connection, except deafness.
            changed = wire.changed() => {
                seen = *wire.borrow_and_update();
                if changed.is_err() || seen != Wire::Deaf {
                    return;
                }
            }
            read = client.read(&mut up) => match read {
                Ok(length @ 1..) if server.write_all(&up[..length]).await.is_ok() => {
                    count.send_modify(|count| *count += length);
                }
                _ => return,
            },
            read = server.read(&mut down) => match read {
                Ok(length @ 1..) => {
                    // A change that was not looked at yet may be deafness: look first.
                    let deaf = seen == Wire::Deaf || wire.has_changed().unwrap_or(true);
                    if !deaf && client.write_all(&down[..length]).await.is_err() {
                        return;
                    }
                }
                _ => return,
            },
        }
    }
}
