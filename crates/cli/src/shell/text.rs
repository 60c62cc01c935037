//! Answers as text, in zkCli's layout where it has one. Pure: bytes in, bytes out. On a terminal nothing
//! that a server sends can act as a control sequence; elsewhere data is written as it is.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use zebu_client::{Acl, Stat};

use super::hexdump;
use super::invocation::Verbosity;
use super::reply::{Branch, Event, Reply, Spelling, Tally};
use crate::console::printable;
use crate::offline::{count, permissions};

/// What the text is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    /// A file or a pipe: the bytes of a node are written as they are.
    Plain,
    /// A terminal: control characters are spelled out, and colours help.
    Terminal,
}

/// The output of a command on stdout and stderr.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) out: Vec<u8>,
    pub(crate) error: Vec<u8>,
}

/// An answer as text.
pub(crate) fn render(reply: &Reply, medium: Medium, verbosity: Verbosity, zone: &TimeZone) -> Written {
    let mut out = String::new();
    let stat_lines =
        |stat: &Option<Stat>| stat.as_ref().map(|stat| stat_block(stat, zone)).unwrap_or_default();
    match reply {
        Reply::Nothing | Reply::Done | Reply::Deleted(_) | Reply::Quit | Reply::Again(_) => {}
        Reply::Created { path, .. } => {
            let line = format!("{}\n", shown(path, medium));
            return match verbosity {
                // zkCli reports it there; scripts may read it there.
                Verbosity::LikeZkCli => Written { out: Vec::new(), error: format!("Created {line}").into() },
                Verbosity::Quiet => Written { out: line.into(), error: Vec::new() },
            };
        }
        Reply::Data { data, stat, with_stat, spelling, .. } => {
            let mut out = data_line(data.as_deref(), *spelling, medium);
            if *with_stat {
                out.extend(stat_block(stat, zone).bytes());
            }
            return Written { out, error: Vec::new() };
        }
        Reply::Line(line) => out = format!("{}\n", shown(line, medium)),
        Reply::Children { names, stat, .. } => {
            out = format!("[{}]\n{}", shown(&names.join(", "), medium), stat_lines(stat));
        }
        Reply::Paths(paths) => paths.iter().for_each(|path| out += &format!("{}\n", shown(path, medium))),
        Reply::Ephemerals(paths) => out = format!("[{}]\n", shown(&paths.join(", "), medium)),
        Reply::Stat { stat, .. } => out = stat_block(stat, zone),
        Reply::Written { stat, with_stat, .. } => out = stat_lines(&with_stat.then_some(*stat)),
        Reply::Acl { entries, stat, .. } => {
            entries.iter().for_each(|entry| out += &shown(&acl_lines(entry), medium));
            out += &stat_lines(stat);
        }
        Reply::Count { number, .. } => out = format!("{number}\n"),
        Reply::Identities(identities) => {
            out = "Auth scheme: User\n".to_owned();
            for id in identities {
                out += &format!("{}: {}\n", shown(&id.scheme, medium), shown(&id.user, medium));
            }
        }
        Reply::Quota { path, limits, usage } => {
            let path = shown(path, medium);
            out = format!("Output quota for {path} {}\n", limits.limits_text());
            out += &format!("Output stat for {path} {}\n", usage.usage_text());
        }
        Reply::Config { heading, text, stat } => {
            out = heading.map(|heading| format!("{heading}\n")).unwrap_or_default();
            out += &format!("{}\n{}", shown(text, medium), stat_lines(stat));
        }
        Reply::ClientConfig { version, addresses } => {
            out = shown(&format!("{version} {}\n", addresses.join(",")), medium);
        }
        Reply::History(entries) => {
            entries.iter().for_each(|(number, line)| out += &format!("{number} - {}\n", shown(line, medium)));
        }
        Reply::Tree(root) => tree_lines(root, "", medium, &mut out),
        Reply::Tally(tally) => {
            return Written { out: Vec::new(), error: tally_line(tally).into_bytes() };
        }
    }
    Written { out: out.into_bytes(), error: Vec::new() }
}

fn data_line(data: Option<&[u8]>, spelling: Spelling, medium: Medium) -> Vec<u8> {
    let bytes = data.unwrap_or(b"null");
    let mut line = match spelling {
        Spelling::Base64 => STANDARD.encode(bytes).into_bytes(),
        Spelling::HexDump => hexdump::table(bytes).into_bytes(),
        Spelling::Plain => match medium {
            Medium::Plain => bytes.to_vec(),
            Medium::Terminal => safe(bytes).into_bytes(),
        },
    };
    line.push(b'\n');
    line
}

