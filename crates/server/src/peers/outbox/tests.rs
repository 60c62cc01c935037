//! The outbox on real sockets: the writer, the order, and a peer that does not read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpSocket, TcpStream};
use zebu_proto::SessionId;
use zebu_proto::quorum::Packet;
use zebu_proto::txn::{Txn, TxnDigest, TxnEntry, TxnHeader};
use zebu_zab::packet_weight;

use super::*;
use crate::sync::{ReadHalf, split};

/// The kernel rounds it up to its minimum.
const TINY: u32 = 1;

const ROOMY: u32 = 256 << 10;

/// A bound far above the time of any step.
const TOO_LONG: Duration = Duration::from_secs(20);

/// An outbox, the unused read half of its connection, and the peer's end.
async fn connected(socket_bytes: u32) -> (Arc<Outbox>, ReadHalf, TcpStream) {
    let door = TcpSocket::new_v4().unwrap();
    door.set_recv_buffer_size(socket_bytes).unwrap();
    door.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let door = door.listen(1).unwrap();
    let own = TcpSocket::new_v4().unwrap();
    own.set_send_buffer_size(socket_bytes).unwrap();
    let (own, other) = tokio::join!(own.connect(door.local_addr().unwrap()), door.accept());
    let (reader, writer) = split(own.unwrap());
    // The socket accepts no bytes without waiting before the runtime has polled it.
    writer.writable().await.unwrap();
    (Arc::new(Outbox::new(writer)), reader, other.unwrap().0)
}

fn request(number: usize, length: usize) -> Packet {
    let mut payload = vec![number as u8; length];
    payload.extend((number as u64).to_be_bytes());
    Packet::Proposal { zxid: Zxid(number as i64), entry: payload.into() }
}

fn transaction(zxid: Zxid, digest: Option<TxnDigest>) -> Packet {
    let header = TxnHeader { session: SessionId(1), cxid: 2, zxid, time_ms: 3 };
    let mut bytes = Vec::new();
    TxnEntry { header, txn: Txn::CreateSession { timeout_ms: 4000 }, digest }.encode(&mut bytes);
    Packet::Proposal { zxid, entry: bytes.into() }
}

fn encoded(packets: impl IntoIterator<Item = Packet>) -> Vec<u8> {
    let mut bytes = Vec::new();
    packets.into_iter().for_each(|packet| packet.encode(&mut bytes));
    bytes
}

async fn read_exactly(other: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let read = tokio::time::timeout(TOO_LONG, other.read_exact(&mut bytes)).await;
    read.expect("something is missing").unwrap();
    bytes
}

/// Acts as the task of a link and returns the sent weight.
async fn serve(outbox: &Outbox, state: &[u8]) -> io::Result<usize> {
    let (mut bytes, mut sent) = (Vec::new(), 0);
    loop {
        match outbox.next_job(&mut bytes) {
            WriteJob::Write { weight } => {
                outbox.write_all(&bytes).await?;
                bytes.clear();
                sent += weight;
            }
            WriteJob::SendSnapshot => {
                outbox.write_all(state).await?;
                outbox.snapshot_sent(Zxid(i64::MIN));
            }
            WriteJob::Wait => outbox.wait_for_wakeup().await,
            WriteJob::Close => return Ok(sent),
        }
    }
}

#[tokio::test]
async fn the_core_writes_what_the_socket_takes() {
    let (outbox, _reader, mut other) = connected(ROOMY).await;
    let packets = [request(1, 10), Packet::Commit { zxid: Zxid(1) }];
    assert!(outbox.push(packets[0].clone()), "needs a flush");
    assert!(!outbox.push(packets[1].clone()), "is pending already");
    assert_eq!(outbox.flush(), packets.iter().map(packet_weight).sum::<usize>());
    assert_eq!(outbox.flush(), 0);
    let expected = encoded(packets);
    assert_eq!(read_exactly(&mut other, expected.len()).await, expected);
    assert_eq!(outbox.next_job(&mut Vec::new()), WriteJob::Wait);
    assert!(outbox.push(request(2, 10)), "needs a flush");
}

#[tokio::test]
async fn much_is_left_to_the_task() {
    let (outbox, _reader, mut other) = connected(ROOMY).await;
    let much = request(1, INLINE_WRITE_BYTES);
    assert!(outbox.push(much.clone()), "needs a flush");
    assert_eq!(outbox.flush(), 0);
    // The woken task owns the writer: later packets stay behind.
    let little = request(2, 10);
    assert!(!outbox.push(little.clone()), "is pending already");
    assert_eq!(outbox.flush(), 0);
    outbox.wait_for_wakeup().await;
    let mut bytes = Vec::new();
    let both = packet_weight(&much) + packet_weight(&little);
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::Write { weight: both });
    // The task writes; the core only queues.
    let last = request(3, 10);
    assert!(!outbox.push(last.clone()), "is pending already");
    assert_eq!(outbox.flush(), 0);
    let expected = encoded([much, little]);
    assert_eq!(bytes, expected);
    let (written, read) = tokio::join!(outbox.write_all(&bytes), read_exactly(&mut other, expected.len()));
    written.unwrap();
    assert_eq!(read, expected);
    bytes.clear();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::Write { weight: packet_weight(&last) });
    assert_eq!(bytes, encoded([last]));
}

