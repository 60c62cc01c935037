//! The life of a server: recover, start the threads, serve until told to stop, finish.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tracing::{info, warn};

use crate::brain::Brain;
use crate::clock::Clock;
use crate::config::ServerConfig;
use crate::core::CoreFailure;
use crate::inbox::Urgent;
use crate::member_disk::MemberDisk;
use crate::net::Listener;
use crate::port_probe;
use crate::post::Post;
use crate::recovery::{self, Opened, OpenedMember};
use crate::serve_error::ServeError;
use crate::shared::Shared;
use crate::threads::{CoreEnded, OpenFiles, Threads};
use crate::vital::Vital;

/// How long a stopping server waits for clients to take their last replies.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// What is known once the server answers.
#[derive(Debug)]
pub struct Ready {
    /// Where clients connect.
    pub address: SocketAddr,
}

/// How a server is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// What was begun is finished and answered; files are closed.
    Finish,
    /// As if the process were killed: connections break, nothing more is answered, and what is not in the log
    /// yet never gets there.
    Abandon,
}

/// Serves with this configuration until the process receives SIGTERM or SIGINT. `ready` is called when
/// clients can connect.
///
/// # Errors
/// Says what stopped the server from starting or made it give up; the caller turns it into an exit code.
pub fn run(config: ServerConfig, ready: impl FnOnce(&Ready)) -> Result<(), ServeError> {
    serve_until(config, ready, asked_to_stop(), StopWhileRecovering::Leave)
}

/// Serves with this configuration until `stop` resolves; for a server inside another program, such as a test.
/// It needs a thread of its own: it returns when everything of the server has ended, so that the next one can
/// have the directory.
///
/// # Errors
/// See [`run`].
pub fn run_until(
    config: ServerConfig,
    ready: impl FnOnce(&Ready),
    stop: impl Future<Output = Stop>,
) -> Result<(), ServeError> {
    serve_until(config, ready, stop, StopWhileRecovering::Wait)
}

/// What becomes of a recovery during which the server is asked to stop. It may be given up at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopWhileRecovering {
    /// It ends with the process, which ends now.
    Leave,
    /// It is waited for: another server of this process may want the directory.
    Wait,
}

fn serve_until(
    config: ServerConfig,
    ready: impl FnOnce(&Ready),
    stop: impl Future<Output = Stop>,
    while_recovering: StopWhileRecovering,
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let seed = random_seed()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("zebu-net")
        .build()
        .map_err(internal("the network threads cannot be started"))?;
    let mut stop = pin!(stop);
    port_probe::probe(&config)?;
    let (recovered, mut recovery_ended) = oneshot::channel();
    let recovery = {
        let config = config.clone();
        std::thread::Builder::new()
            .name("zebu-recovery".to_owned())
            .spawn(move || {
                // The receiver is gone if the server is to stop.
                let _ = recovered.send(recovery::open(&config, seed));
            })
            .map_err(internal("the recovery thread cannot be started"))?
    };
    let opened = runtime.block_on(async {
        tokio::select! {
            // Signals are waited for before the recovery is.
            biased;
            _ = &mut stop => None,
            opened = &mut recovery_ended => Some(opened),
        }
    });
    let Some(opened) = opened else {
        info!("stopped while recovering; nothing was changed that the next start does not repeat");
        if while_recovering == StopWhileRecovering::Wait {
            let _ = recovery.join();
        }
        runtime.shutdown_background();
        return Ok(());
    };
    let opened = opened.map_err(|_| {
        ServeError::Internal("the recovery failed unexpectedly. Please report the message above".to_owned())
    })?;
    let Opened { tree, log, member, snapshots, directories, origin, digest_mismatches, locks } = opened?;
    let member = member.map(|OpenedMember { epochs, recovered }| {
        let (directories, snapshots) = (directories.clone(), snapshots.clone());
        (MemberDisk { directories, epochs, snapshots }, recovered)
    });
    let Brain { node, replica, member } = Brain::new(&config, tree, member, &clock, seed);
    let shared = Arc::new(Shared::new(config, clock, replica, seed));
    shared.metrics.digest_mismatches.add(digest_mismatches);

    let listener = {
        let _context = runtime.enter();
        Listener::bind(shared.clone())?
    };
    let address = listener.local_address().ok_or_else(|| {
        ServeError::Internal("the address of the listener is not known to the system".to_owned())
    })?;

    shared.set_client_port(address.port());

    let (peers, member_disk) = match member {
        None => (None, None),
        Some(member) => {
            let (peers, disk) = runtime.block_on(member.join(&shared))?;
            (Some(peers), Some(disk))
        }
    };
    let files = OpenFiles { log, member: member_disk, snapshots, directories, origin };
    let post = Post::new(runtime.handle().clone(), shared.stats.clone());
    let (threads, core_ended) = Threads::start(shared.clone(), node, peers, post, files)
        .map_err(internal("a thread cannot be started"))?;

    ready(&Ready { address });
    let ended = runtime.block_on(serve(shared, listener, core_ended, stop));
    runtime.shutdown_background();
    let finished = threads.join();
    drop(locks);
    verdict(match ended {
        Ended::Asked if finished.is_err() => Ended::Failed,
        ended => ended,
    })
}

