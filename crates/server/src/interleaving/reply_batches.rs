//! Batches of the core that change many connections: send tasks write while the batch goes on.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use shuttle::thread;
use tokio::runtime::Handle;
use zebu_node::{ClientConnection, ConnectionPhase, Connections};
use zebu_proto::client::watch::EventType;
use zebu_tree::Credentials;

use super::explore;
use super::fake_socket::{FakeClient, FrameReader, fake_connection};
use crate::net::connections::{ConnectionEntry, ConnectionRegistry};
use crate::net::reply_sender::ReplySender;
use crate::net::{ClientPortKind, ClientSocket};

/// More connections than the core serves itself.
const SOME: usize = 5;

/// Connections after which a batch is flushed early.
const EARLY_FLUSH: usize = 64;

/// A connection whose task only waits, so that any thread may send. The socket is kept open.
fn waiting_connection(registry: &ConnectionRegistry) -> (Arc<ConnectionEntry>, ClientSocket, FakeClient) {
    let (reader, writer, client) = fake_connection(usize::MAX);
    let (socket, writer) = ClientSocket::from_halves((reader, writer));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let make = |id| ClientConnection::new(id, Credentials::of_peer(address.ip()), 0, 0);
    let entry = registry.add(address, ClientPortKind::Client, Some(writer), make);
    entry.lock().phase = ConnectionPhase::Serving;
    entry.lock().allow_direct_send();
    (entry, socket, client)
}

/// Sends these events to `count` connections in one batch. The first client must get all of them in
/// order.
fn events_arrive(count: usize, paths: &'static [&'static str]) {
    let registry = ConnectionRegistry::default();
    let connections: Vec<_> = (0..count).map(|_| waiting_connection(&registry)).collect();
    let client = connections[0].2.clone();
    let reader = thread::spawn(move || {
        let mut frames = FrameReader::default();
        for path in paths {
            assert!(frames.next(&client).unwrap().ends_with(path.as_bytes()));
        }
    });
    let reply_sender = ReplySender::new(Handle::current(), Arc::default());
    let mut batch = reply_sender.begin_batch(&registry);
    for path in paths {
        for (entry, ..) in &connections {
            let id = entry.lock().id;
            batch.with(id, |connection| connection.push_event(1, EventType::NodeDeleted, path));
        }
    }
    batch.flush();
    reader.join().unwrap();
}

/// The next batch may begin while the send tasks of the last one run.
#[test]
fn a_send_task_and_the_next_batch_lose_nothing() {
    explore(150, || {
        let registry = ConnectionRegistry::default();
        let connections: Vec<_> = (0..SOME).map(|_| waiting_connection(&registry)).collect();
        let reader = thread::spawn({
            let client = connections[0].2.clone();
            move || {
                let mut frames = FrameReader::default();
                for path in ["/a", "/b"] {
                    assert!(frames.next(&client).unwrap().ends_with(path.as_bytes()));
                }
            }
        });
        let reply_sender = ReplySender::new(Handle::current(), Arc::default());
        for path in ["/a", "/b"] {
            let mut batch = reply_sender.begin_batch(&registry);
            for (entry, ..) in &connections {
                let id = entry.lock().id;
                batch.with(id, |connection| connection.push_event(1, EventType::NodeDeleted, path));
            }
            batch.flush();
        }
        reader.join().unwrap();
    });
}

/// The first connections of a large batch are sent before it ends; their later events are sent too.
#[test]
fn an_early_flush_loses_no_later_event() {
    explore(20, || events_arrive(EARLY_FLUSH, &["/a", "/b"]));
}
