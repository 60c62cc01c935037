//! What the steps work on: paths, data, and a tree that has them.

use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
use zebu_proto::{Acl, SessionId, Zxid};
use zebu_tree::{Tree, TreeOptions};

/// Nodes below one parent.
const LEAVES_PER_PARENT: usize = 1000;

const SEED: u64 = 11;

/// Only what does not change; whatever a step changes it makes for itself.
pub(crate) struct World {
    pub(crate) leaves: usize,
    pub(crate) data: Vec<u8>,
}

/// A tree with its last transaction.
pub(crate) struct Grown {
    pub(crate) tree: Tree,
    zxid: i64,
}

impl World {
    pub(crate) fn new(leaves: usize) -> World {
        World { leaves: leaves.max(1), data: vec![b'z'; 100] }
    }

    /// Paths of leaves in an order that no cache foresees, the same every time.
    pub(crate) fn paths(&self, count: usize) -> Vec<String> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % self.leaves
        };
        (0..count).map(|_| leaf(next())).collect()
    }

    /// A tree with all leaves.
    pub(crate) fn grow(&self) -> Grown {
        let tree = Tree::new(TreeOptions { hash_seed: SEED, ..TreeOptions::default() });
        let mut grown = Grown { tree, zxid: 0 };
        for parent in 0..self.leaves.div_ceil(LEAVES_PER_PARENT) {
            grown.apply(&create(format!("/parent-{parent:04}"), b""));
        }
        for number in 0..self.leaves {
            grown.apply(&create(leaf(number), &self.data));
        }
        grown
    }
}

impl Grown {
    pub(crate) fn next_header(&mut self) -> TxnHeader {
        self.zxid += 1;
        TxnHeader {
            session: SessionId(1),
            cxid: 1,
            zxid: Zxid(self.zxid),
            time_ms: 1_700_000_000_000 + self.zxid,
        }
    }

    pub(crate) fn apply(&mut self, txn: &Txn) {
        let header = self.next_header();
        std::hint::black_box(self.tree.apply(&header, txn, &mut |_| {}));
    }
}

pub(crate) fn create(path: String, data: &[u8]) -> Txn {
    let (data, acl) = (Some(data.into()), Some(Acl::open().into()));
    Txn::Create(CreateTxn { path: path.into(), data, acl, ephemeral: false, parent_cversion: -1 })
}

fn leaf(number: usize) -> String {
    format!("/parent-{:04}/leaf-{number:07}", number / LEAVES_PER_PARENT)
}
