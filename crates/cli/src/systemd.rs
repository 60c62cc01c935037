//! Tells systemd how the server is: READY, RELOADING, STOPPING, STATUS and WATCHDOG, on the socket that
//! `NOTIFY_SOCKET` names. Without that variable it sends nothing.

use std::net::IpAddr;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sd_notify::NotifyState;
use zebu_server::config::Environment;
use zebu_server::{ServerReady, Supervisor};

use crate::console::print_error;
use crate::logging::LogControl;

/// How often the core is asked without a watchdog.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// A recovery that goes on asks for this much more time.
const EXTENSION: Duration = Duration::from_secs(60);
const EXTENSION_INTERVAL: Duration = Duration::from_secs(10);

/// The service manager of the process, if there is one, and the log.
pub(crate) struct SystemdNotifier {
    log: LogControl,
    has_socket: bool,
    watchdog: Option<Duration>,
    last_status: Mutex<String>,
    /// Dropped when the server is ready; `None` without a service manager.
    recovering: Mutex<Option<Sender<()>>>,
}

impl SystemdNotifier {
    /// Begins to report: the server recovers.
    pub(crate) fn start(log: LogControl, environment: &Environment) -> SystemdNotifier {
        let has_socket = environment.get("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        let watchdog = if has_socket { sd_notify::watchdog_enabled() } else { None };
        let recovering = Mutex::new(has_socket.then(extend_start));
        SystemdNotifier { log, has_socket, watchdog, last_status: Mutex::default(), recovering }
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.has_socket
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::debug!(%error, "the service manager cannot be told");
        }
    }

    fn end_recovery(&self) {
        *self.recovering.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Asks for more time until the sender is dropped: the replay of a large log is no failure.
fn extend_start() -> Sender<()> {
    let (sender, ended) = channel::<()>();
    let ask = move || {
        let micros = u32::try_from(EXTENSION.as_micros()).unwrap_or(u32::MAX);
        let states =
            [NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status("reading the data directory")];
        loop {
            let _ = sd_notify::notify(&states);
            if ended.recv_timeout(EXTENSION_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    };
    // Without the thread the time limit of the unit counts.
    let _ = std::thread::Builder::new().name("zebu-notify".to_owned()).spawn(ask);
    sender
}

impl Supervisor for SystemdNotifier {
    fn ready(&self, ready: &ServerReady) {
        self.end_recovery();
        announce(ready);
        self.send(&[NotifyState::Ready]);
    }

    fn probe_interval(&self) -> Option<Duration> {
        let watchdog = self.watchdog.map(|limit| limit / 2);
        self.has_socket.then(|| watchdog.unwrap_or(STATUS_INTERVAL).min(STATUS_INTERVAL))
    }

    fn core_answered(&self, status: &str) {
        let mut last = self.last_status.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != status {
            status.clone_into(&mut last);
            self.send(&[NotifyState::Status(status)]);
        }
        if self.watchdog.is_some() {
            self.send(&[NotifyState::Watchdog]);
        }
    }

    fn reload(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(_) => self.send(&[NotifyState::Reloading]),
        }
        self.log.reload();
        self.send(&[NotifyState::Ready]);
    }

    fn stopping(&self) {
        self.end_recovery();
        self.send(&[NotifyState::Stopping, NotifyState::Status("stopping: finishing what was begun")]);
    }
}

/// One line that says where the server listens and how to connect.
fn announce(ready: &ServerReady) {
    let port = ready.address.port();
    let host = match ready.address.ip() {
        ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    print_error(format!("Zebu listens on {}; connect with: zkCli.sh -server {host}:{port}", ready.address));
}
