//! Runs a server: recovers, starts the threads, serves until a stop request, and shuts down.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};
use zebu_node::{AuditOperation, AuditResult};

use crate::audit;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::context::ServerContext;
use crate::core::inbox::ControlEvent;
use crate::core::node_builder::NodeParts;
use crate::core::server_core::CoreFailure;
use crate::disk::recovery::{self, DirectoryLocks, OpenedDataDir};
use crate::feeds::run_feeds;
use crate::kerberos_check::check_kerberos;
use crate::metrics::MetricsSource;
use crate::net::client_listeners::ClientListeners;
use crate::net::login_reload::follow_login_file;
use crate::net::port_protection::ClientPorts;
use crate::net::reply_sender::ReplySender;
use crate::ports::port_probe;
use crate::serve_error::ServeError;
use crate::supervisor::{Supervisor, probe_core};
use crate::threads::{CoreExit, ServerThreads};
use crate::views::ServerViews;

/// How long a stopping server waits for clients to read their last replies.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of a server that accepts clients.
#[derive(Debug)]
pub struct ServerReady {
    /// The bound client address; the one for TLS if there is no other.
    pub address: SocketAddr,
    /// The bound address for TLS only.
    pub secure_address: Option<SocketAddr>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShutdownMode {
    /// Sends the clients of an ensemble member to the other servers within `zebu.drainTime`, then ends as
    /// [`ShutdownMode::Graceful`].
    Drain,
    /// Finishes and answers pending requests, then closes the files.
    Graceful,
    /// Ends as if killed: connections break, no more replies are sent, and pending disk writes are
    /// discarded.
    Abort,
}

/// Serves until the process receives SIGTERM, which drains, or SIGINT, which does not. The supervisor follows
/// the life of the server. The function `attach` gets the views of the server before clients are accepted.
///
/// # Errors
/// The reason why the server did not start or ended; the caller turns it into an exit code.
pub fn run(
    config: ServerConfig,
    attach: impl FnOnce(ServerViews),
    supervisor: Arc<dyn Supervisor>,
) -> Result<(), ServeError> {
    let stop = shutdown_signal(supervisor.clone());
    let probe = supervisor.probe_interval().map(|interval| (supervisor.clone(), interval));
    serve_until(config, attach, |ready| supervisor.ready(ready), stop, WithinProcess::Alone(probe))
}

/// Serves until `stop` resolves, for a server inside another program such as a test. It blocks its
/// thread. It returns after all parts have ended, so that the next server can open the directory.
///
/// # Errors
/// See [`run`].
pub fn run_until(
    config: ServerConfig,
    ready: impl FnOnce(&ServerReady),
    stop: impl Future<Output = ShutdownMode>,
) -> Result<(), ServeError> {
    serve_until(config, |_| (), ready, stop, WithinProcess::WithOthers)
}

/// Whether the process is there for this server only. A recovery may be aborted at any moment.
enum WithinProcess {
    /// A recovery at a stop ends with the process, which ends now. A supervisor may want signs of the core.
    Alone(Option<(Arc<dyn Supervisor>, Duration)>),
    /// A recovery at a stop is joined: another server of this process may open the directory.
    WithOthers,
}

fn serve_until(
    config: ServerConfig,
    attach: impl FnOnce(ServerViews),
    ready: impl FnOnce(&ServerReady),
    stop: impl Future<Output = ShutdownMode>,
    within: WithinProcess,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let seed = random_seed()?;
    let runtime = network_threads()?;
    let mut stop = pin!(stop);
    let audit = config.security.audit.clone();
    let begun = port_probe::probe_ports(&config).and_then(|()| {
        let opened = recover(&runtime, &config, seed, stop.as_mut(), &within)?;
        opened.map(|opened| start(&runtime, config, clock, seed, opened)).transpose()
    });
    let Some(started) = begun.inspect_err(|_| audit::record_failed_start(&audit))? else {
        runtime.shutdown_background();
        return Ok(());
    };
    let Started { shared, listeners, threads, core_ended, locks } = started;
    record_server(&shared, AuditOperation::ServerStart, AuditResult::Success);
    attach(ServerViews::new(shared.clone(), runtime.handle().clone()));
    ready(&listeners.ready()?);
    if let WithinProcess::Alone(probe) = within {
        runtime.spawn(cut_drain_short(shared.clone()));
        if let Some((supervisor, interval)) = probe {
            runtime.spawn(probe_core(shared.clone(), supervisor, interval));
        }
    }
    let ended = runtime.block_on(serve(shared, listeners, core_ended, stop));
    runtime.shutdown_background();
    let finished = threads.join();
    drop(locks);
    outcome_result(match ended {
        ServeOutcome::Stopped if finished.is_err() => ServeOutcome::Panicked,
        ended => ended,
    })
}

fn record_server(shared: &ServerContext, operation: AuditOperation, result: AuditResult) {
    if let Some(audit) = &shared.audit {
        audit.record_server(operation, result, shared.clock.now());
    }
}

fn network_threads() -> Result<Runtime, ServeError> {
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("zebu-net").build();
    threads.map_err(internal_error("the network threads cannot be started"))
}

/// Recovers the data directory on its own thread. `None` if a stop is requested meanwhile.
fn recover(
    runtime: &Runtime,
    config: &ServerConfig,
    seed: u64,
    stop: Pin<&mut impl Future<Output = ShutdownMode>>,
    within: &WithinProcess,
) -> Result<Option<OpenedDataDir>, ServeError> {
    let (recovered, mut recovery_ended) = oneshot::channel();
    let recovery = {
        let config = config.clone();
        std::thread::Builder::new()
            .name("zebu-recovery".to_owned())
            .spawn(move || {
                // The receiver is gone if a stop was requested.
                let _ = recovered.send(recovery::open_data_dir(&config, seed));
            })
            .map_err(internal_error("the recovery thread cannot be started"))?
    };
    let opened = runtime.block_on(async {
        tokio::select! {
            // The stop signal has priority over the recovery.
            biased;
            _ = stop => None,
            opened = &mut recovery_ended => Some(opened),
        }
    });
    let Some(opened) = opened else {
        info!("stopped while recovering; nothing was changed that the next start does not repeat");
        if matches!(within, WithinProcess::WithOthers) {
            let _ = recovery.join();
        }
        return Ok(None);
    };
    let opened = opened.map_err(|_| {
        ServeError::Internal("the recovery failed unexpectedly. Please report the message above".to_owned())
    })?;
    opened.map(Some)
}

/// A server whose threads run and whose client ports are bound.
struct Started {
    shared: Arc<ServerContext>,
    listeners: ClientListeners,
    threads: ServerThreads,
    core_ended: CoreExit,
    locks: DirectoryLocks,
}

/// Binds the ports, builds the parts and starts the threads.
fn start(
    runtime: &Runtime,
    config: ServerConfig,
    clock: Clock,
    seed: u64,
    opened: OpenedDataDir,
) -> Result<Started, ServeError> {
    let OpenedDataDir { tree, recovered, files, digest_mismatches, load, locks } = opened;
    check_kerberos(&config)?;
    let ports = ClientPorts::open(&config)?;
    let NodeParts { node, replica, member } = NodeParts::build(&config, tree, recovered, &clock, seed);
    let shared = Arc::new(ServerContext::new(config, clock, replica, seed));
    shared.metrics.digest_mismatches.add(digest_mismatches);
    shared.metrics.load_ms.record(load.total.as_millis() as u64);
    shared.metrics.snapshot_load_ms.record(load.total.saturating_sub(load.log).as_millis() as u64);
    shared.metrics.log_load_ms.record(load.log.as_millis() as u64);
    shared.metrics.replayed.record(load.replayed);
    let listeners = ClientListeners::bind(runtime, &shared, ports)?;
    let peers = member.map(|member| runtime.block_on(member.open_peer_ports(&shared))).transpose()?;
    let reply_sender = ReplySender::new(runtime.handle().clone(), shared.stats.clone());
    let (threads, core_ended) = ServerThreads::start(shared.clone(), node, peers, reply_sender, files)
        .map_err(internal_error("a thread cannot be started"))?;
    Ok(Started { shared, listeners, threads, core_ended, locks })
}

/// Converts the outcome to the result of `run`.
fn outcome_result(ended: ServeOutcome) -> Result<(), ServeError> {
    match ended {
        ServeOutcome::Stopped => Ok(()),
        ServeOutcome::CoreFailed(CoreFailure::Disk(failure)) => Err(ServeError::Disk(failure.to_string())),
        ServeOutcome::CoreFailed(CoreFailure::Component(failure)) => Err(ServeError::Internal(failure.to_string())),
        ServeOutcome::CoreFailed(CoreFailure::Commit(failure)) => Err(ServeError::Internal(failure.to_string())),
        ServeOutcome::Panicked => Err(ServeError::Internal(
            "a part of the server failed unexpectedly; nothing that was acknowledged is lost. Please report the \
             message above"
                .to_owned(),
        )),
    }
}

/// How serving ended.
enum ServeOutcome {
    Stopped,
    CoreFailed(CoreFailure),
    /// The core ended without a result: it panicked.
    Panicked,
}

async fn serve(
    shared: Arc<ServerContext>,
    listeners: ClientListeners,
    mut core_ended: CoreExit,
    stop: impl Future<Output = ShutdownMode>,
) -> ServeOutcome {
    let accepting = listeners.spawn(&shared);
    let reloading = tokio::spawn(follow_login_file(shared.clone()));
    let turning = tokio::spawn(MetricsSource::new(shared.clone()).turn_windows());
    let feeding = tokio::spawn(run_feeds(shared.clone()));
    let stop = tokio::select! {
        stop = stop => stop,
        () = shared.drain_requested.notified() => ShutdownMode::Drain,
        result = &mut core_ended => {
            shared.set_operator_snapshots(None);
            return serve_outcome(result);
        }
    };
    shared.stopping.store(true, Ordering::Release);
    shared.set_operator_snapshots(None);
    accepting.iter().for_each(tokio::task::JoinHandle::abort);
    reloading.abort();
    turning.abort();
    feeding.abort();
    if stop == ShutdownMode::Abort {
        shared.aborted.store(true, Ordering::Release);
        shared.inbox.push_control(ControlEvent::Abort);
        return serve_outcome(core_ended.await);
    }
    info!("stopping: finishing what was begun");
    record_server(&shared, AuditOperation::ServerStop, AuditResult::Invoked);
    let how = if stop == ShutdownMode::Drain { ControlEvent::Drain } else { ControlEvent::Stop };
    shared.inbox.push_control(how);
    let result = serve_outcome(core_ended.await);
    drain_connections(&shared).await;
    result
}

/// Drains all connections: waits a short time until they have sent their output.
async fn drain_connections(shared: &ServerContext) {
    let reply_sender = ReplySender::new(tokio::runtime::Handle::current(), shared.stats.clone());
    // Taken before the batch, which holds the map shared: a writer waiting in between would block a
    // second reader.
    let entries = shared.connections.all();
    let mut connections = reply_sender.begin_batch(&shared.connections);
    for entry in entries {
        let connection = entry.lock().id;
        zebu_node::Connections::with(&mut connections, connection, zebu_node::ClientConnection::drain);
    }
    connections.flush();
    let deadline = tokio::time::Instant::now() + DRAIN_TIMEOUT;
    while shared.connection_count.load(Ordering::Acquire) > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn serve_outcome(result: Result<Result<(), CoreFailure>, oneshot::error::RecvError>) -> ServeOutcome {
    match result {
        Ok(Ok(())) => ServeOutcome::Stopped,
        Ok(Err(failure)) => ServeOutcome::CoreFailed(failure),
        Err(_) => ServeOutcome::Panicked,
    }
}

/// SIGINT ends a drain that SIGTERM has begun.
async fn cut_drain_short(shared: Arc<ServerContext>) {
    let Ok(mut interrupt) = signal(SignalKind::interrupt()) else { return };
    while interrupt.recv().await.is_some() {
        if shared.stopping.load(Ordering::Acquire) {
            shared.inbox.push_control(ControlEvent::Stop);
        }
    }
}

/// Waits for SIGTERM or SIGINT. SIGHUP of a terminal counts too; without one it reloads the log filter.
async fn shutdown_signal(supervisor: Arc<dyn Supervisor>) -> ShutdownMode {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        warn!("signals cannot be received; the server stops only when it is killed, which is safe");
        return std::future::pending().await;
    };
    let mode = loop {
        tokio::select! {
            _ = terminate.recv() => break ShutdownMode::Drain,
            _ = interrupt.recv() => break ShutdownMode::Graceful,
            _ = hang_up.recv() => {
                if std::io::stdin().is_terminal() {
                    break ShutdownMode::Graceful;
                }
                supervisor.reload();
            }
        }
    };
    supervisor.stopping();
    mode
}

fn internal_error(what: &'static str) -> impl Fn(std::io::Error) -> ServeError {
    move |error| ServeError::Internal(format!("{what}: {error}"))
}

/// Clients choose node names, so the seed of the hash tables must be secret.
fn random_seed() -> Result<u64, ServeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| ServeError::Internal(format!("the system gives no random numbers: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
