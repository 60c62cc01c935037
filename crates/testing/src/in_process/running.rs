//! The thread that a server runs in. It owns the thread and the word that ends it.

use std::net::SocketAddr;
use std::thread::JoinHandle;

use tokio::sync::oneshot;
use zebu_server::config::ServerConfig;
use zebu_server::{ServeError, ShutdownMode, run_until};

/// A server that serves.
#[derive(Debug)]
pub(super) struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<ShutdownMode>>,
    ended: oneshot::Receiver<Result<(), ServeError>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// Starts a server and waits until it serves.
    pub(super) async fn start(config: ServerConfig) -> Result<Running, ServeError> {
        let (stop, stopped) = oneshot::channel();
        let (ready, serving) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let body = move || {
            let announce = |it: &zebu_server::ServerReady| {
                // The caller may have dropped its future; it then stops the server, too.
                let _ = ready.send(it.address);
            };
            let result = run_until(config, announce, async { stopped.await.unwrap_or(ShutdownMode::Abort) });
            let _ = end.send(result);
        };
        let thread = std::thread::Builder::new()
            .name("zebu-test-server".to_owned())
            .spawn(body)
            .map_err(|error| ServeError::Internal(format!("a thread cannot be started: {error}")))?;
        match serving.await {
            Ok(address) => Ok(Running { address, stop: Some(stop), ended, thread: Some(thread) }),
            Err(_) => Err(reason(ended).await),
        }
    }

    /// Where it listens, behind the wire.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it and waits until everything of it has ended.
    pub(super) async fn end(mut self, how: ShutdownMode) -> Result<(), ServeError> {
        self.tell(how);
        match (&mut self.ended).await {
            Ok(result) => result,
            Err(_) => Err(ServeError::Internal("the server panicked; its message is above".to_owned())),
        }
    }

    fn tell(&mut self, how: ShutdownMode) {
        if let Some(stop) = self.stop.take() {
            // A server that has ended by itself does not listen any more.
            let _ = stop.send(how);
        }
    }
}

/// Why a server ended before it served.
async fn reason(ended: oneshot::Receiver<Result<(), ServeError>>) -> ServeError {
    match ended.await {
        Ok(Err(error)) => error,
        Ok(Ok(())) | Err(_) => ServeError::Internal("the server ended before it served".to_owned()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tell(ShutdownMode::Abort);
        if let Some(thread) = self.thread.take() {
            // Its directory must not be removed under it. A panic was reported by the thread itself.
            let _ = thread.join();
        }
    }
}
