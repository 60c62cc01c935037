//! The registry of all client connections. Each has its own lock and a waker for its task.
//!
//! A client's socket has one writer at a time. The lock of the connection protects `SendMode`, the
//! outbox and the writer. These rules decide which thread may write:
//! - Mode TaskOnly, the first one: only the connection task writes. Other threads append to the
//!   outbox and wake the task.
//! - The task sets Direct before it waits, if it waits only for the next request: no unsent output,
//!   no unparsed bytes, no large-request permit, room for requests. Without room it sets TaskOnly.
//! - Mode Direct: any thread that holds the lock may write the outbox without waiting, in phase
//!   Serving and up to 64 KiB. The rest stays in the outbox, and the thread wakes the task.
//! - The task takes the outbox and sets TaskOnly under one hold of the lock, so later bytes stay
//!   behind the taken ones.
//! - The end of the task takes the writer away, so no thread writes to a closed connection.
//!
//! Direct sends exist because a wakeup of the task costs more processor time than a reply.
//! `reply_sender.rs` does them.

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};

use hashbrown::HashMap;
use zebu_node::{ClientConnection, ConnectionId, ConnectionPhase, ServerStats};

use crate::net::task_waker::TaskWaker;
use crate::net::{ClientPortKind, SharedWriter};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// Most bytes of one direct send.
const DIRECT_SEND_BYTES_MAX: usize = 64 * 1024;

/// A connection with its lock and its waker.
#[derive(Debug)]
pub(crate) struct ConnectionEntry {
    pub(crate) remote_address: SocketAddr,
    /// The port to which it came.
    pub(crate) port: ClientPortKind,
    connection: Mutex<LockedConnection>,
    /// Whether a batch already lists the connection as changed.
    dirty: AtomicBool,
}

/// The threads that may write the socket; see the rules of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendMode {
    /// Only the task. It must be woken by every change.
    TaskOnly,
    /// Any thread that holds the lock. The task has no output and waits only for requests.
    Direct,
}

/// The state of a connection that its lock protects.
#[derive(Debug)]
pub(crate) struct LockedConnection {
    connection: ClientConnection,
    /// `None` after the end of the task.
    writer: Option<SharedWriter>,
    /// Under the lock, so that no thread sends bytes before earlier ones.
    send_mode: SendMode,
    task_waker: TaskWaker,
}

impl Deref for LockedConnection {
    type Target = ClientConnection;
    fn deref(&self) -> &ClientConnection {
        &self.connection
    }
}

impl DerefMut for LockedConnection {
    fn deref_mut(&mut self) -> &mut ClientConnection {
        &mut self.connection
    }
}

impl LockedConnection {
    /// Lets other threads send from now on.
    pub(crate) fn allow_direct_send(&mut self) {
        self.send_mode = SendMode::Direct;
    }

    /// Leaves sending to the task from now on; every change must wake it.
    pub(crate) fn require_task_send(&mut self) {
        self.send_mode = SendMode::TaskOnly;
    }

    /// Ends the connection: no thread sends any more, and no task is woken. The socket closes when
    /// the result is dropped.
    pub(crate) fn release_socket(&mut self) -> Option<SharedWriter> {
        self.require_task_send();
        self.task_waker.clear();
        self.writer.take()
    }

    /// Sends the outbox if mode Direct allows it. Returns whether nothing is left to the task.
    fn try_send_direct(&mut self, stats: &ServerStats) -> bool {
        let (connection, Some(writer), SendMode::Direct) =
            (&mut self.connection, &self.writer, self.send_mode)
        else {
            return false;
        };
        if connection.phase != ConnectionPhase::Serving || connection.outbox_len() > DIRECT_SEND_BYTES_MAX {
            return false;
        }
        if connection.has_notable_requests() || connection.leaves_when_quiet() {
            // The task logs them, or closes the connection.
            return false;
        }
        if connection.outbox_len() > 0 {
            // The task finds the error when it writes.
            let Ok(count) = writer.try_send(connection.outbox()) else { return false };
            stats.add(&connection.mark_sent(count));
        }
        connection.outbox_len() == 0
    }
}

impl ConnectionEntry {
    pub(crate) fn lock(&self) -> MutexGuard<'_, LockedConnection> {
        // A panic under this lock ends the connection. Only reports read it afterwards.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the outbox if mode Direct allows it; otherwise wakes the task.
    pub(crate) fn send_or_wake(&self, stats: &ServerStats) {
        let mut locked = self.lock();
        if !locked.try_send_direct(stats) {
            unlock_and_wake(locked);
        }
    }

    /// Wakes the task to check its connection.
    pub(crate) fn wake_task(&self) {
        unlock_and_wake(self.lock());
    }

    /// Marks the connection as changed and returns whether it was unmarked, so that a batch lists
    /// it once.
    pub(crate) fn mark_dirty(&self) -> bool {
        !self.dirty.swap(true, Ordering::AcqRel)
    }

    /// Removes the mark. Later changes mark the connection again; the owner of the list sends all
    /// earlier ones.
    pub(crate) fn clear_dirty(&self) {
        self.dirty.store(false, Ordering::Release);
    }

    /// Ready if the task was signalled since the last time this was ready.
    pub(crate) fn poll_wakeup(&self, context: &mut Context<'_>) -> Poll<()> {
        self.lock().task_waker.poll(context)
    }
}

fn unlock_and_wake(mut locked: MutexGuard<'_, LockedConnection>) {
    let waker = locked.task_waker.signal();
    // The woken task would wait for the lock.
    drop(locked);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Connections by id.
pub(crate) type ConnectionMap = HashMap<ConnectionId, Arc<ConnectionEntry>, foldhash::fast::FixedState>;

/// All connections by id.
#[derive(Debug, Default)]
pub(crate) struct ConnectionRegistry {
    next_id: AtomicU64,
    map: RwLock<ConnectionMap>,
}

impl ConnectionRegistry {
    /// Adds a connection that `make` builds with its id. `writer` allows direct sends.
    pub(crate) fn add(
        &self,
        peer: SocketAddr,
        port: ClientPortKind,
        writer: Option<SharedWriter>,
        make: impl FnOnce(ConnectionId) -> ClientConnection,
    ) -> Arc<ConnectionEntry> {
        let id = ConnectionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let locked = LockedConnection {
            connection: make(id),
            writer,
            send_mode: SendMode::TaskOnly,
            task_waker: TaskWaker::default(),
        };
        let entry = Arc::new(ConnectionEntry {
            remote_address: peer,
            port,
            connection: Mutex::new(locked),
            dirty: AtomicBool::new(false),
        });
        self.map.write().unwrap_or_else(PoisonError::into_inner).insert(id, entry.clone());
        entry
    }

    /// Removes connections that ended.
    pub(crate) fn remove(&self, gone: &[ConnectionId]) {
        if !gone.is_empty() {
            let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
            for id in gone {
                map.remove(id);
            }
        }
    }

    /// All connections, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<ConnectionEntry>> {
        let mut all: Vec<_> = self.read().iter().map(|(id, entry)| (*id, entry.clone())).collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, entry)| entry).collect()
    }

    /// The connections of one port, oldest first.
    pub(crate) fn all_of(&self, port: ClientPortKind) -> Vec<Arc<ConnectionEntry>> {
        let mut all = self.all();
        all.retain(|entry| entry.port == port);
        all
    }

    /// The connection map, locked for reading: no connection is added or removed meanwhile.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, ConnectionMap> {
        self.map.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ten thousand connections may be idle. Locks of tests are larger.
#[cfg(not(test))]
const _: () = assert!(size_of::<ConnectionEntry>() <= 440);
