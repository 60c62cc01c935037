//! Locks, atomics and channels that are std's, or shuttle's while a test explores interleavings.
//!
//! In such a test, shuttle's primitive decides which thread goes on. The value is in std's primitive
//! behind it, which then never blocks.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit, TryAcquireError};

thread_local! {
    static EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that explores interleavings, until it is dropped.
pub(super) struct Exploration(());

impl Exploration {
    pub(super) fn begin() -> Exploration {
        assert!(!EXPLORING.replace(true), "one exploration at a time");
        Exploration(())
    }
}

impl Drop for Exploration {
    fn drop(&mut self) {
        EXPLORING.set(false);
    }
}

/// The primitive of shuttle, if this thread explores interleavings.
fn explored<T>(make: impl FnOnce() -> T) -> Option<T> {
    EXPLORING.get().then(make)
}

/// Both runs of a poisoned lock go on with its value.
fn ignore_poison<T>(result: LockResult<T>) -> T {
    result.unwrap_or_else(PoisonError::into_inner)
}

/// `Ok` with the guard that `wrap` builds, or `Err` with it after a panic.
fn wrap_guard<T, G>(result: LockResult<T>, wrap: impl FnOnce(T) -> G) -> LockResult<G> {
    match result {
        Ok(value) => Ok(wrap(value)),
        Err(poisoned) => Err(PoisonError::new(wrap(poisoned.into_inner()))),
    }
}

#[derive(Debug)]
pub(crate) struct TestMutex<T> {
    turn: Option<shuttle::sync::Mutex<()>>,
    value: std::sync::Mutex<T>,
}

/// The value is unlocked first, then the turn ends.
#[derive(Debug)]
pub(crate) struct TestMutexGuard<'a, T> {
    value: std::sync::MutexGuard<'a, T>,
    turn: Option<shuttle::sync::MutexGuard<'a, ()>>,
    mutex: &'a TestMutex<T>,
}

impl<T> TestMutex<T> {
    pub(crate) fn new(value: T) -> TestMutex<T> {
        TestMutex { turn: explored(|| shuttle::sync::Mutex::new(())), value: std::sync::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> LockResult<TestMutexGuard<'_, T>> {
        let turn = self.turn.as_ref().map(|turn| ignore_poison(turn.lock()));
        wrap_guard(self.value.lock(), |value| TestMutexGuard { value, turn, mutex: self })
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<TestMutexGuard<'_, T>> {
        let turn = match self.turn.as_ref().map(shuttle::sync::Mutex::try_lock) {
            None => None,
            Some(Ok(turn)) => Some(turn),
            Some(Err(TryLockError::Poisoned(turn))) => Some(turn.into_inner()),
            Some(Err(TryLockError::WouldBlock)) => return Err(TryLockError::WouldBlock),
        };
        let guard = |value| TestMutexGuard { value, turn, mutex: self };
        match self.value.try_lock() {
            Ok(value) => Ok(guard(value)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(guard(poisoned.into_inner()))))
            }
        }
    }
}

impl<T: Default> Default for TestMutex<T> {
    fn default() -> TestMutex<T> {
        TestMutex::new(T::default())
    }
}

impl<T> Deref for TestMutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TestMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

#[derive(Debug)]
pub(crate) struct TestCondvar {
    explored: Option<shuttle::sync::Condvar>,
    shipped: std::sync::Condvar,
}

impl TestCondvar {
    pub(crate) fn new() -> TestCondvar {
        TestCondvar { explored: explored(shuttle::sync::Condvar::new), shipped: std::sync::Condvar::new() }
    }

    pub(crate) fn notify_one(&self) {
        match &self.explored {
            Some(condvar) => condvar.notify_one(),
            None => self.shipped.notify_one(),
        }
    }

