//! Feeds of a connection: whose pushes they are, and what happens to them when the connection ends.

use zebu_client::core::{FeedId, FeedSignal};
use zebu_proto::client::{FeedBatch, FeedCredit, FeedEnd, FeedOpened, FeedPush};
use zebu_proto::{Jute, OpCode, Reader};

use crate::rig::{Rig, reply};

const FEED: FeedId = FeedId(7);

fn push(push: &FeedPush) -> Vec<u8> {
    let mut body = Vec::new();
    push.encode(&mut body);
    reply(-23106, 9, 0, &body)
}

fn batch(feed: i32, to: i64) -> FeedPush {
    FeedPush::Batch(FeedBatch { feed, from: 1, to, records: Vec::new() })
}

/// A machine with an open feed that has this number at the server.
fn with_feed(number: i32) -> Rig {
    let mut rig = Rig::connected();
    rig.open_feed(1, FEED);
    answer_open(&mut rig, number);
    assert!(rig.ended[&1].is_ok());
    rig
}

fn answer_open(rig: &mut Rig, number: i32) {
    let sent = rig.requests();
    let open = sent.iter().find(|request| request.op == OpCode::Feed.wire()).expect("the request");
    let mut body = Vec::new();
    FeedOpened { feed: number, last: 1 }.encode(&mut body);
    rig.reply(open.xid, 1, 0, &body);
}

/// The credits that the client sent: feed and bytes.
fn credits(rig: &mut Rig) -> Vec<(i32, i32)> {
    let sent = rig.requests();
    let credits = sent.iter().filter(|request| request.op == OpCode::FeedCredit.wire());
    credits
        .map(|request| {
            let FeedCredit { feed, credit } = FeedCredit::decode(&mut Reader::new(&request.body)).unwrap();
            (feed, credit)
        })
        .collect()
}

#[test]
fn pushes_go_to_their_feed() {
    let mut rig = with_feed(3);
    rig.receive(&push(&batch(3, 5)));
    rig.receive(&push(&batch(4, 6)));
    let [(feed, FeedSignal::Push { push: pushed, bytes })] = &rig.feed_signals[..] else {
        panic!("{:?}", rig.feed_signals)
    };
    assert_eq!((*feed, pushed), (FEED, &batch(3, 5)));
    assert_eq!(*bytes, 4 + 4 + 8 + 8 + 4);
    rig.session.grant_feed(rig.now, FEED, 100);
    rig.session.grant_feed(rig.now, FeedId(8), 100);
    assert_eq!(credits(&mut rig), [(3, 100)]);
    // A push for a closed feed is ignored.
    rig.session.grant_feed(rig.now, FEED, 0);
    assert_eq!(credits(&mut rig), [(3, 0)]);
    rig.receive(&push(&batch(3, 7)));
    assert_eq!(rig.feed_signals.len(), 1);
    assert!(rig.link.is_some());
}

#[test]
fn a_feed_ends_with_its_last_push_or_its_connection() {
    let mut rig = with_feed(3);
    let end = FeedPush::End(FeedEnd::purged(3, 9));
    rig.receive(&push(&end));
    rig.receive(&push(&end));
    rig.lose();
    assert_eq!(rig.feed_signals.len(), 1, "{:?}", rig.feed_signals);
    let mut rig = with_feed(3);
    rig.lose();
    assert_eq!(rig.feed_signals, [(FEED, FeedSignal::Lost)]);
    rig.accept();
    rig.receive(&push(&batch(3, 5)));
    rig.session.grant_feed(rig.now, FEED, 1);
    assert_eq!((rig.feed_signals.len(), credits(&mut rig)), (1, vec![]), "it is no feed of this connection");
}

#[test]
fn the_next_server_has_what_a_feed_has_shown() {
    let mut rig = with_feed(3);
    rig.receive(&push(&batch(3, 9)));
    rig.lose();
    assert_eq!(rig.accept().last_zxid_seen, 9);
}

#[test]
fn a_push_that_does_not_decode_ends_the_connection_of_a_feed() {
    let mut rig = with_feed(3);
    rig.reply(-23106, 9, 0, &[0, 0, 0, 1, 0]);
    assert!(rig.link.is_none());
    assert_eq!(rig.feed_signals, [(FEED, FeedSignal::Lost)]);
}
