//! Bad input on the ports for peers, by strangers and in the name of servers of the list: the connection that
//! sent it is closed or ignored. No server ends, memory stays bounded, and the ensemble goes on to serve.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/addresses.rs"]
mod addresses;
#[path = "common/ensemble.rs"]
mod ensemble;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use ensemble::{Ensemble, TIME_LIMIT, block_on};
use zebu_client::Client;
use zebu_proto::quorum::election::NotificationVersion;
use zebu_proto::quorum::packet::{LEARNER_PROTOCOL, LearnerInfo};
use zebu_proto::quorum::packet_length::{PacketLength, packet_length};
use zebu_proto::quorum::{InitialMessage, Notification, Packet, ServerState};
use zebu_proto::{Reader, ServerId, Zxid};

/// Numbers at the ends of what a field holds.
const NUMBERS: [i64; 10] =
    [0, 1, -1, 1 << 32, (1 << 32) - 1, 0x7fff_ffff_ffff_fffe, i64::MAX, i64::MIN, i64::MIN + 1, -65536];

/// Far more than a server of these tests needs, far less than what it is sent.
const MEMORY_MAX_KIB: u64 = 256 << 10;

/// The id of a server that is in the list and does not run: the tests speak for it.
const ABSENT: i64 = 4;

/// A client whose writes must succeed.
struct UnaffectedClient {
    client: Client,
    writes: u32,
}

impl UnaffectedClient {
    async fn new(ensemble: &Ensemble) -> UnaffectedClient {
        let client = ensemble.client(&[0, 1, 2]).await;
        client.create("/witness").data(&b""[..]).await.unwrap();
        UnaffectedClient { client, writes: 0 }
    }

    async fn writes(&mut self, ensemble: &mut Ensemble, what: &str) {
        self.writes += 1;
        let text = self.writes.to_string();
        // One that the loss of a connection leaves in doubt is repeated: it says the same.
        let deadline = Instant::now() + TIME_LIMIT;
        while let Err(error) = self.client.set("/witness", text.clone().into_bytes()).await {
            assert!(Instant::now() < deadline, "{what}: {error}\n{}", ensemble.logs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for index in 0..3 {
            let ended = ensemble.children[index].as_mut().map(|child| child.try_wait().unwrap());
            assert!(matches!(ended, Some(None)), "{what}: server {index} ended\n{}", ensemble.logs());
        }
        assert!(!ensemble.logs().contains("panicked"), "{what}\n{}", ensemble.logs());
    }
}

/// Three servers that run and one that does not.
fn ensemble(lines: &str) -> Ensemble {
    let line = |_, id, quorum, election| format!("server.{id}=127.0.0.1:{quorum}:{election}");
    let mut ensemble = addresses::prepare(4, lines, &line);
    (0..3).for_each(|index| ensemble.run(index));
    ensemble.await_leader(3);
    ensemble
}

fn leader(ensemble: &Ensemble) -> usize {
    ensemble.await_leader(3)
}

/// The most memory that a server ever had, in KiB.
fn peak_kib(ensemble: &Ensemble, index: usize) -> u64 {
    let id = ensemble.children[index].as_ref().unwrap().id();
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = |key| status.lines().find_map(|line| line.strip_prefix(key));
    let value = line("VmHWM:").or(line("VmRSS:")).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

fn memory_is_bounded(ensemble: &Ensemble) {
    for index in 0..3 {
        let peak = peak_kib(ensemble, index);
        assert!(peak < MEMORY_MAX_KIB, "server {index} took {peak} KiB");
    }
}

fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    stream
}

/// Sends what the other side takes: it may close at any time.
fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}

/// A packet of any kind, right or wrong.
fn raw_packet(kind: i32, zxid: i64, data: Option<&[u8]>, auth: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(kind.to_be_bytes());
    bytes.extend(zxid.to_be_bytes());
    match data {
        Some(data) => {
            bytes.extend((data.len() as i32).to_be_bytes());
            bytes.extend(data);
        }
        None => bytes.extend((-1i32).to_be_bytes()),
    }
    bytes.extend(auth.to_be_bytes());
    bytes
}

/// Packets of every kind with extreme numbers and bodies of many lengths.
fn packets() -> Vec<Vec<u8>> {
    let filled: Vec<Vec<u8>> = [0u8, 0x7f, 0x80, 0xff]
        .into_iter()
        .flat_map(|byte| [0, 4, 8, 9, 12, 20, 28, 64].map(|length| vec![byte; length]))
        .collect();
    let mut packets = Vec::new();
    for kind in -1..=21 {
        for (index, zxid) in NUMBERS.into_iter().enumerate() {
            packets.push(raw_packet(kind, zxid, None, -1));
            let body = &filled[(index * 7 + kind.unsigned_abs() as usize) % filled.len()];
            packets.push(raw_packet(kind, zxid, Some(body), [-1, 0, -2, i32::MAX, i32::MIN][index % 5]));
        }
    }
    packets
}

/// Packets whose lengths lie, whole or in part.
fn lying_packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for length in [-2, i32::MIN, i32::MAX, 1 << 30, 1 << 21, 5000] {
        let mut bytes = Vec::new();
        bytes.extend(11i32.to_be_bytes());
        bytes.extend(0i64.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        packets.push(bytes.clone());
        bytes.extend([7; 4000]);
        packets.push(bytes);
    }
    packets
}

fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes);
    bytes
}