    /// No time passes in an exploration, so that a missing wakeup is found as a deadlock.
    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: TestMutexGuard<'a, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<TestMutexGuard<'a, T>> {
        let Some(condvar) = &self.explored else {
            let mutex = guard.mutex;
            let (value, _) = ignore_poison(self.shipped.wait_timeout_while(guard.value, timeout, condition));
            return Ok(TestMutexGuard { value, turn: None, mutex });
        };
        while !timeout.is_zero() && condition(&mut guard) {
            let TestMutexGuard { value, turn, mutex } = guard;
            drop(value);
            let turn = turn.map(|turn| ignore_poison(condvar.wait(turn)));
            guard = TestMutexGuard { value: ignore_poison(mutex.value.lock()), turn, mutex };
        }
        Ok(guard)
    }
}

#[derive(Debug)]
pub(crate) struct TestRwLock<T> {
    turn: Option<shuttle::sync::RwLock<()>>,
    value: std::sync::RwLock<T>,
}

/// The value is unlocked first, then the turn ends.
#[derive(Debug)]
pub(crate) struct TestReadGuard<'a, T> {
    value: std::sync::RwLockReadGuard<'a, T>,
    _turn: Option<shuttle::sync::RwLockReadGuard<'a, ()>>,
}

/// The value is unlocked first, then the turn ends.
#[derive(Debug)]
pub(crate) struct TestWriteGuard<'a, T> {
    value: std::sync::RwLockWriteGuard<'a, T>,
    _turn: Option<shuttle::sync::RwLockWriteGuard<'a, ()>>,
}

impl<T> TestRwLock<T> {
    pub(crate) fn new(value: T) -> TestRwLock<T> {
        TestRwLock { turn: explored(|| shuttle::sync::RwLock::new(())), value: std::sync::RwLock::new(value) }
    }

    pub(crate) fn read(&self) -> LockResult<TestReadGuard<'_, T>> {
        let turn = self.turn.as_ref().map(|turn| ignore_poison(turn.read()));
        wrap_guard(self.value.read(), |value| TestReadGuard { value, _turn: turn })
    }

    pub(crate) fn write(&self) -> LockResult<TestWriteGuard<'_, T>> {
        let turn = self.turn.as_ref().map(|turn| ignore_poison(turn.write()));
        wrap_guard(self.value.write(), |value| TestWriteGuard { value, _turn: turn })
    }
}

impl<T: Default> Default for TestRwLock<T> {
    fn default() -> TestRwLock<T> {
        TestRwLock::new(T::default())
    }
}

impl<T> Deref for TestReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Deref for TestWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for TestWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// Atomics whose operations are steps of the exploration. Shuttle orders all of them, so it finds no
/// mistake in a memory ordering.
macro_rules! atomics {
    ($($name:ident of $value:ty { $($method:ident($($argument:ident),*) $(-> $result:ty)?;)* })*) => {$(
        #[derive(Debug)]
        pub(crate) struct $name {
            explored: Option<shuttle::sync::atomic::$name>,
            shipped: std::sync::atomic::$name,
        }

        impl $name {
            pub(crate) fn new(value: $value) -> $name {
                $name {
                    explored: explored(|| shuttle::sync::atomic::$name::new(value)),
                    shipped: std::sync::atomic::$name::new(value),
                }
            }

            $(pub(crate) fn $method(
                &self,
                $($argument: $value,)*
                order: std::sync::atomic::Ordering,
            ) $(-> $result)? {
                match &self.explored {
                    Some(atomic) => atomic.$method($($argument,)* order),
                    None => self.shipped.$method($($argument,)* order),
                }
            })*
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new(Default::default())
            }
        }
    )*};
}

atomics! {
    AtomicBool of bool { load() -> bool; store(value); swap(value) -> bool; }
    AtomicI64 of i64 { load() -> i64; store(value); }
    AtomicU64 of u64 { fetch_add(value) -> u64; }
    AtomicUsize of usize {
        load() -> usize; store(value); fetch_add(value) -> usize; fetch_sub(value) -> usize;
    }
}

/// A step of the exploration before an operation on a primitive of tokio, which has none.
#[derive(Debug)]
struct ExploredStep(Option<shuttle::sync::atomic::AtomicBool>);

