//! What a leaf costs: resident memory beyond its name and data, and the time of a lookup, a prepare and an
//! apply in a large tree. It says which single creates were slowest while the tree grew, because a tree that
//! stops to copy itself stops every client.
//!
//! `cargo run --release -p zebu-tree --example footprint [leaves] [data bytes] [persistent|ephemeral]`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use zebu_proto::client::{CreateOp, CreateRequest, SetDataRequest, WriteRequest};
use zebu_proto::txn::{CreateTxn, SetDataTxn, Txn, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_tree::{Credentials, Overlay, Policy, PrepareContext, Reconfig, Tree, TreeOptions};

/// Leaves are spread over this many parents.
const PARENTS: usize = 1000;
/// How often each operation is timed.
const ROUNDS: usize = 1_000_000;
/// How many of the slowest creates are told.
const SLOWEST: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default| arguments.get(at).map_or(default, |text: &String| text.parse().unwrap());
    let (leaves, data_length) = (number(0, 1_000_000), number(1, 100));
    let is_ephemeral = arguments.get(2).is_some_and(|kind| kind == "ephemeral");

    let mut bench = Bench::new(data_length, is_ephemeral);
    let before = resident_bytes();
    bench.grow(leaves);
    let each = (resident_bytes() - before) as f64 / leaves as f64;
    let name_length = leaf_path(0).rsplit_once('/').unwrap().1.len();
    let beyond = each - (data_length + name_length) as f64;
    println!("{leaves} leaves, names of {name_length} bytes, data of {data_length} bytes");
    println!("memory per leaf     {each:8.1} bytes, {beyond:.1} beyond name and data");
    println!("apply create        {:8.0} ns", bench.spent.as_nanos() as f64 / leaves as f64);

    bench.grow(leaves);
    println!("{} leaves", bench.leaves);
    for (spent, at) in bench.slowest.iter().rev() {
        println!("slowest create      {:8.0} ns, leaf {at}", spent.as_nanos());
    }
    let paths = random_paths(bench.leaves);
    time("lookup data", &paths, |path| bench.tree.node(path).unwrap().data().unwrap().len());
    time("lookup stat", &paths, |path| bench.tree.node(path).unwrap().stat().data_length as usize);
    bench.time_prepare(&paths);
    bench.time_apply(&paths);
}

struct Bench {
    tree: Tree,
    zxid: i64,
    leaves: usize,
    data: Vec<u8>,
    is_ephemeral: bool,
    /// Time of all creates.
    spent: Duration,
    slowest: BTreeSet<(Duration, usize)>,
}

impl Bench {
    fn new(data_length: usize, is_ephemeral: bool) -> Bench {
        let tree = Tree::new(TreeOptions { hash_seed: 11, ..TreeOptions::default() });
        let (spent, slowest) = (Duration::ZERO, BTreeSet::new());
        let data = vec![b'x'; data_length];
        let mut bench = Bench { tree, zxid: 0, leaves: 0, data, is_ephemeral, spent, slowest };
        for parent in 0..PARENTS {
            let txn = bench.create(parent_path(parent), false);
            let header = bench.next_header();
            bench.tree.apply(&header, &txn, &mut |_| {});
        }
        bench
    }

    fn next_header(&mut self) -> TxnHeader {
        self.zxid += 1;
        // A thousand sessions take turns.
        let session = SessionId(1 + self.zxid % 1000);
        TxnHeader { session, cxid: 1, zxid: Zxid(self.zxid), time_ms: 1_700_000_000_000 + self.zxid }
    }

    fn create(&self, path: String, ephemeral: bool) -> Txn {
        let (data, acl) = (Some(self.data.as_slice().into()), Some(Acl::open()));
        Txn::Create(CreateTxn { path: path.into(), data, acl, ephemeral, parent_cversion: -1 })
    }

    fn grow(&mut self, leaves: usize) {
        for _ in 0..leaves {
            let txn = self.create(leaf_path(self.leaves), self.is_ephemeral);
            let header = self.next_header();
            let start = Instant::now();
            black_box(self.tree.apply(&header, &txn, &mut |_| {}));
            let spent = start.elapsed();
            self.spent += spent;
            self.slowest.insert((spent, self.leaves));
            if self.slowest.len() > SLOWEST {
                self.slowest.pop_first();
            }
            self.leaves += 1;
        }
    }

    fn time_prepare(&mut self, paths: &[String]) {
        let mut overlay = Overlay::new(11);
        let (credentials, policy) = (Credentials::of_peer([127, 0, 0, 1].into()), Policy::default());
        let header = self.next_header();
        let context = PrepareContext {
            header,
            credentials: &credentials,
            session: Ok(()),
            ephemeral_session: Ok(()),
            policy: &policy,
            reconfig: Reconfig::Disabled,
        };
        let data: zebu_proto::Buffer = Some(self.data.as_slice().into());
        time("prepare set", paths, |path| {
            let request = SetDataRequest { path: Some(path.into()), data: data.clone(), version: -1 };
            black_box(self.tree.prepare(&mut overlay, WriteRequest::SetData(request), &context));
            overlay.applied(header.zxid);
            1
        });
        let new: Vec<String> = paths.iter().map(|path| format!("{path}-new")).collect();
        time("prepare create", &new, |path| {
            let request = CreateRequest {
                op: CreateOp::Create,
                path: Some(path.into()),
                data: data.clone(),
                acl: Some(Acl::open()),
                flags: 0,
                ttl_ms: -1,
            };
            black_box(self.tree.prepare(&mut overlay, WriteRequest::Create(request), &context));
            overlay.applied(header.zxid);
            1
        });
    }

    fn time_apply(&mut self, paths: &[String]) {
        let data: zebu_proto::Buffer = Some(self.data.as_slice().into());
        time("apply set", paths, |path| {
            let header = self.next_header();
            let txn = Txn::SetData(SetDataTxn { path: path.into(), data: data.clone(), version: 1 });
            black_box(self.tree.apply(&header, &txn, &mut |_| {}));
            1
        });
    }
}

fn parent_path(parent: usize) -> String {
    format!("/parent-{parent:04}")
}

fn leaf_path(leaf: usize) -> String {
    format!("{}/leaf-{leaf:010}", parent_path(leaf % PARENTS))
}

/// Paths of leaves in an order that no cache foresees.
fn random_paths(leaves: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % leaves
    };
    (0..ROUNDS).map(|_| leaf_path(next())).collect()
}

fn time(what: &str, paths: &[String], mut operation: impl FnMut(&str) -> usize) {
    let start = Instant::now();
    let sum: usize = paths.iter().map(|path| operation(path)).sum();
    black_box(sum);
    println!("{what:<20}{:8.0} ns", start.elapsed().as_nanos() as f64 / paths.len() as f64);
}

/// Pages of this process that are in memory.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
