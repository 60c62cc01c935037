//! Binds the ports of the admin server and of the exporter, and runs both on one thread.
//!
//! The thread starts before the recovery, so that probes work from the first moment. The server attaches its
//! views later.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::{any, get};
use tokio::sync::{Semaphore, oneshot};
use tracing::{info, warn};
use zebu_server::ServeError;
use zebu_server::config::ExporterListener;
use zebu_server::config::ServerConfig;
use zebu_server::config::admin::{AdminConfig, AdminProtection, ConsoleSetting, PortOrigin};
use zebu_server::tls::AdminTls;
use zebu_server::views::ServerViews;

use crate::admin_state::{AdminState, AttachedViews};
use crate::commands_route::{plain, serve_command};
use crate::console_backend::ServerBackend;
use crate::exporter_route::{serve_exporter, serve_metrics_on_admin};
use crate::forwarded::TrustedProxies;
use crate::listener::{HttpListener, HttpProtection};
use crate::probes;
use crate::v1::{ApiState, STREAMS_MAX, serve_api};

/// A connection of the exporter's port without a request is closed after this time.
const EXPORTER_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long event streams may take to end when the server stops, and to send their last bytes.
const STREAMS_END_TIMEOUT: Duration = Duration::from_secs(1);
const STREAMS_FLUSH_TIME: Duration = Duration::from_millis(50);

/// Why a configured port was not opened.
#[derive(Debug, thiserror::Error)]
pub enum AdminStartError {
    /// The port cannot be bound.
    #[error("unable to listen on {address} for the {what} ({key}): {source}")]
    Bind {
        /// The admin server or the exporter.
        what: &'static str,
        /// The key of its port.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// The keys of the port cannot be used.
    #[error("{0}")]
    Tls(ServeError),
    /// The thread cannot be started.
    #[error("the thread of the admin server cannot be started: {0}")]
    Thread(io::Error),
}

/// The running admin server and exporter. They end when this is dropped.
#[derive(Debug)]
pub struct AdminServer {
    views: AttachedViews,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A bound port.
struct BoundPort {
    listener: TcpListener,
    address: SocketAddr,
}

/// A bound port with all that its listener needs.
struct ServedPort {
    port: BoundPort,
    router: Router,
    protection: HttpProtection,
    counted_by: Option<AttachedViews>,
    idle_timeout: Duration,
    proxies: TrustedProxies,
}

impl ServedPort {
    /// Starts the tasks of the port on the current runtime.
    fn serve(self) {
        let ServedPort { port, router, protection, counted_by, idle_timeout, proxies } = self;
        if let HttpProtection::Tls(tls) | HttpProtection::PlainOrTls(tls) = &protection {
            tokio::spawn(tls.clone().watch_files());
        }
        match tokio::net::TcpListener::from_std(port.listener) {
            Ok(listener) => {
                let listener =
                    HttpListener { listener, router, protection, counted_by, idle_timeout, proxies };
                tokio::spawn(listener.serve());
            }
            Err(error) => warn!(%error, address = %port.address, "an HTTP port is lost"),
        }
    }
}

impl AdminServer {
    /// Starts what the configuration asks for; `None` if it asks for nothing, or if only default ports are
    /// asked for and they are in use.
    ///
    /// # Errors
    /// A port that the operator configured cannot be opened.
    pub fn start(config: &ServerConfig) -> Result<Option<AdminServer>, AdminStartError> {
        let views = AttachedViews::default();
        let (mut streams, mut roles) = (None, None);
        let mut ports: Vec<ServedPort> = Vec::new();
        if let Some(admin) = &config.admin
            && let Some(port) = bind_admin(admin)?
        {
            let protection = protection(&admin.protection)?;
            info!(address = %port.address, url = admin.command_url, "admin server listens");
            let state = Arc::new(AdminState::new(admin.clone(), views.clone()));
            let api = Arc::new(ApiState::new(state.clone()));
            streams = Some(api.streams.clone());
            roles.clone_from(&state.roles);
            let router = admin_router(state, api).map_err(AdminStartError::Thread)?;
            if admin.console != ConsoleSetting::Off {
                info!(address = %port.address, "console at /console/");
            }
            let (counted_by, idle_timeout) = (Some(views.clone()), admin.idle_timeout);
            let proxies = TrustedProxies::new(&admin.trusted_proxies);
            ports.push(ServedPort { port, router, protection, counted_by, idle_timeout, proxies });
        }
        for exporter in &config.exporter.listeners {
            if let Some(port) = bind_exporter(exporter)? {
                let protection = protection(&exporter.protection)?;
                match protection {
                    HttpProtection::Plain => info!(address = %port.address, "metrics exporter listens"),
                    HttpProtection::PlainOrTls(_) | HttpProtection::Tls(_) => {
                        info!(address = %port.address, "metrics exporter with TLS listens");
                    }
                }
                let (router, idle_timeout) = (exporter_router(views.clone()), EXPORTER_IDLE_TIMEOUT);
                let (counted_by, proxies) = (None, TrustedProxies::none());
                ports.push(ServedPort { port, router, protection, counted_by, idle_timeout, proxies });
            }
        }
        if ports.is_empty() {
            return Ok(None);
        }
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(AdminStartError::Thread)?;
        let followed = views.clone();
        let thread = std::thread::Builder::new().name("zebu-admin".to_owned()).spawn(move || {
            runtime.block_on(async {
                ports.into_iter().for_each(ServedPort::serve);
                if let Some(roles) = roles {
                    tokio::spawn(roles.follow(followed));
                }
                let _ = stopped.await;
                if let Some(streams) = streams {
                    end_streams(&streams).await;
                }
            });
            runtime.shutdown_background();
        });
        let thread = thread.map_err(AdminStartError::Thread)?;
        Ok(Some(AdminServer { views, stop: Some(stop), thread: Some(thread) }))
    }

