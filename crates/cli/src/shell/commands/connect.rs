//! `connect`: a new session, on other servers or on the same.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "connect",
    syntax: "host:port",
    about: "Opens a new session; without a name on the same servers",
    examples: &["connect zk2:2181", "connect zk1:2181,zk2:2181/apps", "connect"],
    origin: Origin::ZkCli,
    needs_session: false,
    flags: &[],
    parse,
};

struct Connect {
    servers: Option<String>,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(Connect { servers: given.word(0).map(str::to_owned) }))
}

impl Command for Connect {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let same = session.servers().to_owned();
            let servers = self.servers.as_deref().unwrap_or(&same);
            session.connect(servers).await.map_err(|error| Failure::text(error.to_string()))?;
            Ok(Reply::Done)
        })
    }
}