#[tokio::test]
async fn a_task_that_comes_before_the_flush_has_the_pen() {
    let (outbox, _reader, mut other) = connected(ROOMY).await;
    let [first, second] = [request(1, 10), request(2, 10)];
    outbox.push(first.clone());
    let mut bytes = Vec::new();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::Write { weight: packet_weight(&first) });
    assert!(!outbox.push(second.clone()), "is pending already");
    assert_eq!(outbox.flush(), 0);
    outbox.write_all(&bytes).await.unwrap();
    bytes.clear();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::Write { weight: packet_weight(&second) });
    outbox.write_all(&bytes).await.unwrap();
    let expected = encoded([first, second]);
    assert_eq!(read_exactly(&mut other, expected.len()).await, expected);
}

#[tokio::test]
async fn a_packet_that_the_socket_takes_in_part_is_finished_by_the_task() {
    let (outbox, _reader, mut other) = connected(TINY).await;
    let packet = request(1, INLINE_WRITE_BYTES / 2);
    let expected = encoded([packet.clone()]);
    outbox.push(packet.clone());
    assert_eq!(outbox.flush(), 0);
    let mut rest = Vec::new();
    assert_eq!(outbox.next_job(&mut rest), WriteJob::Write { weight: packet_weight(&packet) });
    assert!(!rest.is_empty() && rest.len() < expected.len(), "{} of {}", rest.len(), expected.len());
    let (written, read) = tokio::join!(outbox.write_all(&rest), read_exactly(&mut other, expected.len()));
    written.unwrap();
    assert_eq!(read, expected);
}

/// All cases at once: a socket that is sometimes full, a core and a task that write, and snapshots
/// in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_mixes_and_nothing_overtakes() {
    for socket_bytes in [TINY, ROOMY] {
        let (outbox, reader, mut other) = connected(socket_bytes).await;
        let state = vec![0xee; 20_000];
        let plan: Vec<Packet> =
            (0..3000).map(|round| request(round, [0, 30, 400, 3000][round % 4] + round % 7)).collect();
        let weights: usize = plan.iter().map(packet_weight).sum();
        let mut expected = Vec::new();
        for (round, packet) in plan.iter().enumerate() {
            packet.encode(&mut expected);
            if has_state_behind(round) {
                expected.extend(&state);
            }
        }
        let task = tokio::spawn({
            let outbox = outbox.clone();
            async move { serve(&outbox, &state).await }
        });
        let taken = Arc::new(AtomicUsize::new(0));
        let core = std::thread::spawn({
            let (outbox, taken) = (outbox.clone(), taken.clone());
            move || play_core(&outbox, plan, &taken)
        });
        let mut place = 0;
        while place < expected.len() {
            let length = (expected.len() - place).min(1500);
            assert!(read_exactly(&mut other, length).await == expected[place..place + length], "at {place}");
            place += length;
            taken.store(place, SeqCst);
        }
        let by_the_core = core.join().unwrap();
        let by_the_task = task.await.unwrap().unwrap();
        assert_eq!(by_the_task + by_the_core, weights);
        assert!(by_the_core > 0 && by_the_task > 0, "{by_the_core} {by_the_task}");
        drop((outbox, reader));
        assert_eq!(other.read(&mut [0]).await.unwrap(), 0);
    }
}

fn has_state_behind(round: usize) -> bool {
    round % 1000 == 500
}

/// Queues packets slightly ahead of the reader, so that the socket is sometimes full and sometimes
/// empty. Returns the weight written here.
fn play_core(outbox: &Outbox, plan: Vec<Packet>, taken: &AtomicUsize) -> usize {
    let (mut put, mut sent) = (0, 0);
    for (round, packet) in plan.into_iter().enumerate() {
        while put > taken.load(SeqCst) + 16_000 {
            // The last packet may wait for this flush.
            sent += outbox.flush();
            std::thread::yield_now();
        }
        put += encoded([packet.clone()]).len();
        outbox.push(packet);
        if has_state_behind(round) {
            outbox.push_snapshot();
        }
        if round % 3 != 0 {
            sent += outbox.flush();
        }
    }
    outbox.close();
    sent
}

