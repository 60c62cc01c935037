//! What a leaf costs: resident memory beyond its name and data, and the time of a lookup, a prepare and an
//! apply in a large tree. It says which single creates were slowest while the tree grew, because a tree that
//! stops to copy itself stops every client. Times are those of the processor, and the quickest of several
//! rounds where there are rounds: other programs disturb little.
//!
//! `cargo run --release -p zebu-tree --example footprint [leaves] [data bytes] [operations] [ephemeral]`

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zebu_proto::client::{CreateOp, CreateRequest, SetDataRequest, WriteRequest};
use zebu_proto::txn::{CreateTxn, SetDataTxn, Txn, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_tree::{Credentials, Overlay, Policy, PrepareContext, Reconfig, Tree, TreeOptions};

/// Leaves are spread over this many parents.
const PARENTS: usize = 1000;
/// Each operation is timed in so many parts.
const ROUNDS: usize = 10;
/// How many of the slowest creates are told.
const SLOWEST: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default| arguments.get(at).map_or(default, |text: &String| text.parse().unwrap());
    let (leaves, data_length, operations) = (number(0, 1_000_000), number(1, 100), number(2, 1_000_000));
    let is_ephemeral = arguments.get(3).is_some_and(|kind| kind == "ephemeral");

    let mut bench = Bench::new(data_length, is_ephemeral);
    let before = resident_bytes();
    let spent = bench.grow(leaves);
    let each = (resident_bytes() - before) as f64 / leaves as f64;
    let name_length = leaf_path(0).rsplit_once('/').unwrap().1.len();
    let beyond = each - (data_length + name_length) as f64;
    println!("{leaves} leaves, names of {name_length} bytes, data of {data_length} bytes");
    println!("memory per leaf     {each:8.1} bytes, {beyond:.1} beyond name and data");
    println!("apply create        {:8.0} ns", spent.as_nanos() as f64 / leaves as f64);

    let slowest = bench.grow_watched(leaves);
    println!("{} leaves", bench.leaves);
    for (spent, at) in slowest.iter().rev() {
        println!("slowest create      {:8.0} ns, leaf {at}", spent.as_nanos());
    }
    let paths = random_paths(bench.leaves, operations);
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
}

impl Bench {
    fn new(data_length: usize, is_ephemeral: bool) -> Bench {
        let tree = Tree::new(TreeOptions { hash_seed: 11, ..TreeOptions::default() });
        let data = vec![b'x'; data_length];
        let mut bench = Bench { tree, zxid: 0, leaves: 0, data, is_ephemeral };
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
        let (data, acl) = (Some(self.data.as_slice().into()), Some(Acl::open().into()));
        Txn::Create(CreateTxn { path: path.into(), data, acl, ephemeral, parent_cversion: -1 })
    }

    /// Creates leaves and returns what all of it took.
    fn grow(&mut self, leaves: usize) -> Duration {
        let mut spent = Duration::ZERO;
        for start in (0..leaves).step_by(PARENTS) {
            let txns = self.next_leaves(PARENTS.min(leaves - start));
            let start = processor_time();
            for (header, txn) in &txns {
                black_box(self.tree.apply(header, txn, &mut |_| {}));
            }
            spent += processor_time() - start;
        }
        spent
    }

    /// Creates leaves and returns which took longest.
    fn grow_watched(&mut self, leaves: usize) -> BTreeSet<(Duration, usize)> {
        let mut slowest = BTreeSet::new();
        for _ in 0..leaves {
            let at = self.leaves;
            for (header, txn) in self.next_leaves(1) {
                let start = processor_time();
                black_box(self.tree.apply(&header, &txn, &mut |_| {}));
                slowest.insert((processor_time() - start, at));
            }
            if slowest.len() > SLOWEST {
                slowest.pop_first();
            }
        }
        slowest
    }

    fn next_leaves(&mut self, count: usize) -> Vec<(TxnHeader, Txn)> {
        let mut next = || {
            let txn = self.create(leaf_path(self.leaves), self.is_ephemeral);
            self.leaves += 1;
            (self.next_header(), txn)
        };
        (0..count).map(|_| next()).collect()
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
                acl: Some(Acl::open().into()),
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
fn random_paths(leaves: usize, operations: usize) -> Vec<String> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % leaves
    };
    (0..operations).map(|_| leaf_path(next())).collect()
}

fn time(what: &str, paths: &[String], mut operation: impl FnMut(&str) -> usize) {
    let part = paths.len().div_ceil(ROUNDS).max(1);
    let rounds = paths.chunks(part).map(|paths| {
        let start = processor_time();
        black_box(paths.iter().map(|path| operation(path)).sum::<usize>());
        processor_time() - start
    });
    println!("{what:<20}{:8.0} ns", rounds.min().unwrap_or_default().as_nanos() as f64 / part as f64);
}

/// What this thread has spent.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Pages of this process that are in memory.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}