fn info(server: i64) -> LearnerInfo {
    LearnerInfo { server: ServerId(server), protocol: LEARNER_PROTOCOL, config_version: 0, zebu: None }
}

/// A learner that the leader believes in, as far as it is to come.
struct FakeLearner {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl FakeLearner {
    fn connect(port: u16) -> FakeLearner {
        FakeLearner { stream: connect(port), buffer: Vec::new() }
    }

    fn send(&mut self, packet: &Packet) {
        send(&mut self.stream, &encoded(packet));
    }

    /// The next packet; `None` if the leader has closed.
    fn receive(&mut self) -> Option<Packet> {
        loop {
            if let PacketLength::Complete { length } = packet_length(&self.buffer, 64 << 20) {
                let packet = Packet::decode(&mut Reader::new(&self.buffer[..length])).unwrap();
                self.buffer.drain(..length);
                return Some(packet);
            }
            let mut some = [0; 16 << 10];
            match self.stream.read(&mut some) {
                Ok(count) if count > 0 => self.buffer.extend(&some[..count]),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Introduces itself and hears of the epoch.
    fn introduced(port: u16, packet: &Packet) -> FakeLearner {
        let mut learner = FakeLearner::connect(port);
        learner.send(packet);
        assert!(matches!(learner.receive(), Some(Packet::LeaderInfo { .. })), "the leader answers");
        learner
    }

    /// Follows until it is up to date. Its history is empty, so that it gets all transactions.
    fn synchronised(port: u16) -> Option<FakeLearner> {
        let follower = Packet::FollowerInfo { accepted: Zxid::ZERO, info: info(ABSENT) };
        let mut learner = FakeLearner::introduced(port, &follower);
        learner.send(&Packet::AckEpoch { last: Zxid::ZERO, current_epoch: 0 });
        loop {
            match learner.receive()? {
                Packet::NewLeader { zxid, .. } => learner.send(&Packet::Ack { zxid }),
                Packet::UpToDate => return Some(learner),
                Packet::Snap { .. } => return None,
                _ => {}
            }
        }
    }
}

#[test]
fn packets_of_strangers_on_the_quorum_port() {
    let mut ensemble = ensemble("initLimit=20");
    let leader = leader(&ensemble);
    block_on(async {
        let mut unaffected = UnaffectedClient::new(&ensemble).await;
        for index in 0..3 {
            let [quorum, _] = ensemble.ports[index];
            let all = packets().into_iter().chain(lying_packets());
            for (number, packet) in all.enumerate() {
                let mut stream = connect(quorum);
                send(&mut stream, &packet);
                if number % 100 == 0 {
                    unaffected.writes(&mut ensemble, "strangers").await;
                }
            }
            // Nonsense that is no packet at all, long and short.
            for length in [1, 3, 11, 15, 16, 17, 100_000] {
                send(&mut connect(quorum), &vec![0xff; length]);
                send(&mut connect(quorum), &vec![0; length]);
            }
            send(&mut connect(quorum), b"GET / HTTP/1.1\r\nHost: zookeeper\r\n\r\n");
            unaffected.writes(&mut ensemble, "nonsense").await;
        }
        // Many that announce a packet and send it slowly or not at all.
        let [quorum, _] = ensemble.ports[leader];
        let mut slow: Vec<TcpStream> = (0..300).map(|_| connect(quorum)).collect();
        for stream in &mut slow {
            send(stream, &raw_packet(11, 0, Some(&[0; 3000]), -1)[..2000]);
        }
        unaffected.writes(&mut ensemble, "slow strangers").await;
        assert_eq!(ensemble.await_leader(3), leader, "nobody has lost its leader");
    });
    memory_is_bounded(&ensemble);
}

#[test]
fn packets_of_a_server_of_the_list_on_the_quorum_port() {
    let mut ensemble = ensemble("initLimit=20");
    let leader = leader(&ensemble);
    let [quorum, _] = ensemble.ports[leader];
    block_on(async {
        let mut unaffected = UnaffectedClient::new(&ensemble).await;
        for packet in packets().into_iter().chain(lying_packets()) {
            // First of all, in the place of the epoch, and behind an epoch that is not right.
            for number in [0, i64::MAX, i64::MIN] {
                let mut stream = connect(quorum);
                let accepted = Zxid(number);
                send(&mut stream, &encoded(&Packet::FollowerInfo { accepted, info: info(ABSENT) }));
                send(&mut stream, &packet);
            }
            let mut stream = connect(quorum);
            send(&mut stream, &encoded(&Packet::ObserverInfo { accepted: Zxid::ZERO, info: info(ABSENT) }));
            send(&mut stream, &packet);
        }
        unaffected.writes(&mut ensemble, "before the epoch").await;
        for number in NUMBERS {
            for current_epoch in [0, -1, 1, i32::MAX, i32::MIN] {
                let follower = Packet::FollowerInfo { accepted: Zxid(number), info: info(ABSENT) };
                let mut stream = connect(quorum);
                send(&mut stream, &encoded(&follower));
                send(&mut stream, &encoded(&Packet::AckEpoch { last: Zxid(number), current_epoch }));
                send(&mut stream, &encoded(&Packet::Ack { zxid: Zxid(number) }));
            }
        }
        unaffected.writes(&mut ensemble, "epochs").await;
        assert_eq!(ensemble.await_leader(3), leader, "nobody has lost its leader");
    });
    memory_is_bounded(&ensemble);
}

#[test]
fn packets_of_a_learner_that_is_up_to_date() {
    let mut ensemble = ensemble("initLimit=20");
    let leader = leader(&ensemble);
    let [quorum, _] = ensemble.ports[leader];
    block_on(async {
        let mut unaffected = UnaffectedClient::new(&ensemble).await;
        let mut reached = 0;
        for (number, packet) in packets().into_iter().chain(lying_packets()).enumerate() {
            if let Some(mut learner) = FakeLearner::synchronised(quorum) {
                reached += 1;
                send(&mut learner.stream, &packet);
            }
            if number % 50 == 0 {
                unaffected.writes(&mut ensemble, &format!("{packet:?}")).await;
            }
        }
        assert!(reached > 100, "only {reached} were believed");
        // Requests as long as they may be, from one that reads nothing.
        let mut learner = FakeLearner::synchronised(quorum).unwrap();
        let _ = learner.stream.set_write_timeout(Some(Duration::from_secs(5)));
        for _ in 0..100 {
            send(&mut learner.stream, &raw_packet(1, -1, Some(&[0x11; 1 << 20]), -1));
        }
        drop(learner);
        unaffected.writes(&mut ensemble, "long requests").await;
        assert_eq!(ensemble.await_leader(3), leader, "nobody has lost its leader");
    });
    memory_is_bounded(&ensemble);
}

/// A server that follows a leader that says anything, at every step of the way. The test is the leader and
/// the other voter; the server must neither end nor stop looking for a leader.
#[test]
fn packets_of_a_leader() {
    let line = |_, id, quorum, election| format!("server.{id}=127.0.0.1:{quorum}:{election}");
    let mut ensemble = addresses::prepare(3, "initLimit=20", &line);
    let quorum = TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.ports[2][0])).unwrap();
    ensemble.run(0);
    let vote_of = |state, round| {
        let mut bytes = Vec::new();
        Notification {
            state,
            leader: ServerId(3),
            zxid: Zxid::new(1, 0),
            round,
            epoch: 1,
            version: NotificationVersion::V2,
            config: Some("".into()),
        }
        .encode(&mut bytes);
        bytes
    };
    let voters: Vec<TcpStream> = [2, 3].map(|id| introduce(&ensemble, 0, id)).into();
    let answering: Vec<_> = voters
        .into_iter()
        .zip([ServerState::Following, ServerState::Leading])
        .map(|(mut voter, state)| {
            std::thread::spawn(move || {
                // Answers every vote until the server is gone.
                let mut head = [0; 4];
                while voter.read_exact(&mut head).is_ok() {
                    let mut payload = vec![0; i32::from_be_bytes(head) as usize];
                    if voter.read_exact(&mut payload).is_err() {
                        return;
                    }
                    let round = i64::from_be_bytes(payload[20..28].try_into().unwrap());
                    send(&mut voter, &vote_of(state, round));
                }
            })
        })
        .collect();
    let epoch = Zxid::new(2, 0);
    let steps: [Vec<Packet>; 4] = [
        Vec::new(),
        vec![Packet::LeaderInfo { zxid: epoch, protocol: LEARNER_PROTOCOL, zebu: None }],
        vec![
            Packet::LeaderInfo { zxid: epoch, protocol: LEARNER_PROTOCOL, zebu: None },
            Packet::Diff { zxid: Zxid::ZERO },
        ],
        vec![
            Packet::LeaderInfo { zxid: epoch, protocol: LEARNER_PROTOCOL, zebu: None },
            Packet::Diff { zxid: Zxid::ZERO },
            Packet::NewLeader { zxid: epoch, config: None },
            Packet::UpToDate,
        ],
    ];
    let mut all = packets();
    all.extend(lying_packets());
    let deadline = Instant::now() + 3 * TIME_LIMIT;
    for number in 0..120 {
        let (mut stream, _) = accept_by(&quorum, deadline, &ensemble);
        for packet in &steps[number % steps.len()] {
            send(&mut stream, &encoded(packet));
        }
        // A few of all: how the steps go on with any packet is what fuzzing looks at.
        send(&mut stream, &all[number * 61 % all.len()]);
    }
    let ended = ensemble.children[0].as_mut().unwrap().try_wait().unwrap();
    assert!(ended.is_none(), "the server ended\n{}", ensemble.logs());
    assert!(!ensemble.logs().contains("panicked"), "{}", ensemble.logs());
    assert!(peak_kib(&ensemble, 0) < MEMORY_MAX_KIB);
    ensemble.kill(0);
    answering.into_iter().for_each(|thread| thread.join().unwrap());
}

fn accept_by(
    listener: &TcpListener,
    deadline: Instant,
    ensemble: &Ensemble,
) -> (TcpStream, std::net::SocketAddr) {
    listener.set_nonblocking(true).unwrap();
    loop {
        if let Ok((stream, from)) = listener.accept() {
            stream.set_nonblocking(false).unwrap();
            return (stream, from);
        }
        assert!(Instant::now() < deadline, "the server does not come\n{}", ensemble.logs());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A connection to the election port of a server, in the name of another one with a larger id.
fn introduce(ensemble: &Ensemble, index: usize, id: i64) -> TcpStream {
    let deadline = Instant::now() + TIME_LIMIT;
    let [_, election] = ensemble.ports[index];
    let mut stream = loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, election)) {
            Ok(stream) => break stream,
            Err(error) => assert!(Instant::now() < deadline, "{error}\n{}", ensemble.logs()),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    stream.set_write_timeout(Some(TIME_LIMIT)).unwrap();
    stream.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let [_, own] = ensemble.ports[id as usize - 1];
    let mut bytes = Vec::new();
    let addresses = vec![format!("127.0.0.1:{own}").into()];
    InitialMessage { server: ServerId(id), addresses }.encode(&mut bytes);
    send(&mut stream, &bytes);
    stream
}

/// Votes of every state with extreme numbers and texts.
fn votes() -> Vec<Vec<u8>> {
    let mut votes = Vec::new();
    for state in [-1i32, 0, 1, 2, 3, 4, i32::MAX, i32::MIN] {
        for number in NUMBERS {
            for place in 0..4 {
                let mut numbers = [3i64, 1 << 32, 1, 1];
                numbers[place] = number;
                let mut payload = state.to_be_bytes().to_vec();
                numbers.iter().for_each(|number| payload.extend(number.to_be_bytes()));
                votes.push(payload[..28].to_vec());
                payload.extend(2i32.to_be_bytes());
                votes.push(payload.clone());
                let text = b"server.1=a:1:2:participant\nversion=7fffffffffffffff";
                payload.extend((text.len() as i32).to_be_bytes());
                payload.extend(text);
                votes.push(payload);
            }
        }
    }
    for length in [-1i32, i32::MIN, i32::MAX, 1 << 20] {
        let mut payload = vec![0; 40];
        payload.extend(length.to_be_bytes());
        votes.push(payload);
    }
    votes
}

fn framed(payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as i32).to_be_bytes()[..], payload].concat()
}

#[test]
fn messages_on_the_election_port() {
    let mut ensemble = ensemble("initLimit=20");
    let leader = leader(&ensemble);
    block_on(async {
        let mut unaffected = UnaffectedClient::new(&ensemble).await;
        for index in 0..3 {
            let [_, election] = ensemble.ports[index];
            // Connections that send no server id, or an impossible one.
            for first in NUMBERS.into_iter().chain([-65535, -65537]) {
                for second in NUMBERS {
                    for length in [-1i32, 0, 1, 5, 2048, 2049, i32::MAX, i32::MIN] {
                        let mut stream = connect(election);
                        let mut bytes = [first.to_be_bytes(), second.to_be_bytes()].concat();
                        bytes.extend(length.to_be_bytes());
                        bytes.extend(b"|||||:::::[[[[]]]]1.2.3.4:99999999|\xff\xfe");
                        send(&mut stream, &bytes);
                    }
                }
                unaffected.writes(&mut ensemble, "introductions").await;
            }
            let slow: Vec<TcpStream> = (0..200).map(|_| connect(election)).collect();
            unaffected.writes(&mut ensemble, "slow introductions").await;
            drop(slow);
            // The votes of a server of the list that does not run.
            let mut stream = introduce(&ensemble, index, ABSENT);
            for (number, vote) in votes().iter().enumerate() {
                send(&mut stream, &framed(vote));
                if number % 200 == 0 {
                    unaffected.writes(&mut ensemble, "votes").await;
                }
            }
            for length in [0i32, -1, i32::MIN, i32::MAX, 1 << 20, 600_000] {
                let mut stream = introduce(&ensemble, index, ABSENT);
                send(&mut stream, &length.to_be_bytes());
                send(&mut stream, &[0; 5000]);
            }
            unaffected.writes(&mut ensemble, "lengths").await;
            // Many long ones.
            let mut stream = introduce(&ensemble, index, ABSENT);
            let mut long = votes()[0].clone();
            long.extend([0; 12]);
            long[36..40].copy_from_slice(&2i32.to_be_bytes());
            long.extend(100_000i32.to_be_bytes());
            long.extend([b'#'; 100_000]);
            for _ in 0..1000 {
                send(&mut stream, &framed(&long));
            }
            unaffected.writes(&mut ensemble, "long votes").await;
        }
        assert_eq!(ensemble.await_leader(3), leader, "nobody has lost its leader");
    });
    memory_is_bounded(&ensemble);
}

/// Silent connections take file descriptors, which a server needs for its next log file.
#[test]
fn silent_strangers_are_closed_when_there_are_many() {
    let mut ensemble = ensemble("initLimit=100");
    let leader = leader(&ensemble);
    let open_files = |ensemble: &Ensemble| {
        let id = ensemble.children[leader].as_ref().unwrap().id();
        fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
    };
    let before = open_files(&ensemble);
    let mut strangers = Vec::new();
    for _ in 0..300 {
        ensemble.ports[leader].iter().for_each(|port| strangers.push(connect(*port)));
    }
    for stranger in &mut strangers[..2 * (300 - 64)] {
        stranger.set_read_timeout(Some(TIME_LIMIT)).unwrap();
        assert!(matches!(stranger.read(&mut [0; 8]), Ok(0)), "the oldest are closed\n{}", ensemble.logs());
    }
    let during = open_files(&ensemble);
    assert!(during <= before + 2 * 64 + 32, "{before} files before, {during} now");
    // A server that comes again is let in all the same.
    let follower = (0..3).find(|index| *index != leader).unwrap();
    ensemble.kill(follower);
    ensemble.run(follower);
    assert_eq!(ensemble.await_leader(3), leader);
    assert!(ensemble.logs().contains("too many connections that do not say who they are"));
}

/// A firewall may forget an election connection: what is sent is swallowed. The test is the other end, and
/// silent.
#[test]
fn an_election_connection_that_swallows_votes_is_made_anew() {
    let line = |_, id, quorum, election| format!("server.{id}=127.0.0.1:{quorum}:{election}");
    let mut ensemble = addresses::prepare(3, "initLimit=20", &line);
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, ensemble.ports[1][1])).unwrap();
    ensemble.run(0);
    let mut swallowing = introduce(&ensemble, 0, 2);
    let mut head = [0; 4];
    swallowing.read_exact(&mut head).unwrap();
    // Everything before this moment was an attempt to reach server 2 before it came by itself.
    other.set_nonblocking(true).unwrap();
    while other.accept().is_ok() {}
    let deadline = Instant::now() + TIME_LIMIT;
    let (mut again, _) = accept_by(&other, deadline, &ensemble);
    again.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let mut first = [0; 16];
    again.read_exact(&mut first).unwrap();
    assert_eq!(first[8..], 1i64.to_be_bytes(), "server 1 asks to be called");
}

/// A server that looks for a leader believes the votes of a server of the list. Whatever they say, the
/// ensemble finds a leader afterwards, and another one when that is lost.
#[test]
fn votes_for_a_server_that_looks() {
    let line = |_, id, quorum, election| format!("server.{id}=127.0.0.1:{quorum}:{election}");
    let mut ensemble = addresses::prepare(4, "initLimit=20", &line);
    ensemble.run(0);
    let mut stream = introduce(&ensemble, 0, ABSENT);
    for vote in votes() {
        send(&mut stream, &framed(&vote));
    }
    // The last one has a round of the past, which is answered; a pause says that all were heard.
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut answers = 0;
    while stream.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
        answers += 1;
        assert!(answers < 100_000, "votes are answered without end");
    }
    assert!(answers > 0, "nothing was answered\n{}", ensemble.logs());
    // Three of four must agree; the fourth stays connected and is silent from now on.
    ensemble.run(1);
    ensemble.run(2);
    let leader = ensemble.await_leader(3);
    ensemble.kill(leader);
    ensemble.run(leader);
    ensemble.await_leader(3);
    assert!(!ensemble.logs().contains("panicked"), "{}", ensemble.logs());
    drop(stream);
}
