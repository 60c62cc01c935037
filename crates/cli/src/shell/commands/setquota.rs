//! `setquota`: limits the number of nodes or bytes below a node. One limit at a time; the others stay.

use zebu_client::{Client, Error, ErrorCode, Parents, path};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, Stream};
use crate::shell::flags::{Given, value};
use crate::shell::paths;
use crate::shell::quota::{LIMITS, Limits, ROOT, USAGE};
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "setquota",
    syntax: "-n|-b|-N|-B val path",
    about: "Limits the number of nodes or the bytes of data below a node",
    examples: &["setquota -n 1000 /apps", "setquota -B 1048576 /apps"],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        value("n", "Number of nodes beyond which servers warn"),
        value("b", "Bytes beyond which servers warn"),
        value("N", "Number of nodes beyond which servers refuse"),
        value("B", "Bytes beyond which servers refuse"),
    ],
    parse,
};

struct SetQuota {
    path: String,
    option: &'static str,
    limit: i64,
}

fn parse(given: &Given) -> Parsed {
    let Some(option) = given.one_of(&["n", "b", "N", "B"])? else {
        return Err(Failure::text(
            "org.apache.commons.cli.MissingOptionException: Missing required option: \
             [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]",
        ));
    };
    let path = given.word(0).ok_or(Failure::Usage)?.to_owned();
    let text = given.value(option).unwrap_or_default();
    let limit: i64 = text
        .parse()
        .map_err(|_| Failure::text(format!("a quota is a number, not {text:?}; nothing was set")))?;
    if matches!(option, "n" | "N") && limit <= 0 {
        return Err(Failure::text("the num quota must be greater than zero"));
    }
    if matches!(option, "b" | "B") && limit < 0 {
        return Err(Failure::text("the bytes quota must be greater than or equal to zero"));
    }
    Ok(Box::new(SetQuota { path, option, limit }))
}

impl Command for SetQuota {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let connection = session.connection()?;
            let (outside, full) = (connection.outside.clone(), connection.full_path(&self.path));
            if full.starts_with(ROOT) {
                return Err(Failure::text(format!("cannot set a quota under the path: {}", self.path)));
            }
            if connection.client.exists(&self.path).await?.is_none() {
                return Err(Failure::text(format!("{} does not exist.", self.path)));
            }
            if full == "/" {
                // The root has no room of its own under the quotas.
                return Err(Failure::text("Path must not end with / character"));
            }
            forbid_others(&outside, &full, &connection.chroot).await?;
            let usage = self.write(&outside, &full).await?;
            usage.iter().for_each(|line| session.screen.line(Stream::Out, line));
            Ok(Reply::Done)
        })
    }
}

impl SetQuota {
    /// Writes the limits and answers the warnings about what is there already.
    async fn write(&self, outside: &Client, full: &str) -> Result<Vec<String>, Error> {
        let home = format!("{ROOT}{full}");
        let node = path::join(&home, LIMITS);
        let mut limits = match outside.get(&node).await {
            Ok(found) => Limits::parse(&found.data),
            Err(error) if error.code() == Some(ErrorCode::NoNode) => Limits::default(),
            Err(error) => return Err(error),
        };
        limits.set(self.option, self.limit);
        match outside.set(&node, limits.limits_text()).await {
            Ok(_) => {}
            Err(error) if error.code() == Some(ErrorCode::NoNode) => {
                let create = outside.create(&node).data(limits.limits_text());
                create.parents(Parents::Persistent).await?;
                // The server replaces it by what it counts.
                outside.create(&path::join(&home, USAGE)).data("count=0,bytes=0").await?;
            }
            Err(error) => return Err(error),
        }
        let usage = Limits::parse(&outside.get(&path::join(&home, USAGE)).await?.data);
        Ok(warnings(&limits, &usage))
    }
}

fn warnings(limits: &Limits, usage: &Limits) -> Vec<String> {
    let less = |limit: i64, used: i64| limit >= 0 && limit < used;
    let mut lines = Vec::new();
    if less(limits.count, usage.count) || less(limits.count_hard, usage.count) {
        let text = "[Warning]: the count quota you create is less than the existing count:";
        lines.push(format!("{text}{}", usage.count));
    }
    if less(limits.bytes, usage.bytes) || less(limits.bytes_hard, usage.bytes) {
        let text = "[Warning]: the bytes quota you create is less than the existing bytes:";
        lines.push(format!("{text}{}", usage.bytes));
    }
    lines
}

/// Quotas do not nest: neither a node above nor one below may have one.
async fn forbid_others(outside: &Client, full: &str, chroot: &str) -> Result<(), Failure> {
    let seen =
        |path: &str| path.strip_prefix(chroot).filter(|rest| !rest.is_empty()).unwrap_or("/").to_owned();
    let mut above = path::parent(full);
    while let Some(node) = above.filter(|node| *node != "/") {
        if outside.exists(&format!("{ROOT}{node}/{LIMITS}")).await?.is_some() {
            let text = format!("{} has a parent {} which has a quota", seen(full), seen(node));
            return Err(Failure::text(text));
        }
        above = path::parent(node);
    }
    let mut waiting = vec![format!("{ROOT}{full}")];
    while let Some(node) = waiting.pop() {
        let names = match outside.children(&node).await {
            Ok(list) => list.names,
            Err(error) if error.code() == Some(ErrorCode::NoNode) => continue,
            Err(error) => return Err(error.into()),
        };
        let owner = &node[ROOT.len()..];
        if owner != full && names.iter().any(|name| name == LIMITS) {
            let text = format!("{} has a child {} which has a quota", seen(full), seen(owner));
            return Err(Failure::text(text));
        }
        waiting.extend(
            names.iter().filter(|name| !name.starts_with("zookeeper_")).map(|n| path::join(&node, n)),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_below_what_is_used_are_warned_about() {
        let usage = Limits { count: 2, bytes: 5, ..Limits::default() };
        let count = Limits { count: 1, ..Limits::default() };
        assert_eq!(
            warnings(&count, &usage),
            ["[Warning]: the count quota you create is less than the existing count:2"]
        );
        assert_eq!(warnings(&Limits { bytes_hard: 5, ..Limits::default() }, &usage), [""; 0]);
        assert_eq!(warnings(&Limits { bytes_hard: 4, ..Limits::default() }, &usage).len(), 1);
    }
}
