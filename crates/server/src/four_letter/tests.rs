//! The full text of every reply.

use zebu_node::ServingMode;
use zebu_proto::{OpCode, SessionId, Zxid};

use super::connection::{write_connection, write_stat_head, write_stat_tail};
use super::dump::{write_connections_of_sessions, write_ephemerals, write_sessions};
use super::version::full_version;
use super::*;

fn server() -> ServerReport {
    ServerReport {
        latency: SummaryReport { min: 0, max: 12, count: 7, sum: 3 },
        received: 113,
        sent: 112,
        connections: 2,
        outstanding: 0,
        zxid: Zxid::new(1, 4),
        mode: ServingMode::Standalone,
        node_count: 7,
        proposals: None,
    }
}

fn session() -> SessionReport {
    SessionReport {
        id: SessionId(0x0100_00a1_b2c3_0001),
        last_operation: Some(OpCode::GetData),
        established_ms: 1_784_300_000_123,
        timeout_ms: 30_000,
        last_xid: 5,
        last_zxid: Zxid::new(1, 4),
        last_response_ms: 8_123_456,
        last_latency_ms: 0,
        min_latency_ms: 0,
        average_latency_ms: 0,
        max_latency_ms: 3,
    }
}

fn connection() -> ConnectionReport {
    ConnectionReport {
        remote: "10.0.0.7:51422".parse().unwrap(),
        is_serving: true,
        interest: SocketInterest::Read,
        queued: 0,
        received: 8,
        sent: 8,
        session: Some(session()),
    }
}

#[test]
fn recognition() {
    for word in FourLetterWord::ALL {
        let bytes: [u8; 4] = word.name().as_bytes().try_into().unwrap();
        assert_eq!(FourLetterWord::from_bytes(bytes), Some(word));
        assert_eq!(FourLetterWord::from_name(word.name()), Some(word));
    }
    assert_eq!(FourLetterWord::from_bytes([0xff, 0xf4, 0xff, 0xfd]), Some(FourLetterWord::TelnetClose));
    for unknown in [b"abcd", b"RUOK", b"kill", b"reqs", b"lead", b"GET ", &[0, 0, 0, 45]] {
        assert_eq!(FourLetterWord::from_bytes(*unknown), None);
    }
    assert_eq!((FourLetterWord::Stmk.argument_length(), FourLetterWord::Ruok.argument_length()), (8, 0));
}

#[test]
fn version_is_parseable() {
    let text = full_version();
    assert!(text.starts_with(concat!("3.9.5-zebu-", env!("CARGO_PKG_VERSION"), ", built on ")), "{text}");
    // The project is younger than this; 1970 would mean that the build had no date.
    let year = text.split("built on ").nth(1).and_then(|date| date.get(..4)).unwrap();
    assert!(text.ends_with(" UTC") && year.parse::<u16>().unwrap() >= 2025, "{text}");
}

#[test]
fn srvr() {
    let expected = format!(
        "Zookeeper version: {}\nLatency min/avg/max: 0/0.4286/12\nReceived: 113\nSent: 112\nConnections: 2\n\
         Outstanding: 0\nZxid: 0x100000004\nMode: standalone\nNode count: 7\n",
        full_version()
    );
    assert_eq!(render(&FourLetterReport::Server(server())), expected);
    let idle = ServerReport { latency: SummaryReport::default(), zxid: Zxid(0), ..server() };
    assert!(render(&FourLetterReport::Server(idle)).contains("\nLatency min/avg/max: 0/0.0/0\n"));
}

#[test]
fn srvr_of_a_read_only_server() {
    let text = render(&FourLetterReport::Server(ServerReport { mode: ServingMode::ReadOnly, ..server() }));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[1], "READ-ONLY mode; serving only read-only clients");
    assert_eq!(lines[8], "Mode: read-only");
}