impl ExploredStep {
    fn new() -> ExploredStep {
        ExploredStep(explored(|| shuttle::sync::atomic::AtomicBool::new(false)))
    }

    fn take(&self) {
        if let Some(step) = &self.0 {
            step.load(std::sync::atomic::Ordering::SeqCst);
        }
    }
}

#[derive(Debug)]
pub(crate) struct TestNotify {
    step: ExploredStep,
    notify: tokio::sync::Notify,
}

impl TestNotify {
    pub(crate) fn new() -> TestNotify {
        TestNotify { step: ExploredStep::new(), notify: tokio::sync::Notify::new() }
    }

    pub(crate) fn notify_one(&self) {
        self.step.take();
        self.notify.notify_one();
    }

    pub(crate) fn notify_waiters(&self) {
        self.step.take();
        self.notify.notify_waiters();
    }

    pub(crate) fn notified(&self) -> tokio::sync::futures::Notified<'_> {
        self.step.take();
        self.notify.notified()
    }
}

impl Default for TestNotify {
    fn default() -> TestNotify {
        TestNotify::new()
    }
}

#[derive(Debug)]
pub(crate) struct TestSemaphore {
    step: ExploredStep,
    semaphore: Semaphore,
}

impl TestSemaphore {
    pub(crate) const MAX_PERMITS: usize = Semaphore::MAX_PERMITS;

    pub(crate) fn new(permits: usize) -> TestSemaphore {
        TestSemaphore { step: ExploredStep::new(), semaphore: Semaphore::new(permits) }
    }

    pub(crate) fn try_acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, TryAcquireError> {
        self.step.take();
        self.semaphore.try_acquire_many(permits)
    }

    pub(crate) async fn acquire_many(&self, permits: u32) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.step.take();
        self.semaphore.acquire_many(permits).await
    }

    pub(crate) fn add_permits(&self, permits: usize) {
        self.step.take();
        self.semaphore.add_permits(permits);
    }

    pub(crate) fn available_permits(&self) -> usize {
        self.step.take();
        self.semaphore.available_permits()
    }
}

#[derive(Debug)]
pub(crate) enum TestSender<T> {
    Explored(shuttle::sync::mpsc::Sender<T>),
    Shipped(std::sync::mpsc::Sender<T>),
}

#[derive(Debug)]
pub(crate) enum TestReceiver<T> {
    Explored(shuttle::sync::mpsc::Receiver<T>),
    Shipped(std::sync::mpsc::Receiver<T>),
}

/// A channel without a limit.
pub(crate) fn channel<T>() -> (TestSender<T>, TestReceiver<T>) {
    match explored(shuttle::sync::mpsc::channel) {
        Some((sender, receiver)) => (TestSender::Explored(sender), TestReceiver::Explored(receiver)),
        None => {
            let (sender, receiver) = std::sync::mpsc::channel();
            (TestSender::Shipped(sender), TestReceiver::Shipped(receiver))
        }
    }
}

impl<T> TestSender<T> {
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        match self {
            TestSender::Explored(sender) => sender.send(value),
            TestSender::Shipped(sender) => sender.send(value),
        }
    }
}

impl<T> TestReceiver<T> {
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        match self {
            TestReceiver::Explored(receiver) => receiver.recv(),
            TestReceiver::Shipped(receiver) => receiver.recv(),
        }
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        match self {
            TestReceiver::Explored(receiver) => receiver.try_recv(),
            TestReceiver::Shipped(receiver) => receiver.try_recv(),
        }
    }

    pub(crate) fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        match self {
            TestReceiver::Explored(receiver) => receiver.recv_timeout(timeout),
            TestReceiver::Shipped(receiver) => receiver.recv_timeout(timeout),
        }
    }
}

/// Starts a task on the runtime; in an exploration, as a task of the exploration.
pub(crate) fn spawn_task(runtime: &tokio::runtime::Handle, task: impl Future<Output = ()> + Send + 'static) {
    if EXPLORING.get() {
        shuttle::future::spawn(task);
    } else {
        runtime.spawn(task);
    }
}
