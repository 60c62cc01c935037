//! `reconfig`: changes the membership of the ensemble, member by member or as a whole.

use zebu_client::Client;

use super::config::CONFIG_NODE;
use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::{Failure, error_text};
use crate::shell::flags::{Given, switch, value};
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "reconfig",
    syntax: "[-s] [-v version] [[-file path] | [-members serverID=host:port1:port2;port3[,...]*]] | \
             [-add serverId=host:port1:port2;port3[,...]]* [-remove serverId[,...]*]",
    about: "Changes the membership of the ensemble",
    examples: &[
        "reconfig -add server.4=zk4:2888:3888;2181",
        "reconfig -remove 3,4",
        "reconfig -v 100000003 -members server.1=zk1:2888:3888;2181,server.2=zk2:2888:3888;2181",
        "reconfig -file /etc/zookeeper/members.cfg",
    ],
    origin: Origin::ZkCli,
    needs_session: true,
    flags: &[
        switch("s", "Print znode stats additionally"),
        value("v", "Only if the configuration has this version (hexadecimal)"),
        value("file", "A file with all members"),
        value("members", "All members"),
        value("add", "Members that join or change"),
        value("remove", "Numbers of members that leave"),
    ],
    parse,
};

/// What changes.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Members(Vec<String>),
    JoinAndLeave { joining: Vec<String>, leaving: Vec<i64> },
}

struct Reconfig {
    change: Change,
    version: Option<i64>,
    with_stat: bool,
}

fn parse(given: &Given) -> Parsed {
    let version = given.value("v").map(|text| {
        let number = i64::from_str_radix(text, 16);
        number.map_err(|_| {
            Failure::text(format!("a version of the configuration is hexadecimal, not {text:?}"))
        })
    });
    Ok(Box::new(Reconfig {
        change: change(given)?,
        version: version.transpose()?,
        with_stat: given.has("s"),
    }))
}

fn change(given: &Given) -> Result<Change, Failure> {
    let whole = given.has("file") || given.has("members");
    let parts = given.has("add") || given.has("remove");
    match (whole, parts) {
        (false, false) => return Err(Failure::Usage),
        (true, true) => {
            return Err(Failure::text(
                "Can't use -file or -members together with -add or -remove (mixing incremental and \
                 non-incremental modes is not allowed)",
            ));
        }
        _ => {}
    }
    if given.has("file") && given.has("members") {
        return Err(Failure::text(
            "Can't use -file and -members together (conflicting non-incremental modes)",
        ));
    }
    let list = |text: &str| text.to_lowercase().split(',').map(str::to_owned).collect::<Vec<_>>();
    if let Some(path) = given.value("file") {
        return read_members(path).map(Change::Members);
    }
    if let Some(members) = given.value("members") {
        return Ok(Change::Members(list(members)));
    }
    let joining = given.value("add").map(list).unwrap_or_default();
    let mut leaving = Vec::new();
    for text in given.value("remove").map(list).unwrap_or_default() {
        let number = text.trim().parse();
        leaving.push(number.map_err(|_| Failure::text(format!("a server has a number, not {text:?}")))?);
    }
    Ok(Change::JoinAndLeave { joining, leaving })
}

/// What a list of members is made of.
const MEMBER_LINES: [&str; 3] = ["server.", "group", "weight"];

/// The lines of a file that name members, their groups and their weights.
fn read_members(path: &str) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let reason = match error.kind() {
            std::io::ErrorKind::NotFound => "No such file or directory".to_owned(),
            _ => error.to_string(),
        };
        Failure::text(format!("Error processing {path}{path} ({reason})"))
    })?;
    let is_member = |line: &&str| MEMBER_LINES.iter().any(|begin| line.starts_with(begin));
    let lines = text.lines().map(str::trim).filter(is_member);
    let members: Vec<String> =
        lines.map(|line| line.split('=').map(str::trim).collect::<Vec<_>>().join("=")).collect();
    if members.is_empty() { Err(Failure::text(format!("{path} names no server"))) } else { Ok(members) }
}

impl Command for Reconfig {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            let outside = session.connection()?.outside.clone();
            let text = self.apply(&outside).await?;
            let stat = match self.with_stat {
                true => Some(outside.get(CONFIG_NODE).await?.stat),
                false => None,
            };
            Ok(Reply::Config { heading: Some("Committed new configuration:"), text, stat })
        })
    }
}

impl Reconfig {
    async fn apply(&self, outside: &Client) -> Result<String, Failure> {
        let mut call = outside.reconfigure();
        match &self.change {
            Change::Members(members) => {
                for member in members {
                    call = call.member(member);
                }
            }
            Change::JoinAndLeave { joining, leaving } => {
                for member in joining {
                    call = call.join(member);
                }
                for number in leaving {
                    call = call.leave(*number);
                }
            }
        }
        if let Some(version) = self.version {
            call = call.from_version(version);
        }
        let changed = call.await.map_err(|error| Failure::text(error_text(&error, None)))?;
        Ok(changed.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_members_with_their_groups_and_weights() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display().to_string();
        let text = "# all\nserver.1 = a:1:2;3\n group.1=1:2\nweight.1 = 2\nversion=5\ntickTime=2000\n";
        std::fs::write(&path, text).expect("written");
        let read = read_members(&path).map_err(|_| "refused");
        let lines = ["server.1=a:1:2;3", "group.1=1:2", "weight.1=2"].map(str::to_owned);
        assert_eq!(read, Ok(lines.to_vec()));
        std::fs::write(&path, "tickTime=2000\n").expect("written");
        assert!(read_members(&path).is_err());
    }
}
