//! `sync`: waits until the server has caught up with the leader.

use std::time::Duration;

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

/// How long the server may take.
const TIME_LIMIT: Duration = Duration::from_secs(30);
/// What zkCli calls a lost connection.
const CONNECTION_LOSS: i32 = -4;

pub(crate) const ENTRY: Entry = Entry {
    name: "sync",
    syntax: "path",
    about: "Waits until the server has caught up with the leader",
    examples: &["sync /"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct Sync {
    path: String,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(Sync { path: given.word(0).ok_or(Failure::Usage)?.to_owned() }))
}

impl Command for Sync {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            match tokio::time::timeout(TIME_LIMIT, client.sync(&self.path)).await {
                Ok(Ok(())) => Ok(Reply::Line("Sync is OK".to_owned())),
                Ok(Err(error)) => {
                    let code = error.code().map_or(CONNECTION_LOSS, |code| code as i32);
                    Err(Failure::on_out(format!("Sync has failed. rc={code}")))
                }
                Err(_) => Err(Failure::text("Sync is timeout within 30000 ms")),
            }
        })
    }
}