#[test]
fn stat() {
    let busy = ConnectionReport { interest: SocketInterest::ReadAndWrite, session: None, ..connection() };
    let expected = format!(
        "Zookeeper version: {}\nClients:\n /10.0.0.7:51422[1](queued=0,recved=8,sent=8)\n \
         /10.0.0.7:51422[5](queued=0,recved=8,sent=8)\n\nLatency min/avg/max: 0/0.4286/12\nReceived: 113\n\
         Sent: 112\nConnections: 2\nOutstanding: 0\nZxid: 0x100000004\nMode: standalone\nNode count: 7\n",
        full_version()
    );
    let mut text = String::new();
    write_stat_head(&mut text, &server());
    for connection in [connection(), busy] {
        write_connection(&mut text, &connection, ConnectionDetail::Brief);
    }
    write_stat_tail(&mut text, &server());
    assert_eq!(text, expected);
}

#[test]
fn cons() {
    let young = ConnectionReport {
        remote: "[::1]:9".parse().unwrap(),
        interest: SocketInterest::Nothing,
        session: None,
        ..connection()
    };
    let reset = ConnectionReport {
        interest: SocketInterest::Write,
        session: Some(SessionReport { last_operation: None, last_xid: -1, last_zxid: Zxid(-1), ..session() }),
        ..connection()
    };
    let expected = " /10.0.0.7:51422[1](queued=0,recved=8,sent=8,sid=0x10000a1b2c30001,lop=GETD,\
         est=1784300000123,to=30000,lcxid=0x5,lzxid=0x100000004,lresp=8123456,\
         llat=0,minlat=0,avglat=0,maxlat=3)\n \
         /[0:0:0:0:0:0:0:1]:9[0](queued=0,recved=8,sent=8)\n \
         /10.0.0.7:51422[4](queued=0,recved=8,sent=8,sid=0x10000a1b2c30001,lop=NA,est=1784300000123,to=30000,\
         lzxid=0xffffffffffffffff,lresp=8123456,llat=0,minlat=0,avglat=0,maxlat=3)\n";
    let mut text = String::new();
    for connection in [connection(), young, reset] {
        write_connection(&mut text, &connection, ConnectionDetail::Full);
    }
    assert_eq!(text, expected);
}

#[test]
fn conf() {
    let settings = SettingsReport {
        client_port: Some(2181),
        secure_client_port: None,
        data_dir: "/data/version-2".to_owned(),
        data_dir_size: 67_108_880,
        data_log_dir: "/log/version-2".to_owned(),
        data_log_size: 5,
        tick_time_ms: 2000,
        max_client_connections: 0,
        min_session_timeout_ms: 4000,
        max_session_timeout_ms: 40_000,
        backlog: None,
        server_id: 0,
        ensemble: None,
    };
    let standalone = "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=67108880\n\
         dataLogDir=/log/version-2\ndataLogSize=5\ntickTime=2000\nmaxClientCnxns=0\nminSessionTimeout=4000\n\
         maxSessionTimeout=40000\nclientPortListenBacklog=-1\nserverId=0\n";
    assert_eq!(render(&FourLetterReport::Settings(settings.clone())), standalone);
    let member = EnsembleSettings {
        init_limit: 20,
        sync_limit: 10,
        election_port: 3888,
        quorum_port: 2888,
        is_observer: true,
        config: Some("server.1=zk1:2888:3888:observer\nversion=0".to_owned()),
    };
    let own = format!(
        "{standalone}initLimit=20\nsyncLimit=10\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\n\
         peerType=1\n"
    );
    let shown = |member| {
        render(&FourLetterReport::Settings(SettingsReport { ensemble: Some(member), ..settings.clone() }))
    };
    assert_eq!(shown(EnsembleSettings { config: None, ..member.clone() }), own, "a read-only server");
    assert_eq!(shown(member), format!("{own}membership: \nserver.1=zk1:2888:3888:observer\nversion=0"));
}

