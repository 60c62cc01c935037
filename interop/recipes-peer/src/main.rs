//! The recipes behind lines of text: `zebu-recipes-peer HOST:PORT LAYOUT TIMEOUT_MS`. It reads `NUMBER VERB
//! ARGUMENT…` from standard input and answers `NUMBER ok VALUE` or `NUMBER error REASON`, each when it is
//! done: a suite can let it wait for something and go on. The programs for other libraries speak the same.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod contention;
mod handles;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use zebu_client::Client;

use crate::handles::Handles;
use crate::verbs::Peer;

/// Whose names are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Curator,
    Kazoo,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, layout, timeout] = &arguments[..] else { bail!("HOST:PORT LAYOUT TIMEOUT_MS") };
    let layout = match &**layout {
        "curator" => Layout::Curator,
        "kazoo" => Layout::Kazoo,
        other => bail!("{other} is no layout"),
    };
    let timeout = Duration::from_millis(timeout.parse().context("a timeout in milliseconds")?);
    let client = Client::builder(servers)?.session_timeout(timeout).connect().await?;
    let peer = Arc::new(Peer { client, layout, handles: Handles::default() });
    println!("0 ok ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let peer = peer.clone();
        tokio::spawn(async move {
            let mut words = line.split(' ');
            let number = words.next().unwrap_or_default();
            let words: Vec<&str> = words.collect();
            match peer.carry_out(&words).await {
                Ok(value) => println!("{number} ok {value}"),
                Err(error) => println!("{number} error {}", format!("{error:#}").replace('\n', " ")),
            }
        });
    }
    Ok(())
}
