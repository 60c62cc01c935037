//! Requests that wait for the disk: their bytes have a limit, beyond which clients wait in their sockets.

mod common;
#[path = "common/preloaded.rs"]
mod preloaded;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use zebu_proto::OpCode;
use zebu_testing::{RawClient, ServerProcess};

/// More than a busy machine needs.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const CLIENTS: usize = 30;
const WRITES_PER_CLIENT: usize = 12;
const VALUE_BYTES: usize = 1_000_000;

/// `largeRequestMaxBytes` of the server.
const LIMIT_BYTES: usize = 10 << 20;

/// Memory that the server may need beyond what it had, in KiB: several copies of the accepted requests, and
/// for each connection the request that it receives. All requests together are 360 MB.
const GROWTH_KIB: u64 = ((LIMIT_BYTES * 6 + CLIENTS * VALUE_BYTES * 3) / 1024) as u64;

/// A server whose syncs of the disk take as many milliseconds as the file says.
fn slow_server() -> Option<(ServerProcess, std::path::PathBuf, tempfile::TempDir)> {
    let home = tempfile::tempdir().expect("a directory");
    let library = preloaded::build("slow_sync.c", home.path())?;
    let delay = home.path().join("delay");
    let mut server = server()
        .property("zookeeper.largeRequestMaxBytes", LIMIT_BYTES.to_string())
        .start()
        .expect("a server");
    server.stop().expect("it stops");
    let launch = zebu_testing::Launch {
        program: "env".into(),
        before: vec![
            format!("LD_PRELOAD={}", library.display()).into(),
            format!("ZEBU_SLOW_SYNC={}", delay.display()).into(),
            env!("CARGO_BIN_EXE_zebu").into(),
            "serve".into(),
        ],
        after: Vec::new(),
    };
    server.set_launch(launch);
    server.start().expect("it starts again");
    Some((server, delay, home))
}

/// Waits until the memory of the server has not grown for two seconds.
fn await_standstill(server: &ServerProcess) {
    let deadline = Instant::now() + TIME_LIMIT;
    let (mut largest, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_secs(2) && Instant::now() < deadline {
        let resident = resident_kib(server);
        if resident > largest + 1024 {
            (largest, since) = (resident, Instant::now());
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn large_writes_on_a_slow_disk_wait_in_their_sockets() {
    let Some((server, delay, _home)) = slow_server() else { return };
    let clients: Vec<RawClient> = (0..CLIENTS)
        .map(|number| {
            let (mut client, _) = open(&server);
            client.set_patience(TIME_LIMIT);
            create(&mut client, &format!("/large{number}"), b"");
            client
        })
        .collect();
    let (mut small, _) = open(&server);
    small.set_patience(TIME_LIMIT);
    create(&mut small, "/small", b"");
    let before = resident_kib(&server);
    fs::write(&delay, "3000").expect("the delay is written");
    thread::scope(|scope| {
        let writing: Vec<_> = clients
            .into_iter()
            .enumerate()
            .map(|(number, mut client)| {
                scope.spawn(move || {
                    let data = vec![b'x'; VALUE_BYTES];
                    for _ in 0..WRITES_PER_CLIENT {
                        client.queue(OpCode::SetData, set_data_body(&format!("/large{number}"), &data, -1));
                    }
                    client.flush().expect("the connection stays open");
                    client.receive_messages(WRITES_PER_CLIENT).expect("every write is answered").len()
                })
            })
            .collect();
        await_standstill(&server);
        // Requests that are small do not wait for the bytes of others.
        done(&mut small, OpCode::SetData, set_data_body("/small", b"1", -1));
        let resident = resident_kib(&server);
        fs::write(&delay, "0").expect("the delay is written");
        for client in writing {
            assert_eq!(client.join().expect("a client"), WRITES_PER_CLIENT);
        }
        assert!(
            resident < before + GROWTH_KIB,
            "from {before} to {resident} KiB, {GROWTH_KIB} KiB are allowed"
        );
    });
}
