//! `addauth`: adds a credential to the session.

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, error_text};
use crate::shell::flags::Given;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "addauth",
    syntax: "scheme auth",
    about: "Adds a credential to the session",
    examples: &["addauth digest ann:secret"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[],
    parse,
};

struct AddAuth {
    scheme: String,
    secret: String,
}

fn parse(given: &Given) -> Parsed {
    let scheme = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let secret = given.word(1).unwrap_or_default().to_owned();
    Ok(Box::new(AddAuth { scheme, secret }))
}

impl Command for AddAuth {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let added = session.client()?.add_auth(&self.scheme, self.secret.clone()).await;
            added.map_err(|error| Failure::text(error_text(&error, None)))?;
            Ok(Reply::Done)
        })
    }
}
