//! One question to one server: does it take writes? The four-letter word `isro`, on a stream of its own.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::connector::Connector;
use crate::core::ServerAddress;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether the server says that it takes writes. No answer is no.
pub(super) async fn takes_writes<C: Connector>(connector: &C, server: &ServerAddress, random: u64) -> bool {
    let ask = async {
        let mut stream = connector.connect(server, random).await.ok()?;
        stream.write_all(b"isro").await.ok()?;
        stream.flush().await.ok()?;
        let mut answer = Vec::new();
        stream.take(16).read_to_end(&mut answer).await.ok()?;
        Some(answer.trim_ascii() == b"rw")
    };
    matches!(tokio::time::timeout(PATIENCE, ask).await, Ok(Some(true)))
}
