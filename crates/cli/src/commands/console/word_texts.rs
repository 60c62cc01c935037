//! Texts of four-letter words as values: `srvr`, `mntr`, `cons`, `dump`, `wchp`, `wchc` and `hash`. They come
//! from servers of many releases, so what is not understood is left out.

use std::collections::BTreeMap;

/// A connection of `cons`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedConnection {
    pub(super) remote: String,
    pub(super) session: i64,
    /// The other members, such as `recved`.
    pub(super) values: BTreeMap<String, String>,
}

/// `Key: value` lines, as of `srvr`.
pub(super) fn colon_lines(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

/// The lines of `mntr` without their prefix.
pub(super) fn mntr_values(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.strip_prefix("zk_")?.split_once('\t'));
    pairs.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
}

/// `0x…` as a number.
pub(super) fn hexadecimal(text: &str) -> Option<i64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok().map(u64::cast_signed)
}

/// The connections with a session.
pub(super) fn connections(text: &str) -> Vec<ListedConnection> {
    let parse = |line: &str| {
        let (remote, rest) = line.trim().strip_prefix('/')?.rsplit_once('[')?;
        let (_, members) = rest.split_once("](")?;
        let members = members.strip_suffix(')')?.split(',');
        let values: BTreeMap<String, String> = members
            .filter_map(|member| member.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let session = hexadecimal(values.get("sid")?)?;
        Some(ListedConnection { remote: remote.to_owned(), session, values })
    };
    text.lines().filter_map(parse).collect()
}

/// Session ids with the indented lines below each, from the line on that begins with `start`.
pub(super) fn paths_by_session(text: &str, start: &str) -> BTreeMap<i64, Vec<String>> {
    let mut found: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let mut session = None;
    let lines = text.lines().skip_while(|line| !line.starts_with(start));
    for line in lines {
        if let Some(path) = line.strip_prefix('\t').filter(|path| path.starts_with('/')) {
            if let Some(paths) = session.and_then(|session| found.get_mut(&session)) {
                paths.push(path.to_owned());
            }
        } else if let Some(id) = hexadecimal(line.trim_end_matches(':')) {
            session = Some(id);
            found.entry(id).or_default();
        } else if !found.is_empty() {
            break;
        }
    }
    found
}

/// Paths with the sessions below each, as of `wchp`.
pub(super) fn sessions_by_path(text: &str) -> BTreeMap<String, Vec<i64>> {
    let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut path: Option<String> = None;
    for line in text.lines() {
        match line.strip_prefix('\t').and_then(hexadecimal) {
            Some(session) => {
                if let Some(path) = &path {
                    found.entry(path.clone()).or_default().push(session);
                }
            }
            None if line.starts_with('/') => path = Some(line.to_owned()),
            None => {}
        }
    }
    found
}

/// Zxids and digests of `hash`, oldest first.
pub(super) fn digests(text: &str) -> Vec<(i64, i64)> {
    let parse = |line: &str| {
        let (zxid, digest) = line.split_once(": ")?;
        let zxid = u64::from_str_radix(zxid.trim(), 16).ok()?.cast_signed();
        Some((zxid, digest.trim().parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_both_kinds_of_servers() {
        let text = " /127.0.0.1:38412[1](queued=0,recved=7,sent=7,sid=0x1000006b1613,lop=GETD,est=1700000000000,\
                    to=30000,lcxid=0x5,lzxid=0x10,lresp=1,llat=0,minlat=0,avglat=0,maxlat=3)\n \
                    /0:0:0:0:0:0:0:1:4011[0](queued=0,recved=1,sent=0)\n\n";
        let found = connections(text);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].remote.as_str(), found[0].session), ("127.0.0.1:38412", 0x1000_006b_1613));
        assert_eq!(found[0].values["maxlat"], "3");
        assert_eq!(connections("cons is not executed because it is not in the whitelist.\n"), []);
    }

    #[test]
    fn ephemeral_nodes_and_watches() {
        let dump = "SessionTracker dump:\nSession Sets (2)/(1):\n0 expire at x:\n1 expire at y:\n\t0x1\n\
                    ephemeral nodes dump:\nSessions with Ephemerals (2):\n0x1:\n\t/a\n\t/b c\n0xffffffffffffffff:\n\t/d\n\
                    Connections dump:\nConnections Sets (1)/(1):\n0 expire at z:\n";
        let found = paths_by_session(dump, "Sessions with Ephemerals");
        assert_eq!(found[&1], ["/a", "/b c"]);
        assert_eq!(found[&-1], ["/d"]);
        assert_eq!(found.len(), 2);
        let wchp = "/a\n\t0x1\n\t0x2\n/b\n\t0x1\n";
        assert_eq!(
            sessions_by_path(wchp),
            [("/a".to_owned(), vec![1, 2]), ("/b".to_owned(), vec![1])].into()
        );
        assert_eq!(paths_by_session("0x1\n\t/a\n\t/b\n", "")[&1], ["/a", "/b"]);
    }

    #[test]
    fn numbers() {
        let srvr =
            colon_lines("Zookeeper version: 3.9.5-x, built\nLatency min/avg/max: 0/0.5/3\nMode: leader\n");
        assert_eq!((srvr["Mode"].as_str(), srvr["Latency min/avg/max"].as_str()), ("leader", "0/0.5/3"));
        assert_eq!(mntr_values("zk_uptime\t5\nother\t1\n"), [("uptime".to_owned(), "5".to_owned())].into());
        assert_eq!(digests("10: -5\nx\n"), [(16, -5)]);
        assert_eq!(hexadecimal("0xffffffffffffffff"), Some(-1));
    }
}
