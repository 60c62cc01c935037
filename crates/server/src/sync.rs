//! The locks, atomics, channels and socket halves of the parts that hand work between threads.
//!
//! The shipped build uses those of std and tokio directly. The unit tests of this crate get wrappers
//! instead (`interleaving/`). A wrapper is the same primitive, unless a test explores interleavings:
//! then shuttle's scheduler decides at each operation which thread goes on.
//! So the tests explore the shipped code, and no other crate and no release build sees shuttle. A
//! feature would not do: cargo would unite it over the workspace.

#[cfg(not(test))]
mod shipped {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
    pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    pub(crate) use tokio::net::tcp::{OwnedReadHalf as ReadHalf, OwnedWriteHalf as WriteHalf};
    pub(crate) use tokio::sync::{Notify, Semaphore};

    /// Splits a connection.
    pub(crate) fn split(stream: tokio::net::TcpStream) -> (ReadHalf, WriteHalf) {
        stream.into_split()
    }

    /// Starts a task on the runtime.
    pub(crate) fn spawn_task(
        runtime: &tokio::runtime::Handle,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        runtime.spawn(task);
    }
}

#[cfg(not(test))]
pub(crate) use shipped::*;

#[cfg(test)]
pub(crate) use crate::interleaving::fake_socket::{
    TestReadHalf as ReadHalf, TestWriteHalf as WriteHalf, split,
};
#[cfg(test)]
pub(crate) use crate::interleaving::primitives::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize, TestCondvar as Condvar, TestMutex as Mutex,
    TestMutexGuard as MutexGuard, TestNotify as Notify, TestReadGuard as RwLockReadGuard,
    TestReceiver as Receiver, TestRwLock as RwLock, TestSemaphore as Semaphore, TestSender as Sender,
    TestWriteGuard as RwLockWriteGuard, channel, spawn_task,
};
