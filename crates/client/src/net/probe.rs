//! Probes whether a server accepts writes, by the four-letter word `isro` on a separate stream.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connector::Connector;
use crate::core::ServerAddress;

/// The limit of one probe.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Whether the server accepts writes. No reply means no.
pub(super) async fn takes_writes<C: Connector>(connector: &C, server: &ServerAddress, random: u64) -> bool {
    let ask = async {
        let mut stream = connector.connect(server, random).await.ok()?;
        stream.write_all(b"isro").await.ok()?;
        stream.flush().await.ok()?;
        let mut reply = Vec::new();
        stream.take(16).read_to_end(&mut reply).await.ok()?;
        Some(reply.trim_ascii() == b"rw")
    };
    matches!(tokio::time::timeout(TIMEOUT, ask).await, Ok(Some(true)))
}
