//! Histories that Apache ZooKeeper wrote: its snapshot, its log, and the tree that it restored from them.
//! Every transaction carries the digest that Apache computed.

use std::sync::Arc;

use zebu_proto::jute::decode_text;
use zebu_proto::txn::TxnEntry;
use zebu_proto::{Acl, Buffer, Id, SessionId, StatPersisted, Zxid};
use zebu_tree::{Tree, TreeLoader};

use crate::support::options;

fn bytes(hex: &str) -> Option<Vec<u8>> {
    match hex {
        "-" => None,
        "." => Some(Vec::new()),
        hex => Some(
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect(),
        ),
    }
}

fn string(hex: &str) -> Box<str> {
    decode_text(&bytes(hex).unwrap()).into()
}

fn acl(text: &str) -> Vec<Acl> {
    let entries = text.split(',').filter(|entry| *entry != ".");
    entries
        .map(|entry| {
            let parts: Vec<&str> = entry.split('/').collect();
            let part = |hex| bytes(hex).map(|bytes| Box::from(&*decode_text(&bytes)));
            Acl { perms: parts[0].parse().unwrap(), id: Id { scheme: part(parts[1]), id: part(parts[2]) } }
        })
        .collect()
}

fn stat(fields: &[&str]) -> StatPersisted {
    let long = |at: usize| fields[at].parse::<i64>().unwrap();
    let int = |at: usize| fields[at].parse::<i32>().unwrap();
    StatPersisted {
        czxid: long(0),
        mzxid: long(1),
        ctime: long(2),
        mtime: long(3),
        version: int(4),
        cversion: int(5),
        aversion: int(6),
        ephemeral_owner: long(7),
        pzxid: long(8),
    }
}

/// When the digests of the log are compared: a fuzzy snapshot has to catch up first.
struct Compare {
    from: i64,
}

fn restore(content: &str, compare: &Compare) {
    let mut loader = Some(TreeLoader::new(options()));
    let mut tree: Option<Tree> = None;
    let mut nodes = 0;
    for line in content.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[0] {
            "session" => {
                let (id, timeout) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
                loader.as_mut().unwrap().session(SessionId(id), timeout);
            }
            "acl" => loader.as_mut().unwrap().acl(fields[1].parse().unwrap(), acl(fields[2])),
            "node" => {
                let data: Buffer = bytes(fields[2]).map(Arc::from);
                let acl_id = fields[3].parse().unwrap();
                loader
                    .as_mut()
                    .unwrap()
                    .node(&string(fields[1]), data.as_deref(), acl_id, &stat(&fields[4..]))
                    .unwrap();
            }
            "snapshot" => tree = Some(loader.take().unwrap().finish(Zxid(fields[1].parse().unwrap()))),
            "txn" => replay(tree.as_mut().unwrap(), &bytes(fields[1]).unwrap(), compare),
            "expect-node" => {
                nodes += 1;
                expect_node(tree.as_ref().unwrap(), &fields);
            }
            "expect-session" => {
                let (id, timeout) = (fields[1].parse().unwrap(), fields[2].parse().unwrap());
                assert_eq!(tree.as_ref().unwrap().sessions().get(&SessionId(id)), Some(&timeout));
            }
            "expect" => {
                let tree = tree.as_ref().unwrap();
                assert_eq!(tree.last_zxid(), Zxid(fields[1].parse().unwrap()));
                assert_eq!(tree.digest(), fields[2].parse::<i64>().unwrap());
                let sessions = content.lines().filter(|line| line.starts_with("expect-session ")).count();
                assert_eq!(tree.sessions().len(), sessions);
                // A snapshot of an old release has no configuration node; it is added.
                let config = format!(
                    "expect-node {} ",
                    "/zookeeper/config".bytes().map(|b| format!("{b:02x}")).collect::<String>()
                );
                assert_eq!(tree.node_count(), nodes + usize::from(!content.contains(&config)));
            }
            other => panic!("unknown line {other}"),
        }
    }
    assert!(nodes > 3);
}

fn replay(tree: &mut Tree, payload: &[u8], compare: &Compare) {
    let entry = TxnEntry::decode(payload).unwrap();
    tree.apply(&entry.header, &entry.txn, &mut |_| {});
    if let Some(digest) = entry.digest
        && entry.header.zxid.0 >= compare.from
    {
        assert_eq!(tree.digest(), digest.tree_digest, "after {} {:?}", entry.header.zxid, entry.txn);
    }
}

fn expect_node(tree: &Tree, fields: &[&str]) {
    let path = string(fields[1]);
    let node = tree.node(&path).unwrap_or_else(|| panic!("{path} is missing"));
    match fields[2].strip_prefix('~') {
        Some(length) => assert_eq!(node.data().unwrap().len().to_string(), length, "{path}"),
        None => assert_eq!(node.data(), bytes(fields[2]).as_deref(), "{path}"),
    }
    assert_eq!(**node.acl(), *acl(fields[3]), "{path}");
    assert_eq!(node.persisted(), stat(&fields[4..]), "{path}");
}

macro_rules! histories {
    ($($name:ident: $file:literal from $zxid:literal;)*) => {
        $(#[test] fn $name() {
            restore(include_str!(concat!("../../testdata/", $file, ".txt")), &Compare { from: $zxid });
        })*
    };
}

histories! {
    standalone_from_start: "standalone-from-start" from 0;
    standalone_from_28: "standalone-from-28" from 0;
    standalone_from_4a: "standalone-from-4a" from 0;
    fuzzy: "fuzzy" from 0xbf;
    ensemble_from_start: "ensemble-from-start" from 0;
    ensemble_from_2f: "ensemble-from-2f" from 0;
    old_format: "old-format" from 0;
    close_without_body: "close-without-body" from 0;
    release_3_9_5_from_start: "release-3.9.5-from-start" from 0;
    release_3_9_5_from_34: "release-3.9.5-from-34" from 0;
    small: "small" from 0;
}