#[test]
fn a_leader_shows_its_proposals_and_what_it_does() {
    let proposals = Some(ProposalSizes { last: 48, min: 16, max: 1024 });
    let text =
        render(&FourLetterReport::Server(ServerReport { mode: ServingMode::Leader, proposals, ..server() }));
    assert!(
        text.ends_with("\nMode: leader\nNode count: 7\nProposal sizes last/min/max: 48/16/1024\n"),
        "{text}"
    );
}

#[test]
fn dirs() {
    let sizes = DirectorySizes { data: 1, log: 67_108_880 };
    assert_eq!(render(&FourLetterReport::Directories(sizes)), "datadir_size: 1\nlogdir_size: 67108880\n");
}

#[test]
fn envi() {
    let machine = EnvironmentReport {
        host_name: Some("zk1".to_owned()),
        os_name: Some("Linux".to_owned()),
        memory_free_mb: Some(7),
        ..EnvironmentReport::default()
    };
    let expected = format!(
        "Environment:\nzookeeper.version={}\nhost.name=zk1\njava.version=<NA>\njava.vendor=<NA>\n\
         java.home=<NA>\njava.class.path=<NA>\njava.library.path=<NA>\njava.io.tmpdir=<NA>\n\
         java.compiler=<NA>\nos.name=Linux\nos.arch=<NA>\nos.version=<NA>\nuser.name=<NA>\nuser.home=<NA>\n\
         user.dir=<NA>\njvm.memory.free=7MB\njvm.memory.max=<NA>\njvm.memory.total=<NA>\n",
        full_version()
    );
    assert_eq!(render(&FourLetterReport::Environment(machine)), expected);
}

/// All pieces of `dump`.
fn rendered(dump: &SessionDump, ephemerals: &[(SessionId, &[Box<str>])]) -> String {
    let mut text = String::new();
    write_sessions(&mut text, dump);
    for (session, paths) in ephemerals {
        write_ephemerals(&mut text, *session, paths);
    }
    write_connections_of_sessions(&mut text, dump);
    text
}

#[test]
fn dump() {
    let bucket = |expires_at_ms, ids: &[i64]| ExpiryBucket {
        expires_at_ms,
        entries: ids.iter().map(|&id| SessionId(id)).collect(),
    };
    let first = 0x0100_00a1_b2c3_0001;
    let dump = SessionDump {
        local: None,
        sessions: GlobalSessions::ByExpiry(vec![
            bucket(1_784_314_526_000, &[first]),
            bucket(1_784_314_530_000, &[first + 1, 2]),
        ]),
        sessions_with_ephemerals: 1,
        connections: vec![ExpiryBucket {
            expires_at_ms: 1_784_314_530_000,
            entries: vec![DumpedConnection {
                remote: "10.0.0.7:51422".parse().unwrap(),
                session: SessionId(first),
            }],
        }],
    };
    assert_eq!(
        rendered(&dump, &[(SessionId(first), &["/app/member-0000000001".into()])]),
        "SessionTracker dump:\nSession Sets (2)/(3):\n1 expire at Fri Jul 17 18:55:26 UTC 2026:\n\
         \t0x10000a1b2c30001\n2 expire at Fri Jul 17 18:55:30 UTC 2026:\n\t0x10000a1b2c30002\n\t0x2\n\
         ephemeral nodes dump:\nSessions with Ephemerals (1):\n0x10000a1b2c30001:\n\t/app/member-0000000001\n\
         Connections dump:\nConnections Sets (1)/(1):\n1 expire at Fri Jul 17 18:55:30 UTC 2026:\n\
         \tip: /10.0.0.7:51422 sessionId: 0x10000a1b2c30001\n"
    );
    assert_eq!(
        rendered(&SessionDump::default(), &[]),
        "SessionTracker dump:\nSession Sets (0)/(0):\nephemeral nodes dump:\nSessions with Ephemerals (0):\n\
         Connections dump:\nConnections Sets (0)/(0):\n"
    );
}

