//! A snapshot file in slices: the bytes of one slice, and the bytes that it leaves on the disk.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "no test here writes a log")]
mod server_files;

use server_files::{directories, recover};
use zebu_node::{AuthEnforcement, Replica};
use zebu_proto::txn::{CreateTxn, Txn, TxnHeader};
use zebu_proto::{SessionId, Zxid};
use zebu_runtime::{
    LoadOptions, NODE_BYTES, SendProgress, SnapshotSections, SnapshotSender, SnapshotStep, SnapshotStore,
    SnapshotTask,
};
use zebu_storage::crash_disk::CrashDisk;
use zebu_storage::{Compression, Disk, Missing};
use zebu_tree::{Policy, Tree, TreeOptions};

const SLICE_NODES: usize = 500;
const DATA_BYTES: usize = 128 << 10;
/// Paths and data of a slice, its last node, and what a node has beside them.
const SLICE_BYTES_MAX: u64 = (2 << 20) + DATA_BYTES as u64 + (4 << 10) + SLICE_NODES as u64 * NODE_BYTES;

/// A tree with so many nodes below `/`, one chain of them, with data of this length.
fn replica(nodes: usize, data_bytes: usize) -> Replica {
    let mut tree = Tree::new(TreeOptions::default());
    let mut path = String::new();
    for number in 0..nodes {
        // Half of the nodes are ancestors of each other, which are visited together.
        if number >= nodes / 2 {
            path.truncate(path.rfind('/').unwrap_or(0));
        }
        path += &format!("/n{number}");
        let header = TxnHeader { session: SessionId(0), cxid: 0, zxid: Zxid(number as i64 + 1), time_ms: 1 };
        let create = CreateTxn {
            path: path.as_str().into(),
            data: Some(vec![number as u8; data_bytes].into()),
            acl: Some(zebu_proto::Acl::open().into()),
            ephemeral: false,
            parent_cversion: -1,
        };
        tree.apply(&header, &Txn::Create(create), &mut |_| ());
    }
    Replica::new(tree, Policy::default(), AuthEnforcement::Off, 3)
}

fn store() -> (CrashDisk, SnapshotStore<CrashDisk>) {
    let disk = CrashDisk::new();
    drop(directories().open(&disk, Missing::Create, "test").unwrap());
    let sections = SnapshotSections::DigestAndLastZxid;
    let store = SnapshotStore::new(disk.clone(), &directories(), Compression::Plain, sections);
    (disk, store)
}

/// The bytes of all snapshot files, finished or not.
fn snapshot_bytes(disk: &CrashDisk) -> u64 {
    let image = disk.image();
    let files = image.iter().filter(|(path, _)| path.to_string_lossy().contains("snapshot"));
    files.map(|(_, bytes)| bytes.len() as u64).sum()
}

#[test]
fn the_bytes_of_one_slice_are_bounded() {
    let replica = replica(500, DATA_BYTES);
    let (disk, store) = store();
    let directory = directories().snapshots();
    disk.set_capacity(&directory, 1 << 40);
    let free = || disk.space(&directory).unwrap().unwrap().free;
    let mut task = SnapshotTask::begin(store, &replica);
    let mut slices = 0;
    loop {
        let before = free();
        task.copy_slice(&replica, SLICE_NODES);
        let step = task.write_slice().unwrap();
        slices += 1;
        assert!(before - free() <= SLICE_BYTES_MAX, "slice {slices} has {} bytes", before - free());
        if step != SnapshotStep::More {
            assert_eq!(step, SnapshotStep::Written(Zxid(500)));
            break;
        }
    }
    assert!(slices >= 500 / 17, "{slices}");
    let (_, tree) = recover(&disk, LoadOptions::standalone());
    assert_eq!((tree.node_count(), tree.digest()), (replica.tree().node_count(), replica.tree().digest()));
}

#[test]
fn the_bytes_of_one_slice_for_a_learner_are_bounded() {
    let replica = replica(100, DATA_BYTES);
    let mut sender = SnapshotSender::begin(&replica);
    let (mut bytes, mut sent, mut progress) = (Vec::new(), 0, SendProgress::More);
    while progress == SendProgress::More {
        progress = sender.next_slice(&replica, SLICE_NODES, &mut bytes).unwrap();
        assert!(bytes.len() as u64 <= SLICE_BYTES_MAX, "{}", bytes.len());
        sent += bytes.len();
        bytes.clear();
    }
    assert!(sent > 100 * DATA_BYTES);
}

#[test]
fn a_snapshot_ends_before_it_takes_reserved_bytes() {
    const MIB: u64 = 1 << 20;
    let replica = replica(20, MIB as usize);
    let (disk, store) = store();
    let directory = directories().snapshots();
    for (capacity, is_written) in [(24 * MIB, false), (26 * MIB, true)] {
        disk.set_capacity(&directory, capacity);
        let mut task = SnapshotTask::begin(store.clone(), &replica);
        task.reserve(4 * MIB + 30 * NODE_BYTES);
        let (mut step, mut free) = (SnapshotStep::More, capacity);
        while step == SnapshotStep::More {
            task.copy_slice(&replica, SLICE_NODES);
            step = task.write_slice().unwrap();
            free = free.min(disk.space(&directory).unwrap().unwrap().free);
        }
        assert!(free >= 4 * MIB, "{free} bytes were left");
        if is_written {
            assert_eq!(step, SnapshotStep::Written(Zxid(20)));
        } else {
            assert_eq!((step, snapshot_bytes(&disk)), (SnapshotStep::NoRoom, 0), "the file is removed");
        }
    }
}

#[test]
fn bytes_that_are_reserved_later_count_too() {
    let replica = replica(20, 1 << 20);
    let (disk, store) = store();
    disk.set_capacity(&directories().snapshots(), 30 << 20);
    let mut task = SnapshotTask::begin(store, &replica);
    task.copy_slice(&replica, SLICE_NODES);
    assert_eq!(task.write_slice().unwrap(), SnapshotStep::More);
    task.reserve(29 << 20);
    task.copy_slice(&replica, SLICE_NODES);
    assert_eq!((task.write_slice().unwrap(), snapshot_bytes(&disk)), (SnapshotStep::NoRoom, 0));
}
