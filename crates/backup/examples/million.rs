//! Measures a backup of many nodes: the time of a base, of its proof and of a restore, and the memory.
//!
//! cargo run --release -p zebu-backup --example million -- DIRECTORY NODES
//! cargo run --release -p zebu-backup --example million -- DIRECTORY NODES restore
//!
//! The first call writes a backup, the second one verifies and restores it.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for measurements")]

use std::path::Path;
use std::time::Instant;

use zebu_backup::core::archive::{Archive, Continuity, NewBase, all_segments};
use zebu_backup::core::plan::{Point, plan};
use zebu_backup::core::replay::{Unobserved, rebuild, tree_options};
use zebu_backup::core::segment::{SegmentLimits, Segmenter};
use zebu_backup::core::verify::verify;
use zebu_backup::directory::{DirectoryTarget, DirectoryUse};
use zebu_backup::restore::{Sessions, in_new_epoch, write_directory};
use zebu_backup::spool::spool;
use zebu_proto::txn::{CreateTxn, SetDataTxn, Txn, TxnEntry, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_storage::{Compression, FileDisk};
use zebu_tree::Tree;

/// Transactions behind the base.
const TRANSACTIONS: u32 = 100_000;

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn apply(tree: &mut Tree, zxid: Zxid, txn: Txn) -> Vec<u8> {
    let header = TxnHeader { session: SessionId(1), cxid: 0, zxid, time_ms: 1_700_000_000_000 };
    tree.apply(&header, &txn, &mut |_| ());
    let mut bytes = Vec::new();
    TxnEntry { header, txn, digest: None }.encode(&mut bytes);
    bytes
}

fn path(number: u32) -> Box<str> {
    format!("/service-{:03}/instance-{number:010}", number % 1000).into()
}

fn grown_tree(nodes: u32) -> Tree {
    let mut tree = Tree::new(tree_options(1));
    let create = |path| {
        let (data, acl) = (Some(vec![7; 100].into()), Some(Acl::open().to_vec().into()));
        Txn::Create(CreateTxn { path, data, acl, ephemeral: false, parent_cversion: -1 })
    };
    for number in 0..1000 {
        apply(&mut tree, Zxid::new(1, number + 1), create(format!("/service-{number:03}").into()));
    }
    for number in 0..nodes {
        apply(&mut tree, Zxid::new(1, 1001 + number), create(path(number)));
    }
    tree
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let root = Path::new(words.get(1).expect("a directory"));
    let nodes: u32 = words.get(2).map_or(1_000_000, |word| word.parse().unwrap());
    let place = root.join("place");
    if words.get(3).is_none() {
        let mut tree = grown_tree(nodes);
        println!("tree of {} nodes: peak {} MiB", tree.node_count(), peak_mib());
        let target = DirectoryTarget::open(FileDisk, &place, DirectoryUse::Write, "million").unwrap();
        let mut archive = Archive::open(target, "million").unwrap();
        let began = Instant::now();
        std::fs::create_dir_all(root.join("spool")).unwrap();
        let snapshot = spool(&tree, &root.join("spool"), Compression::Snappy, None).unwrap();
        let spooled = began.elapsed();
        let zxid = tree.last_zxid();
        let (nodes, digest) = (tree.node_count() as u64, tree.digest());
        let (compression, continuity) = (Compression::Snappy, Continuity::NewChain);
        archive
            .add_base(
                NewBase { zxid, time_ms: 0, local_time: false, nodes, digest, compression, continuity },
                1,
                &snapshot,
            )
            .unwrap();
        println!("base: written in {spooled:?}, stored in {:?}, peak {} MiB", began.elapsed(), peak_mib());
        let began = Instant::now();
        let mut segmenter = Segmenter::new(SegmentLimits::default(), zxid, 0);
        for number in 0..TRANSACTIONS {
            let next = Zxid(zxid.0 + 1 + i64::from(number));
            let (path, data) = (path(number), Some(vec![8; 100].into()));
            let bytes = apply(&mut tree, next, Txn::SetData(SetDataTxn { path, data, version: 1 }));
            if let Some(closed) = segmenter.append(next, 0, &bytes, 0) {
                archive.add_segments(&[closed], 1).unwrap();
            }
        }
        archive.add_segments(&[segmenter.close().unwrap()], 1).unwrap();
        println!("log of {TRANSACTIONS} transactions: {:?}", began.elapsed());
        return;
    }
    // In a process of its own, so that the memory is that of a restore.
    let target = DirectoryTarget::open(FileDisk, &place, DirectoryUse::Read, "").unwrap();
    let archive = Archive::open(target, "reader").unwrap();
    let began = Instant::now();
    verify(archive.target(), archive.manifest(), 1, &mut Unobserved, |_| ()).unwrap();
    println!("verify: {:?}, peak {} MiB", began.elapsed(), peak_mib());
    let began = Instant::now();
    let segments = all_segments(archive.target(), archive.manifest()).unwrap();
    let plan = plan(archive.manifest(), &segments, Point::Latest).unwrap();
    let state = rebuild(archive.target(), &plan, 1, &mut Unobserved).unwrap();
    let rebuilt = began.elapsed();
    let state = in_new_epoch(state.tree, 1, Sessions::Drop, 0).unwrap();
    write_directory(&state, &root.join("restored"), None, |_| ()).unwrap();
    println!("restore: rebuilt in {rebuilt:?}, written in {:?}, peak {} MiB", began.elapsed(), peak_mib());
}
