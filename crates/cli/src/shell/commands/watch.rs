//! `watch`: follows what happens to a node or a subtree until it is stopped.

use std::time::Duration;

use jiff::Timestamp;
use zebu_client::{ChangeKind, EventKind, FeedItem, FeedTransaction, WatchEvent, WatchMode};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream};
use crate::shell::flags::{Given, own_value, switch, value};
use crate::shell::invocation::Form;
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "watch",
    syntax: "[-n] [-c count] [-t seconds] path",
    about: "Follows what happens at and below a node, live; Ctrl-C ends it",
    examples: &[
        "watch /apps",
        "watch -n /config",
        "watch -c 1 /ready",
        "watch -t 60 /members",
        "watch --from 0x500000012 /apps",
    ],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[
        own_value("from", "Begin behind this zxid, without a gap, by a change feed of Zebu"),
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
    /// The zxid behind which a feed begins.
    from: Option<i64>,
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
        from: given.value("from").map(zxid).transpose()?,
        json: given.has("json"),
    }))
}

fn zxid(text: &str) -> Result<i64, Failure> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number
        .ok()
        .filter(|&zxid| zxid >= 0)
        .ok_or_else(|| Failure::text(format!("--from takes a zxid such as 0x500000012, not {text:?}")))
}

impl Command for Watch {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            match self.from {
                Some(from) => self.follow_feed(session, from).await,
                None => self.follow(session).await,
            }
        })
    }
}

impl Watch {
    fn is_json(&self, session: &Session) -> bool {
        self.json || session.invocation.form == Form::Json
    }

    async fn time_limit(&self) {
        match self.limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    }

    async fn follow(&self, session: &mut Session) -> Result<Reply, Failure> {
        let client = session.client()?;
        let mut events = client.watch(&self.path, self.mode).await?;
        session.show_state();
        let json = self.is_json(session);
        if !json {
            session.note(format!("watching {}", self.path));
        }
        let mut left = self.count.unwrap_or(u64::MAX);
        let end = self.time_limit();
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
    }

    /// Shows what was committed behind a zxid, and then what is committed.
    async fn follow_feed(&self, session: &mut Session, from: i64) -> Result<Reply, Failure> {
        let mut feed = session.client()?.feed(&self.path).after(from);
        let json = self.is_json(session);
        let mut left = self.count.unwrap_or(u64::MAX);
        let end = self.time_limit();
        tokio::pin!(end);
        while left > 0 {
            let item = tokio::select! {
                item = feed.next() => item,
                () = &mut end => break,
            };
            match item.transpose()? {
                Some(FeedItem::Change(txn)) => {
                    for (event, time) in
                        self.events_of(&txn).take(usize::try_from(left).unwrap_or(usize::MAX))
                    {
                        session.screen.line(Stream::Out, &line(&event, json, time));
                        left -= 1;
                    }
                }
                Some(FeedItem::Progress(_) | FeedItem::Opened { .. }) => {}
                Some(FeedItem::Purged { oldest }) => {
                    return Err(Failure::text(format!(
                        "the server no longer has what is behind {from:#x}; its log begins at {oldest:#x}"
                    )));
                }
                None => return Err(Failure::text("the feed ended")),
            }
        }
        Ok(Reply::Nothing)
    }

    /// The changes of a transaction as events, with its time.
    fn events_of<'a>(
        &self,
        txn: &'a FeedTransaction,
    ) -> impl Iterator<Item = (WatchEvent, Timestamp)> + use<'a> {
        let time = Timestamp::from_millisecond(txn.time_ms).unwrap_or_default();
        let only = (self.mode == WatchMode::Node).then(|| self.path.clone());
        txn.changes.iter().filter_map(move |change| {
            let kind = match change.kind {
                ChangeKind::Created => EventKind::NodeCreated,
                ChangeKind::Deleted => EventKind::NodeDeleted,
                ChangeKind::DataChanged => EventKind::NodeDataChanged,
                ChangeKind::AclChanged | ChangeKind::SessionOpened | ChangeKind::SessionEnded => return None,
            };
            let is_shown = only.as_ref().is_none_or(|only| *only == change.path);
            let event = WatchEvent { kind, path: change.path.as_str().into(), zxid: Some(txn.zxid) };
            is_shown.then_some((event, time))
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
    fn a_zxid_is_hexadecimal_or_decimal() {
        assert_eq!((zxid("0x1a").ok(), zxid("26").ok()), (Some(26), Some(26)));
        for other in ["", "-1", "0x", "1a"] {
            assert!(zxid(other).is_err(), "{other}");
        }
    }

    #[test]
    fn one_event_one_line() {
        let event = WatchEvent { kind: EventKind::NodeCreated, path: "/a".into(), zxid: Some(26) };
        let now = Timestamp::from_millisecond(1_700_000_000_123).unwrap();
        assert_eq!(line(&event, false, now), "2023-11-14T22:13:20.123Z NodeCreated /a 0x1a");
        assert!(line(&event, true, now).contains("\"event\":\"NodeCreated\""));
    }
}