/// Data that a terminal may see: text with its line ends and tabs, everything else spelled as `\x1b`.
pub(crate) fn safe(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(&printable(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    text
}

/// Text of a node (a path, a name) on its way to a medium.
fn shown(text: &str, medium: Medium) -> String {
    match medium {
        Medium::Plain => text.to_owned(),
        Medium::Terminal => safe(text.as_bytes()),
    }
}

/// The eleven lines of a stat.
pub(crate) fn stat_block(stat: &Stat, zone: &TimeZone) -> String {
    let hex = |number: i64| format!("{:#x}", number.cast_unsigned());
    format!(
        "cZxid = {}\nctime = {}\nmZxid = {}\nmtime = {}\npZxid = {}\ncversion = {}\ndataVersion = {}\n\
         aclVersion = {}\nephemeralOwner = {}\ndataLength = {}\nnumChildren = {}\n",
        hex(stat.czxid),
        date(stat.ctime, zone),
        hex(stat.mzxid),
        date(stat.mtime, zone),
        hex(stat.pzxid),
        stat.cversion,
        stat.version,
        stat.aversion,
        hex(stat.ephemeral_owner),
        stat.data_length,
        stat.num_children,
    )
}

fn date(milliseconds: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(milliseconds) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%a %b %d %H:%M:%S %Z %Y").to_string(),
        Err(_) => format!("{milliseconds}ms"),
    }
}

fn acl_lines(entry: &Acl) -> String {
    let part = |text: &Option<Box<str>>| text.as_deref().unwrap_or("null").to_owned();
    format!("'{},'{}\n: {}\n", part(&entry.id.scheme), part(&entry.id.id), permissions(entry.perms))
}

fn tree_lines(branch: &Branch, indent: &str, medium: Medium, out: &mut String) {
    let note = branch.note.as_ref().map(|note| format!("  {}", shown(note, medium))).unwrap_or_default();
    let more = if branch.cut { " …" } else { "" };
    let name = shown(&branch.name, medium);
    match medium {
        Medium::Plain => out.push_str(&format!("{name}{note}{more}\n")),
        Medium::Terminal => out.push_str(&format!("\x1b[1m{name}\x1b[0m\x1b[2m{note}\x1b[0m{more}\n")),
    }
    let last = branch.children.len().saturating_sub(1);
    for (index, child) in branch.children.iter().enumerate() {
        let (here, below) = if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        out.push_str(&format!("{indent}{here}"));
        tree_lines(child, &format!("{indent}{below}"), medium, out);
    }
}

fn tally_line(tally: &Tally) -> String {
    let total = tally.created + tally.overwritten;
    let mut line =
        format!("{} {}, {}", count(total, "node", "nodes"), tally.verb, count(tally.bytes, "byte", "bytes"));
    if tally.overwritten > 0 {
        line.push_str(&format!(", {} of them overwritten", tally.overwritten));
    }
    if tally.skipped_ephemerals > 0 {
        let skipped = count(tally.skipped_ephemerals, "ephemeral node", "ephemeral nodes");
        line.push_str(&format!(", {skipped} left out"));
    }
    line.push('\n');
    line
}

/// A watch event, as zkCli prints it between answers.
pub(crate) fn event(event: &Event) -> String {
    let path = event.path.as_deref().unwrap_or("null");
    format!(
        "\nWATCHER::\n\nWatchedEvent state:{} type:{} path:{path} zxid: {}\n",
        event.state, event.kind, event.zxid
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(reply: &Reply, medium: Medium) -> String {
        let written = render(reply, medium, Verbosity::LikeZkCli, &TimeZone::UTC);
        assert_eq!(written.error, b"");
        String::from_utf8_lossy(&written.out).into_owned()
    }

    fn data(data: Option<&[u8]>, spelling: Spelling) -> Reply {
        let data = data.map(<[u8]>::to_vec);
        Reply::Data { path: "/a".to_owned(), data, stat: Stat::default(), with_stat: false, spelling }
    }

    #[test]
    fn the_stat_block() {
        let stat = Stat { czxid: 0x1_0000_0002, ctime: 1_700_000_000_123, aversion: -1, ..Stat::default() };
        let text = stat_block(&stat, &TimeZone::UTC);
        assert!(text.starts_with("cZxid = 0x100000002\nctime = Tue Nov 14 22:13:20 UTC 2023\nmZxid = 0x0\n"));
        assert!(text.ends_with("aclVersion = -1\nephemeralOwner = 0x0\ndataLength = 0\nnumChildren = 0\n"));
        assert_eq!(text.lines().count(), 11);
    }

    #[test]
    fn data_in_its_spellings() {
        assert_eq!(out(&data(Some(b"hi"), Spelling::Plain), Medium::Plain), "hi\n");
        assert_eq!(out(&data(None, Spelling::Plain), Medium::Plain), "null\n");
        assert_eq!(out(&data(None, Spelling::Base64), Medium::Plain), "bnVsbA==\n");
        assert_eq!(out(&data(Some(b""), Spelling::HexDump), Medium::Plain), "\n");
    }

    #[test]
    fn a_terminal_never_sees_control_sequences() {
        let bytes = b"a\x1b[31m\xff\xc3\n\tb\r\x9b";
        let shown = out(&data(Some(bytes), Spelling::Plain), Medium::Terminal);
        assert_eq!(shown, "a\\x1b[31m\\xff\\xc3\n\tb\\x0d\\x9b\n");
        assert_eq!(
            render(&data(Some(bytes), Spelling::Plain), Medium::Plain, Verbosity::Quiet, &TimeZone::UTC).out
                [..13],
            bytes[..]
        );
        let names = Reply::Children { path: "/".into(), names: vec!["\u{1b}x".into()], stat: None };
        assert_eq!(out(&names, Medium::Terminal), "[\\x1bx]\n");
    }

    #[test]
    fn no_answer_brings_a_control_sequence_to_a_terminal() {
        let bad = "\u{1b}]0;x\u{7}\u{9b}";
        let text = || bad.to_owned();
        let limits = super::super::quota::Limits::default();
        let leaf = Branch { name: text(), note: Some(text()), cut: false, children: Vec::new() };
        let acl = vec![Acl::new(1, bad, bad)];
        let identity = zebu_client::Identity { scheme: text(), user: text() };
        for reply in [
            Reply::Line(text()),
            Reply::Children { path: text(), names: vec![text()], stat: None },
            Reply::Paths(vec![text()]),
            Reply::Ephemerals(vec![text()]),
            data(Some(bad.as_bytes()), Spelling::Plain),
            data(Some(bad.as_bytes()), Spelling::HexDump),
            Reply::Created { path: text(), stat: Stat::default() },
            Reply::Acl { path: text(), entries: acl, stat: None },
            Reply::Identities(vec![identity]),
            Reply::Quota { path: text(), limits, usage: limits },
            Reply::Config { heading: None, text: text(), stat: None },
            Reply::ClientConfig { version: text(), addresses: vec![text()] },
            Reply::History(vec![(1, text())]),
            Reply::Tree(leaf),
        ] {
            let written = render(&reply, Medium::Terminal, Verbosity::Quiet, &TimeZone::UTC);
            let shown = String::from_utf8([written.out, written.error].concat()).unwrap();
            // Colours of our own may be there.
            let shown = shown.replace("\u{1b}[1m", "").replace("\u{1b}[2m", "").replace("\u{1b}[0m", "");
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{reply:?}: {shown:?}");
        }
    }

    #[test]
    fn created_is_reported_beside_the_results() {
        let created = Reply::Created { path: "/a".to_owned(), stat: Stat::default() };
        let written = render(&created, Medium::Plain, Verbosity::LikeZkCli, &TimeZone::UTC);
        assert_eq!(written, Written { out: Vec::new(), error: b"Created /a\n".to_vec() });
        let written = render(&created, Medium::Plain, Verbosity::Quiet, &TimeZone::UTC);
        assert_eq!(written, Written { out: b"/a\n".to_vec(), error: Vec::new() });
    }

    #[test]
    fn trees_are_drawn() {
        let leaf = |name: &str| Branch { name: name.into(), note: None, cut: false, children: Vec::new() };
        let b = Branch { children: vec![leaf("c")], note: Some("3 bytes".into()), ..leaf("b") };
        let root = Branch { children: vec![b, Branch { cut: true, ..leaf("d") }], ..leaf("/a") };
        assert_eq!(out(&Reply::Tree(root), Medium::Plain), "/a\n├── b  3 bytes\n│   └── c\n└── d …\n");
    }

    #[test]
    fn events() {
        let shown = event(&Event { state: "SyncConnected", kind: "None", path: None, zxid: -1 });
        assert_eq!(shown, "\nWATCHER::\n\nWatchedEvent state:SyncConnected type:None path:null zxid: -1\n");
    }
}