/// Whether everything of the server ended as it was asked to.
fn verdict(ended: Ended) -> Result<(), ServeError> {
    match ended {
        Ended::Asked => Ok(()),
        Ended::CoreFailed(CoreFailure::Disk(failure)) => Err(ServeError::Disk(failure.to_string())),
        Ended::CoreFailed(CoreFailure::Part(failure)) => Err(ServeError::Internal(failure.to_string())),
        Ended::CoreFailed(CoreFailure::Commit(failure)) => Err(ServeError::Internal(failure.to_string())),
        Ended::Failed => Err(ServeError::Internal(
            "a part of the server failed unexpectedly; nothing that was acknowledged is lost. Please report the \
             message above"
                .to_owned(),
        )),
    }
}

/// How serving came to an end.
enum Ended {
    Asked,
    CoreFailed(CoreFailure),
    /// The core is gone without a word: it panicked.
    Failed,
}

async fn serve(
    shared: Arc<Shared>,
    listener: Listener,
    mut core_ended: CoreEnded,
    stop: impl Future<Output = Stop>,
) -> Ended {
    let follow = listener.follow(shared.client_place());
    let accepting = tokio::spawn(Vital::task(shared.clone(), "the listener for clients", follow));
    let stop = tokio::select! {
        stop = stop => stop,
        result = &mut core_ended => return ended(result),
    };
    shared.stopping.store(true, Ordering::Release);
    accepting.abort();
    if stop == Stop::Abandon {
        shared.abandoned.store(true, Ordering::Release);
        shared.inbox.push_urgent(Urgent::Abandon);
        return ended(core_ended.await);
    }
    info!("stopping: finishing what was begun");
    shared.inbox.push_urgent(Urgent::Stop);
    let result = ended(core_ended.await);
    say_goodbye(&shared).await;
    result
}

/// Lets every connection send what it has, for a moment.
async fn say_goodbye(shared: &Shared) {
    let post = Post::new(tokio::runtime::Handle::current(), shared.stats.clone());
    // Before the batch, which holds the registry: a writer that waits in between would block a second reader.
    let cells = shared.lanes.all();
    let mut lanes = post.batch(&shared.lanes);
    for cell in cells {
        let lane = cell.lock().id;
        zebu_node::Lanes::with(&mut lanes, lane, zebu_node::Lane::drain);
    }
    lanes.deliver();
    let deadline = tokio::time::Instant::now() + GOODBYE_MAX;
    while shared.connections.load(Ordering::Acquire) > 0 && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn ended(result: Result<Result<(), CoreFailure>, oneshot::error::RecvError>) -> Ended {
    match result {
        Ok(Ok(())) => Ended::Asked,
        Ok(Err(failure)) => Ended::CoreFailed(failure),
        Err(_) => Ended::Failed,
    }
}

/// SIGTERM or SIGINT, whichever comes first. SIGHUP too if there is a terminal; without one, as in the background, it asks
/// for nothing.
async fn asked_to_stop() -> Stop {
    let (Ok(mut terminate), Ok(mut interrupt), Ok(mut hang_up)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
    else {
        warn!("signals cannot be received; the server stops only when it is killed, which is safe");
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => return Stop::Finish,
            _ = interrupt.recv() => return Stop::Finish,
            _ = hang_up.recv() => {
                if std::io::stdin().is_terminal() {
                    return Stop::Finish;
                }
                info!("SIGHUP was received and is ignored: the configuration is read at the start only");
            }
        }
    }
}

fn internal(what: &'static str) -> impl Fn(std::io::Error) -> ServeError {
    move |error| ServeError::Internal(format!("{what}: {error}"))
}

/// Clients choose names, so they must not know the seed of the hash tables.
fn random_seed() -> Result<u64, ServeError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|error| ServeError::Internal(format!("the system gives no random numbers: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}
