//! Lists and deletes the children of one large node: `cargo run --release -p zebu-tree --example
//! large_lists 2000000`. Prints the time of the slices, of the pages and of the deletes, and the longest of
//! each. Times are those of the processor, so that other programs disturb little.

#![allow(clippy::print_stdout)]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use zebu_proto::client::{DeleteTreeRequest, WriteRequest};
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
use zebu_proto::{Acl, AclList, SessionId, Zxid};
use zebu_tree::{
    ChildBound, Credentials, Overlay, Policy, PrepareContext, Reconfig, SortLimits, Tree, TreeOptions,
    delete_tree_reply,
};

const PAGE: usize = 10_000;
const DELETES: i32 = 2000;
const LIMITS: SortLimits = SortLimits { at_once: 1024, per_slice: 512 };

/// Durations of one kind of step.
#[derive(Default)]
struct Steps {
    all: Vec<Duration>,
}

impl Steps {
    fn measure<T>(&mut self, step: impl FnOnce() -> T) -> T {
        let began = cpu_time();
        let result = step();
        self.all.push(cpu_time().saturating_sub(began));
        result
    }

    fn print(&mut self, name: &str) {
        self.all.sort_unstable();
        let total: Duration = self.all.iter().sum();
        let at = |share: usize| self.all.get(self.all.len() * share / 100).copied().unwrap_or_default();
        let longest = self.all.last().copied().unwrap_or_default();
        println!(
            "{name}: {} steps, {total:.1?} together, p50 {:.1?}, p99 {:.1?}, longest {longest:.1?}",
            self.all.len(),
            at(50),
            at(99)
        );
    }
}

/// Processor time of this program.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

fn main() {
    let children = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000u64);
    let mut tree = Tree::new(TreeOptions { hash_seed: 11, ..TreeOptions::default() });
    let acl: AclList = Acl::open().into();
    let mut zxid = 0;
    let mut create = |tree: &mut Tree, path: String| {
        zxid += 1;
        let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid: Zxid(zxid), time_ms: 0 };
        let (path, acl) = (path.into(), Some(acl.clone()));
        let create = CreateTxn { path, data: None, acl, ephemeral: false, parent_cversion: -1 };
        tree.apply(&header, &Txn::Create(create), &mut |_| ());
    };
    create(&mut tree, "/p".to_owned());
    // Names in no order: the least favourable case.
    let mut state = 1u64;
    for number in 0..children {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        create(&mut tree, format!("/p/{:08x}-{number}", state >> 32));
    }
    list(&tree, children);
    delete(&mut tree, zxid);
}

fn list(tree: &Tree, children: u64) {
    let (mut slices, mut pages) = (Steps::default(), Steps::default());
    let parent = tree.node("/p").expect("it was created");
    let (mut after, mut listed) = (String::new(), 0);
    loop {
        let began = cpu_time();
        let page = tree.children_after(&parent, ChildBound::AfterName(&after), PAGE, LIMITS);
        let Some(page) = page else {
            slices.all.push(cpu_time().saturating_sub(began));
            continue;
        };
        pages.all.push(cpu_time().saturating_sub(began));
        listed += page.len() as u64;
        let Some(last) = page.last() else { break };
        last.name().clone_into(&mut after);
    }
    assert_eq!(listed, children);
    slices.print("slices of the order");
    pages.print("pages of 10000 names");
}

fn delete(tree: &mut Tree, mut zxid: i64) {
    let (mut prepares, mut applies) = (Steps::default(), Steps::default());
    let (mut overlay, policy, credentials) = (Overlay::new(11), Policy::default(), Credentials::none());
    loop {
        zxid += 1;
        let header = TxnHeader { session: SessionId::NONE, cxid: 0, zxid: Zxid(zxid), time_ms: 0 };
        let context = PrepareContext {
            header,
            credentials: &credentials,
            session: Ok(()),
            ephemeral_session: Ok(()),
            policy: &policy,
            reconfig: Reconfig::Disabled,
        };
        let root =
            DeleteTreeRequest { root: "/p".into(), max: DELETES, keep_root: false, leave_ephemerals: false };
        let request = WriteRequest::DeleteTree(root);
        let txn = prepares.measure(|| tree.prepare(&mut overlay, request, &context)).txn;
        applies.measure(|| tree.apply(&header, &txn, &mut |_| ()));
        overlay.applied(header.zxid);
        if !delete_tree_reply(&txn).expect("a deltree").more {
            break;
        }
    }
    prepares.print("deltrees prepared");
    applies.print("deltrees applied");
}
