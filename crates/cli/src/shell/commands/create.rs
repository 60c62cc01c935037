//! `create`: a node of any kind. Whether a combination of kinds exists is checked here, with zkCli's words.

use std::time::Duration;

use zebu_client::{CreateMode, ErrorCode};

use crate::shell::acl;
use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream, code_text, java_message};
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths::{self, Naming};
use crate::shell::reply::Reply;
use crate::shell::session::Session;

/// The longest TTL that a node can have.
const LONGEST_TTL_MS: i64 = 0xff_ffff_ffff;

pub(crate) const ENTRY: Entry = Entry {
    name: "create",
    syntax: "[-s] [-e] [-c] [-t ttl] path [data] [acl]",
    about: "Creates a node",
    examples: &[
        "create /config v1",
        "create -e /members/a",
        "create -s /queue/item- \"two words\"",
        "create -c /locks",
        "create -t 60000 /cache/x data",
        "create /private secret digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa",
    ],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("s", "The server appends a counter"),
        switch("e", "The node goes with the session"),
        switch("c", "A container: it goes some time after its last child"),
        value("t", "It goes when it was not changed for so many milliseconds"),
    ],
    parse,
};

struct Create {
    path: String,
    data: Option<String>,
    acl: Option<String>,
    mode: CreateMode,
    ttl: Duration,
}

fn parse(given: &Given) -> Parsed {
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let (sequential, ephemeral, container) = (given.has("s"), given.has("e"), given.has("c"));
    if container && (sequential || ephemeral) {
        let text = "-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.";
        return Err(Failure::text(text));
    }
    let ttl_ms = match given.value("t") {
        None => None,
        Some(text) => {
            Some(text.parse::<i64>().map_err(|_| Failure::text("-t argument must be a long value"))?)
        }
    };
    if ttl_ms.is_some() && ephemeral {
        return Err(Failure::text("TTLs cannot be used with Ephemeral znodes"));
    }
    if ttl_ms.is_some() && container {
        return Err(Failure::text("TTLs cannot be used with Container znodes"));
    }
    let mode = match (sequential, ephemeral, ttl_ms) {
        _ if container => CreateMode::Container,
        (false, false, None) => CreateMode::Persistent,
        (true, false, None) => CreateMode::PersistentSequential,
        (false, true, _) => CreateMode::Ephemeral,
        (true, true, _) => CreateMode::EphemeralSequential,
        (false, false, Some(_)) => CreateMode::PersistentWithTtl,
        (true, false, Some(_)) => CreateMode::PersistentSequentialWithTtl,
    };
    let ttl_ms = match ttl_ms {
        Some(number) if !(1..=LONGEST_TTL_MS).contains(&number) => {
            let text = format!("ttl must be positive and cannot be larger than: {LONGEST_TTL_MS}");
            return Err(Failure::text(text));
        }
        other => other.and_then(|number| u64::try_from(number).ok()).unwrap_or(0),
    };
    let (data, acl) = (given.word(1).map(str::to_owned), given.word(2).map(str::to_owned));
    Ok(Box::new(Create { path, data, acl, mode, ttl: Duration::from_millis(ttl_ms) }))
}

impl Command for Create {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let naming = if self.mode.is_sequential() { Naming::Sequential } else { Naming::Exact };
            let acl = self.acl.as_deref().map(acl::parse);
            if let Some(acl) = acl.as_ref().filter(|acl| acl.entries.is_empty()) {
                return Err(acl.error());
            }
            if let Some(acl) = &acl {
                acl.errors.iter().for_each(|line| session.note(line));
            }
            paths::check_new(&self.path, naming)?;
            let mut create = session.client()?.create(&self.path).ttl(self.ttl).mode(self.mode);
            create = match &self.data {
                Some(data) => create.data(data.clone()),
                None => create.null_data(),
            };
            if let Some(acl) = acl {
                create = create.acl(acl.entries);
            }
            match create.await {
                Ok(created) => Ok(Reply::Created { path: created.path, stat: created.stat }),
                Err(error) if error.code() == Some(ErrorCode::InvalidAcl) => Err(invalid_acl(&self.path)),
                Err(error) => Err(Failure::of(&error, Some(&self.path))),
            }
        })
    }
}

/// zkCli says it twice.
fn invalid_acl(path: &str) -> Failure {
    let code = ErrorCode::InvalidAcl;
    let general = (Stream::Error, java_message(code, Some(path)));
    let lines = vec![general, (Stream::Error, code_text(code, Some(path)))];
    Failure::Refused { code: code.name(), path: Some(path.to_owned()), lines }
}