#[test]
fn dump_of_members_with_local_sessions() {
    let bucket = |ids: &[i64]| ExpiryBucket {
        expires_at_ms: 1_784_314_526_000,
        entries: ids.iter().map(|&id| SessionId(id)).collect(),
    };
    let sessions_of = |dump: SessionDump| {
        let text = rendered(&dump, &[]);
        text.split("ephemeral nodes dump:").next().unwrap().to_owned()
    };
    let leader = SessionDump {
        local: Some(vec![bucket(&[0x1, 0xa])]),
        sessions: GlobalSessions::ByExpiry(vec![bucket(&[0x2])]),
        ..SessionDump::default()
    };
    assert_eq!(
        sessions_of(leader),
        "SessionTracker dump:\nLocal Session Sets (1)/(2):\n2 expire at Fri Jul 17 18:55:26 UTC 2026:\n\t0x1\n\t0xa\n\
         Global Session Sets (1)/(1):\n1 expire at Fri Jul 17 18:55:26 UTC 2026:\n\t0x2\n"
    );
    let learner = |local| SessionDump {
        local,
        sessions: GlobalSessions::WithTimeouts(vec![(SessionId(2), 4000), (SessionId(0x1f), 30_000)]),
        ..SessionDump::default()
    };
    let global = "Global Sessions(2):\n0x2\t4000ms\n0x1f\t30000ms\n";
    assert_eq!(sessions_of(learner(None)), format!("SessionTracker dump:\n{global}"));
    assert_eq!(
        sessions_of(learner(Some(vec![]))),
        format!("SessionTracker dump:\nLocal Session Sets (0)/(0):\n{global}")
    );
}

#[test]
fn watches() {
    let summary = WatchSummary { connections: 2, paths: 5, watches: 7 };
    assert_eq!(
        render(&FourLetterReport::WatchSummary(summary)),
        "2 connections watching 5 paths\nTotal watches:7\n"
    );
    let mut by_session = String::new();
    watches::write_session(&mut by_session, SessionId(0x1f));
    ["/", "/w"].into_iter().for_each(|path| watches::write_path_of_session(&mut by_session, path));
    assert_eq!(by_session, "0x1f\n\t/\n\t/w\n");
    let mut by_path = String::new();
    watches::write_path(&mut by_path, "/w", [SessionId(1), SessionId(-1)]);
    assert_eq!(by_path, "/w\n\t0x1\n\t0xffffffffffffffff\n");
}

#[test]
fn short_answers() {
    for (report, text) in [
        (FourLetterReport::Alive, "imok"),
        (FourLetterReport::Writable, "rw"),
        (FourLetterReport::Shed { closed: 3, remaining: 9 }, "Connections shed: 3\nConnections left: 9\n"),
        (FourLetterReport::ShedUsage, "shed needs a percentage from 0 to 100, as in: shed 25\n"),
        (FourLetterReport::ReadOnly, "ro"),
        (FourLetterReport::TraceMask(306), "306"),
        (FourLetterReport::ConnectionStatsReset, "Connection stats reset.\n"),
        (FourLetterReport::ServerStatsReset, "Server stats reset.\n"),
        (FourLetterReport::Digests(Vec::new()), ""),
        (FourLetterReport::Digests(vec![(Zxid(128), -5), (Zxid::new(1, 256), 7)]), "80: -5\n100000100: 7\n"),
    ] {
        assert_eq!(render(&report), text);
    }
}

#[test]
fn refusals() {
    assert_eq!(
        render_not_allowed(FourLetterWord::Ruok),
        "ruok is not executed because it is not in the whitelist.\n"
    );
    let text = "This ZooKeeper instance is not currently serving requests";
    for word in FourLetterWord::ALL {
        let expected = match word {
            FourLetterWord::Ruok | FourLetterWord::Gtmk | FourLetterWord::Stmk | FourLetterWord::Envi => None,
            FourLetterWord::Isro => Some("null".to_owned()),
            FourLetterWord::Hash => Some(text.to_owned()),
            _ => Some(format!("{text}\n")),
        };
        assert_eq!(render_not_serving(word), expected, "{}", word.name());
    }
}
