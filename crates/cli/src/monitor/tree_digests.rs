//! The digests of trees that servers keep for some zxids, and their comparison.

use std::collections::BTreeMap;

use zebu_client::TlsConnector;

use super::{refresh, sample};

/// Digests of one server's tree by zxid.
pub(crate) type TreeDigests = BTreeMap<u64, String>;

/// A transaction after which not all trees were equal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TreeDifference {
    pub(crate) zxid: u64,
    /// Servers with equal trees, by their index; the largest group first.
    pub(crate) groups: Vec<Vec<usize>>,
}

/// The comparison of all servers at all transactions for which two of them have a digest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeComparison {
    /// Transactions at which each server was compared with another one.
    pub(crate) compared: Vec<usize>,
    /// The newest transaction at which all servers were compared.
    pub(crate) newest_of_all: Option<u64>,
    /// Differences in the order of transactions.
    pub(crate) differences: Vec<TreeDifference>,
}

/// Asks all servers for their digests, with the word `hash`. An answer without digests says why.
pub(crate) fn ask_digests(
    addresses: &[String],
    tls: Option<&TlsConnector>,
) -> Vec<Result<TreeDigests, String>> {
    refresh::ask_each(addresses, |address| {
        let answer = sample::ask(address, "hash", tls).map_err(|error| error.to_string())?;
        parse_digests(&answer)
    })
}

/// Reads the answer of `hash`: a line per digest, zxid in hexadecimal and digest.
pub(crate) fn parse_digests(text: &str) -> Result<TreeDigests, String> {
    if text.contains("not in the whitelist") {
        return Err("add hash to 4lw.commands.whitelist".to_owned());
    }
    let line = |line: &str| {
        let (zxid, digest) = line.split_once(": ")?;
        let zxid = u64::from_str_radix(zxid.trim(), 16).ok()?;
        let is_number = digest.trim().parse::<i64>().is_ok();
        is_number.then(|| (zxid, digest.trim().to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Compares the trees of all servers.
pub(crate) fn compare(servers: &[TreeDigests]) -> TreeComparison {
    let mut by_zxid: BTreeMap<u64, BTreeMap<&str, Vec<usize>>> = BTreeMap::new();
    for (server, digests) in servers.iter().enumerate() {
        for (zxid, digest) in digests {
            by_zxid.entry(*zxid).or_default().entry(digest).or_default().push(server);
        }
    }
    let mut comparison = TreeComparison { compared: vec![0; servers.len()], ..TreeComparison::default() };
    for (zxid, trees) in by_zxid {
        let known: usize = trees.values().map(Vec::len).sum();
        if known < 2 {
            continue;
        }
        trees.values().flatten().for_each(|&server| comparison.compared[server] += 1);
        if known == servers.len() {
            comparison.newest_of_all = Some(zxid);
        }
        if trees.len() > 1 {
            let mut groups: Vec<Vec<usize>> = trees.into_values().collect();
            groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), group[0]));
            comparison.differences.push(TreeDifference { zxid, groups });
        }
    }
    comparison
}

impl TreeDifference {
    /// A sentence with the names of the servers.
    pub(crate) fn describe(&self, addresses: &[String]) -> String {
        let name = |group: &Vec<usize>| {
            group.iter().map(|&server| &*addresses[server]).collect::<Vec<_>>().join(", ")
        };
        let groups: Vec<String> = self.groups.iter().map(name).collect();
        format!("different trees after 0x{:x}: {}", self.zxid, groups.join(" | "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trees(texts: &[&str]) -> Vec<TreeDigests> {
        texts.iter().map(|text| parse_digests(text).unwrap()).collect()
    }

    #[test]
    fn trees_are_compared_where_two_servers_know_them() {
        let compared = compare(&trees(&["80: 5\n100: -7\n", "100: -7\n180: 9\n", "180: 9\n"]));
        assert_eq!((compared.compared, compared.newest_of_all), (vec![1, 2, 1], None));
        assert!(compared.differences.is_empty());
        let compared = compare(&trees(&["80: 5\n", "100: 7\n"]));
        assert_eq!(compared, TreeComparison { compared: vec![0, 0], ..TreeComparison::default() });
    }

    #[test]
    fn a_difference_names_the_larger_group_first() {
        let compared = compare(&trees(&["80: 5\n100: 1", "80: 6\n100: 2", "80: 6\n100: 1"]));
        assert_eq!(compared.newest_of_all, Some(0x100));
        let addresses = ["a:1", "b:1", "c:1"].map(str::to_owned);
        let texts: Vec<String> =
            compared.differences.iter().map(|difference| difference.describe(&addresses)).collect();
        assert_eq!(
            texts,
            ["different trees after 0x80: b:1, c:1 | a:1", "different trees after 0x100: a:1, c:1 | b:1"]
        );
    }

    #[test]
    fn a_word_that_is_not_allowed_is_named() {
        let refused = parse_digests("hash is not executed because it is not in the whitelist.\n");
        assert_eq!(refused, Err("add hash to 4lw.commands.whitelist".to_owned()));
        assert_eq!(parse_digests("").unwrap().len(), 0);
    }
}
