//! The limits that one thread waits for and another one releases: permits for writes, room for control
//! events, room in the disk backlog.

use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;
use zebu_node::{AnsweredRequests, ClientEvent, SubmittedRequest};

use super::explore;
use crate::core::inbox::{ControlEvent, CoreInbox, InboxBatch, test_write};
use crate::disk::backlog::DiskBacklog;

const WRITES_MAX: usize = 2;
const BYTES_MAX: u32 = 10;

/// Far above the limits for control events and for the disk backlog.
const TOO_MANY_BYTES: usize = 1 << 30;

/// Submits writes as a connection task does.
fn submit(inbox: &CoreInbox, mut requests: Vec<SubmittedRequest>) {
    if inbox.try_submit(&mut requests).is_err() {
        block_on(inbox.submit(&mut requests));
    }
    inbox.wake();
}

/// Two connections submit more than the limits allow at once. The core answers one write at a time.
#[test]
fn permits_come_back_and_writes_keep_their_order() {
    explore(300, || {
        let inbox = Arc::new(CoreInbox::new(WRITES_MAX, BYTES_MAX));
        let submitters = [(1, [7, 7, 7]), (2, [4, 0, 10])].map(|(connection, sizes)| {
            let inbox = inbox.clone();
            thread::spawn(move || submit(&inbox, sizes.map(|bytes| test_write(connection, bytes)).into()))
        });
        let mut answered = Vec::new();
        while answered.len() < 6 {
            let mut batch = InboxBatch::default();
            inbox.wait(std::time::Duration::MAX);
            inbox.drain_into(&mut batch);
            for event in batch.client_events {
                let ClientEvent::Request(write) = event else { panic!("{event:?}") };
                assert!(inbox.outstanding() <= WRITES_MAX);
                let bytes = write.charged_bytes as usize;
                inbox.release_permits(AnsweredRequests { requests: 1, bytes });
                answered.push((write.connection.0, write.charged_bytes));
            }
        }
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        answered.sort_by_key(|(connection, _)| *connection);
        assert_eq!(answered, [(1, 7), (1, 7), (1, 7), (2, 4), (2, 0), (2, 10)]);
        assert_eq!(inbox.outstanding(), 0);
        assert_eq!(inbox.try_submit(&mut vec![test_write(1, BYTES_MAX), test_write(1, 0)]), Ok(()));
    });
}

/// Two links push packets that fill the inbox, and wait for room before each.
#[test]
fn a_link_that_waits_for_the_core_reads_on() {
    explore(300, || {
        let inbox = Arc::new(CoreInbox::new(1, 1));
        let links = [(); 2].map(|()| {
            let inbox = inbox.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    block_on(inbox.wait_for_control_room());
                    inbox.push_without_wake(|batch| {
                        batch.control_events.push(ControlEvent::Abort);
                        batch.control_bytes += TOO_MANY_BYTES;
                    });
                    inbox.wake();
                }
            })
        });
        let mut handled = 0;
        while handled < 4 {
            let mut batch = InboxBatch::default();
            inbox.wait(std::time::Duration::MAX);
            inbox.drain_into(&mut batch);
            handled += batch.control_events.len();
        }
        links.into_iter().for_each(|link| link.join().unwrap());
    });
}

/// Two links wait for the disk before each packet; the disk finishes one append after the other.
#[test]
fn a_link_that_waits_for_the_disk_reads_on() {
    explore(300, || {
        let backlog = Arc::new(DiskBacklog::default());
        let (appends, disk) = shuttle::sync::mpsc::channel();
        let links = [(); 2].map(|()| {
            let (backlog, appends) = (backlog.clone(), appends.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    block_on(backlog.wait_for_room());
                    backlog.add(TOO_MANY_BYTES);
                    appends.send(TOO_MANY_BYTES).unwrap();
                }
            })
        });
        drop(appends);
        disk.iter().for_each(|bytes| backlog.remove(bytes));
        links.into_iter().for_each(|link| link.join().unwrap());
    });
}
