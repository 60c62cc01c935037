//! A port that answers every request of HTTP with the numbers of a running backup, for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use zebu_backup::run::{RunStatus, wall_ms};

use crate::offline::Failure;

/// Connections that are answered at the same time.
const CONNECTIONS_MAX: usize = 16;

/// Bytes of a request.
const REQUEST_MAX: usize = 8 << 10;

/// How long one connection may take.
const CONNECTION_MAX: Duration = Duration::from_secs(5);

/// Opens the port.
pub(super) async fn open(address: &str) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| Failure::Text(format!("cannot open the metrics port {address}: {error}")))
}

/// Answers requests until the task is dropped.
pub(super) async fn serve(listener: TcpListener, status: Arc<RunStatus>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        let accepted: Result<(TcpStream, SocketAddr), _> = listener.accept().await;
        let Ok((stream, _)) = accepted else {
            // The system has no more descriptors; the next attempt may succeed.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let status = status.clone();
        tokio::spawn(async move {
            // A caller that does not read is no error of the backup.
            let _ = tokio::time::timeout(CONNECTION_MAX, answer(stream, &status)).await;
            drop(permit);
        });
    }
}

async fn answer(mut stream: TcpStream, status: &RunStatus) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= REQUEST_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let body = status.view(wall_ms()).prometheus();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}
