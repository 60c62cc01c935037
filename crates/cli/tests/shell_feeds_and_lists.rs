//! What the shell does with lists that are longer than a packet, and with change feeds.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;
mod shell_common;

use shell_common::{Shell, lines};
use zebu_client::{Client, CreateSpec};

/// Runs on a client of the server.
fn with_client<T>(shell: &Shell, run: impl AsyncFnOnce(Client) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { run(Client::connect(&shell.address()).await.unwrap()).await })
}

#[test]
fn subtrees_with_lists_beyond_a_packet() {
    const NODES: usize = 9000;
    let shell = Shell::start_with("reply.maxbuffer=1048575");
    let name = |number: usize| format!("{}{number:05}", "n".repeat(120));
    with_client(&shell, async |client| {
        client.create("/big").await.unwrap();
        let numbers: Vec<usize> = (0..NODES).collect();
        for batch in numbers.chunks(1000) {
            let mut transaction = client.transaction();
            for &number in batch {
                transaction.create(&format!("/big/{}", name(number)), CreateSpec::new());
            }
            transaction.await.unwrap();
        }
        client.create(&format!("/big/{}/below", name(7))).data("x").await.unwrap();
    });
    assert_eq!(shell.run(&["ls", "/big"]).status, 1, "the list is beyond a packet");
    let all = shell.run(&["ls", "-R", "/big"]);
    all.expect_done();
    let listed = lines(&all.out);
    assert_eq!((listed.len(), listed[0], listed[1]), (NODES + 2, "/big", &*format!("/big/{}", name(0))));
    let found = shell.run(&["find", "/big", "-name", "below"]);
    assert_eq!(lines(&found.out), [format!("/big/{}/below", name(7))]);
    assert!(shell.run(&["tree", "/big"]).out.contains("below"));
    shell.run(&["export", "/big", "big.json"]).expect_done();
    assert!(std::fs::read_to_string(shell.path("big.json")).unwrap().contains(&name(NODES - 1)));
    shell.run(&["deleteall", "/big", "-b", "1000"]).expect_done();
    assert_eq!(shell.run(&["ls", "/big"]).status, 1);
}

#[test]
fn what_was_committed_behind_a_zxid() {
    let shell = Shell::start_with("feed.readers=world:anyone");
    let before = with_client(&shell, async |client| {
        client.create("/app").await.unwrap();
        let before = client.create("/app/a").await.unwrap().stat.czxid;
        client.create("/other").await.unwrap();
        client.set("/app/a", "1").await.unwrap();
        client.delete("/app/a").await.unwrap();
        before
    });
    let from = format!("{before:#x}");
    let said = shell.run(&["watch", "-c", "2", "--from", &from, "/app"]);
    said.expect_done();
    let events: Vec<&str> = lines(&said.out).iter().map(|line| line.split_once(' ').unwrap().1).collect();
    let zxid = |after: i64| format!("{:#x}", before + after);
    assert_eq!(
        events,
        [format!("NodeDataChanged /app/a {}", zxid(2)), format!("NodeDeleted /app/a {}", zxid(3))]
    );
    // Nothing has happened to the node itself.
    let said = shell.run(&["watch", "-n", "-t", "1", "--from", &from, "/app"]);
    assert_eq!((said.status, said.out.as_str()), (0, ""));
    let refused = shell.run(&["watch", "--from", "soon", "/app"]);
    assert_eq!(refused.error, "--from takes a zxid such as 0x500000012, not \"soon\"\n");
    let closed = Shell::start();
    assert_eq!(closed.run(&["watch", "--from", "0", "/"]).status, 1, "nobody may read the history");
}