#[tokio::test]
async fn packets_behind_a_state_wait_until_it_has_ended() {
    let (outbox, _reader, mut other) = connected(ROOMY).await;
    let digest = Some(TxnDigest { version: 2, tree_digest: 77 });
    let [before, inside, behind, later] = [1, 2, 3, 4].map(|counter| Zxid::new(1, counter));
    outbox.push(transaction(before, digest));
    outbox.push_snapshot();
    assert!(!outbox.push(transaction(inside, digest)), "is pending already");
    assert_eq!(outbox.flush(), 0);

    let mut bytes = Vec::new();
    assert!(matches!(outbox.next_job(&mut bytes), WriteJob::Write { .. }));
    assert_eq!(bytes, encoded([transaction(before, digest)]));
    bytes.clear();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::SendSnapshot);
    // The core queues another snapshot during the transfer.
    outbox.push(transaction(behind, digest));
    outbox.push_snapshot();
    outbox.push(transaction(later, digest));
    assert_eq!((outbox.flush(), bytes.len()), (0, 0));

    outbox.snapshot_sent(inside);
    assert!(matches!(outbox.next_job(&mut bytes), WriteJob::Write { .. }));
    assert_eq!(bytes, encoded([transaction(inside, None), transaction(behind, digest)]));
    bytes.clear();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::SendSnapshot);
    outbox.snapshot_sent(behind);
    assert!(matches!(outbox.next_job(&mut bytes), WriteJob::Write { .. }));
    assert_eq!(bytes, encoded([transaction(later, digest)]));
    bytes.clear();
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::Wait);

    // The core writes again, and still knows the end of the snapshot.
    assert!(outbox.push(transaction(behind, digest)), "needs a flush");
    assert!(outbox.flush() > 0);
    let expected = encoded([transaction(behind, None)]);
    assert_eq!(read_exactly(&mut other, expected.len()).await, expected);
}

#[tokio::test]
async fn much_behind_a_state_is_encoded_in_pieces() {
    let (outbox, _reader, _other) = connected(ROOMY).await;
    let packets: Vec<Packet> = (0..5).map(|number| request(number, SendQueue::WRITE_BYTES / 2)).collect();
    outbox.push_snapshot();
    for packet in &packets {
        outbox.push(packet.clone());
    }
    let (mut all, mut bytes) = (Vec::new(), Vec::new());
    assert_eq!(outbox.next_job(&mut bytes), WriteJob::SendSnapshot);
    outbox.snapshot_sent(Zxid(0));
    let mut pieces = 0;
    while let WriteJob::Write { .. } = outbox.next_job(&mut bytes) {
        assert!(bytes.len() <= 2 * SendQueue::WRITE_BYTES, "{}", bytes.len());
        all.append(&mut bytes);
        pieces += 1;
    }
    assert_eq!((pieces, all), (3, encoded(packets)));
}

#[tokio::test]
async fn a_link_that_is_closed_sends_what_it_has() {
    let (outbox, reader, mut other) = connected(TINY).await;
    let packets: Vec<Packet> = (0..100).map(|number| request(number, 1000)).collect();
    let expected = encoded(packets.clone());
    for packet in packets {
        outbox.push(packet);
    }
    outbox.close();
    assert_eq!(outbox.flush(), 0);
    let task = async {
        let sent = serve(&outbox, &[]).await;
        drop((outbox, reader));
        sent
    };
    let read = async {
        let mut bytes = Vec::new();
        other.read_to_end(&mut bytes).await.map(|_| bytes)
    };
    let (sent, read) = tokio::join!(task, read);
    assert!(sent.unwrap() > 0);
    assert!(read.unwrap() == expected);
}

#[tokio::test]
async fn a_closed_link_whose_other_side_does_not_read_ends() {
    let (outbox, _reader, _other) = connected(TINY).await;
    outbox.push(request(1, 4 << 20));
    outbox.flush();
    let task = serve(&outbox, &[]);
    tokio::pin!(task);
    // The task is already in a write.
    assert!(tokio::time::timeout(Duration::from_millis(20), &mut task).await.is_err());
    outbox.close();
    let end = tokio::time::timeout(TOO_LONG, task).await.expect("the link must end");
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn the_task_finds_that_the_socket_has_failed() {
    let (outbox, _reader, other) = connected(ROOMY).await;
    other.set_zero_linger().unwrap();
    drop(other);
    let mut task = tokio::spawn({
        let outbox = outbox.clone();
        async move { serve(&outbox, &[]).await }
    });
    let failed = async {
        loop {
            tokio::select! {
                end = &mut task => return end.unwrap(),
                () = tokio::task::yield_now() => {
                    outbox.push(request(1, 10));
                    outbox.flush();
                }
            }
        }
    };
    let end = tokio::time::timeout(TOO_LONG, failed).await.expect("it must be found");
    assert!(end.is_err());
}