    /// Attaches the server that the commands are about.
    pub fn attach(&self, views: ServerViews) {
        let cell: &OnceLock<ServerViews> = &self.views;
        // A second server of one process would keep the first views; there is none.
        let _ = cell.set(views);
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported when it happened.
            let _ = thread.join();
        }
    }
}

fn bind_admin(admin: &AdminConfig) -> Result<Option<BoundPort>, AdminStartError> {
    bind("admin server", "admin.serverPort", admin.address, admin.port_origin)
}

fn bind_exporter(exporter: &ExporterListener) -> Result<Option<BoundPort>, AdminStartError> {
    bind("metrics exporter", exporter.key, exporter.address, exporter.port_origin)
}

/// Binds a port. A default port in use is a warning, because several servers may share a machine.
fn bind(
    what: &'static str,
    key: &'static str,
    address: SocketAddr,
    origin: PortOrigin,
) -> Result<Option<BoundPort>, AdminStartError> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(BoundPort { address: listener.local_addr()?, listener })
    });
    match (bound, origin) {
        (Ok(port), _) => Ok(Some(port)),
        (Err(error), PortOrigin::Default) => {
            warn!(%address, %error, "no {what}: its default port cannot be opened; set {key} to another one");
            Ok(None)
        }
        (Err(source), PortOrigin::Configured) => Err(AdminStartError::Bind { what, key, address, source }),
    }
}

fn protection(configured: &AdminProtection) -> Result<HttpProtection, AdminStartError> {
    Ok(match configured {
        AdminProtection::Plain => HttpProtection::Plain,
        AdminProtection::PlainOrTls(family) => {
            HttpProtection::PlainOrTls(AdminTls::open(family).map_err(AdminStartError::Tls)?)
        }
        AdminProtection::Tls(family) => {
            HttpProtection::Tls(AdminTls::open(family).map_err(AdminStartError::Tls)?)
        }
    })
}

/// Lets event streams send their last event. They end with the connections of the server.
async fn end_streams(streams: &Semaphore) {
    if streams.available_permits() < STREAMS_MAX {
        let all = u32::try_from(STREAMS_MAX).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(STREAMS_END_TIMEOUT, streams.acquire_many(all)).await;
        // A permit is free before the last bytes have left.
        tokio::time::sleep(STREAMS_FLUSH_TIME).await;
    }
}

/// # Errors
/// The system gives no random bytes for the console.
fn admin_router(state: Arc<AdminState>, api: Arc<ApiState>) -> io::Result<Router> {
    let url = state.config.command_url.clone();
    let console = match state.config.console {
        ConsoleSetting::Off => Router::new(),
        ConsoleSetting::ReadOnly | ConsoleSetting::ReadWrite => {
            zebu_console::console_router(ServerBackend { api: api.clone(), state: state.clone() })?
        }
    };
    let api = Router::new().route("/v1/{*rest}", any(serve_api)).with_state(api);
    let router = Router::new()
        .route(&url, any(serve_command))
        .route(&format!("{url}/"), any(serve_command))
        .route(&format!("{url}/{{*name}}"), any(serve_command))
        .route("/live", get(probes::live))
        .route("/ready", get(probes::ready))
        .route("/version", get(probes::show_version))
        .route("/metrics", any(serve_metrics_on_admin))
        .fallback(async || plain(StatusCode::NOT_FOUND, "Not Found\n"))
        .with_state(state)
        .merge(api)
        .merge(console);
    Ok(router)
}

fn exporter_router(views: AttachedViews) -> Router {
    Router::new()
        .route("/metrics", any(serve_exporter))
        .fallback(async || plain(StatusCode::NOT_FOUND, "Not Found\n"))
        .with_state(views)
}
