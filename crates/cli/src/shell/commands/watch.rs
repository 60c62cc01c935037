//! `watch`: follows what happens to a node or a subtree until it is stopped.

use std::time::Duration;

use jiff::Timestamp;
use zebu_client::{EventKind, WatchEvent, WatchMode};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream};
use crate::shell::flags::{Given, switch, value};
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "watch",
    syntax: "[-n] [-c count] [-t seconds] path",
    about: "Follows what happens at and below a node, live; Ctrl-C ends it",
    examples: &["watch /apps", "watch -n /config", "watch -c 1 /ready", "watch -t 60 /members"],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[
        switch("n", "Only the node, not what is below it"),
        value("c", "End after so many events"),
        value("t", "End after so many seconds"),
    ],
    parse,
};

struct Watch {
    path: String,
    mode: WatchMode,
    count: Option<u64>,
    limit: Option<Duration>,
    json: bool,
}

fn parse(given: &Given) -> Parsed {
    let number = |name: &str| -> Result<Option<u64>, Failure> {
        let Some(text) = given.value(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Failure::text(format!("-{name} takes a number, not {text:?}")))
    };
    Ok(Box::new(Watch {
        path: given.word(0).ok_or(Failure::Usage)?.to_owned(),
        mode: if given.has("n") { WatchMode::Node } else { WatchMode::Tree },
        count: number("c")?,
        limit: number("t")?.map(Duration::from_secs),
        json: given.has("json"),
    }))
}

impl Command for Watch {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            let mut events = client.watch(&self.path, self.mode).await?;
            session.show_state();
            let json = self.json || session.invocation.form == crate::shell::invocation::Form::Json;
            if !json {
                session.note(format!("watching {}", self.path));
            }
            let mut left = self.count.unwrap_or(u64::MAX);
            let end = async {
                match self.limit {
                    Some(limit) => tokio::time::sleep(limit).await,
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(end);
            while left > 0 {
                let event = tokio::select! {
                    event = events.next() => event,
                    () = &mut end => break,
                };
                let Some(event) = event.filter(|event| event.kind != EventKind::WatchLost) else {
                    return Err(Failure::text("the watch ended with its session"));
                };
                session.screen.line(Stream::Out, &line(&event, json, Timestamp::now()));
                left -= u64::from(event.kind != EventKind::Resynced);
            }
            Ok(Reply::Nothing)
        })
    }
}

fn line(event: &WatchEvent, json: bool, now: Timestamp) -> String {
    let time = now.strftime("%Y-%m-%dT%H:%M:%S%.3fZ");
    let zxid = event.zxid.map(|zxid| format!("{zxid:#x}"));
    if json {
        let kind = format!("{:?}", event.kind);
        return serde_json::json!({ "time": time.to_string(), "event": kind, "path": &*event.path, "zxid": zxid })
            .to_string();
    }
    match event.kind {
        EventKind::Resynced => format!("{time} Resynced: events may be missing, look again"),
        kind => {
            let zxid = zxid.map(|zxid| format!(" {zxid}")).unwrap_or_default();
            let path = crate::shell::text::safe(event.path.as_bytes());
            format!("{time} {kind:?} {path}{zxid}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_event_one_line() {
        let event = WatchEvent { kind: EventKind::NodeCreated, path: "/a".into(), zxid: Some(26) };
        let now = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        assert_eq!(line(&event, false, now), "2023-11-14T22:13:20.123Z NodeCreated /a 0x1a");
        assert!(line(&event, true, now).contains("\"event\":\"NodeCreated\""));
    }
}
