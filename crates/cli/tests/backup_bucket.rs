//! `zebu backup` with a bucket: every command, a kill of the process, a second process, and a store that
//! loses connections.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;
#[path = "../../backup/tests/s3_store/mod.rs"]
mod s3_store;

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use s3_store::S3Store;
use serde_json::Value;
use zebu_client::Client;

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");
const PLACE: &str = "s3://bucket/ensemble";

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bucket and an ensemble that is backed up there.
struct Bucket {
    store: S3Store,
    servers: String,
}

impl Bucket {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(ZEBU);
        command.arg("backup").args(words).args(["--s3-endpoint", &self.store.endpoint(), "--s3-allow-http"]);
        command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    }

    fn run(&self, log: &fs::File) -> Killed {
        let words =
            ["run", "--servers", &self.servers, "--every", "200ms", "--tick-time", "500", "--to", PLACE];
        let mut command = self.command(&words);
        Killed(command.stdout(Stdio::null()).stderr(log.try_clone().unwrap()).spawn().unwrap())
    }

    fn output(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn succeed(&self, words: &[&str]) -> String {
        let output = self.output(words);
        let (text, error) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{words:?}: {text}{error}");
        text
    }

    fn end(&self) -> Option<i64> {
        let output = self.output(&["list", "--json", PLACE]);
        let list: Value = serde_json::from_slice(&output.stdout).ok()?;
        let end = list["chains"].as_array()?.last()?["end_zxid"].as_str()?.to_owned();
        i64::from_str_radix(end.trim_start_matches("0x"), 16).ok()
    }

    fn await_stored(&self, zxid: i64) {
        let deadline = Instant::now() + TIME_LIMIT;
        while self.end().is_none_or(|end| end < zxid) {
            assert!(Instant::now() < deadline, "{zxid:#x} is not stored");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn every_command_works_with_a_bucket() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    let servers = ensemble.clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let bucket = Bucket { store: S3Store::start(), servers };
    let log = fs::File::create(ensemble.home.path().join("backup.log")).unwrap();
    let first = bucket.run(&log);
    bucket.await_stored(0);
    let (mut created, mut last) = (0, 0);
    block_on(async {
        let client = Client::connect(&bucket.servers).await.unwrap();
        client.create("/app").data("settings").await.unwrap();
        created = client.exists("/app").await.unwrap().unwrap().czxid;
        last = client.set("/app", "later").await.unwrap().mzxid;
        bucket.await_stored(last);
        // The process dies, and the store is bad when the next one comes.
        drop(first);
        bucket.store.set(|faults| (faults.lost_requests, faults.busy, faults.lost_answers) = (2, 1, 1));
        last = client.set("/app", "latest").await.unwrap().mzxid;
    });
    let second = bucket.run(&log);
    bucket.await_stored(last);

    // One more process writes to the same place: one of both stops, and the backup stays whole.
    let list = text(&bucket.output(&["list", "--json", PLACE]).stdout);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["chains"].as_array().unwrap().len(), 1, "{list:#}");
    let third = bucket.run(&log);
    let mut both = [second, third];
    let deadline = Instant::now() + TIME_LIMIT;
    let ended = loop {
        block_on(async {
            let client = Client::connect(&bucket.servers).await.unwrap();
            last = client.set("/app", "again").await.unwrap().mzxid;
        });
        if let Some(status) = both.iter_mut().find_map(|process| process.0.try_wait().unwrap()) {
            break status;
        }
        assert!(Instant::now() < deadline, "two processes write to one place");
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_eq!(ended.code(), Some(2));
    let said = fs::read_to_string(ensemble.home.path().join("backup.log")).unwrap();
    assert!(said.contains("run one process per target"), "{said}");
    bucket.await_stored(last);
    drop(both);

    assert!(bucket.succeed(&["verify", PLACE]).contains("proven"));
    let history = bucket.succeed(&["history", PLACE, "/app"]);
    assert!(history.contains("created") && history.contains("set version"), "{history}");
    let first = format!("{created:#x}");
    let diff = bucket.output(&["diff", PLACE, &first, "latest", "--path", "/app"]);
    assert_eq!((diff.status.code(), text(&diff.stdout).as_str()), (Some(1), "~ /app data\n"));
    let out = ensemble.home.path().join("restored");
    bucket.succeed(&["restore", PLACE, "--to-zxid", &first, "--out", out.to_str().unwrap()]);
    assert!(out.join("version-2").is_dir());
    bucket.succeed(&["apply", PLACE, "--path", "/app", "--to-zxid", &first, "--into", &bucket.servers]);
    block_on(async {
        let client = Client::connect(&bucket.servers).await.unwrap();
        assert_eq!(client.get("/app").await.unwrap().data.as_ref(), b"settings");
    });
}

#[test]
fn errors_of_buckets_say_what_to_do() {
    let bucket = Bucket { store: S3Store::start(), servers: "127.0.0.1:1".to_owned() };
    let error = |output: Output| {
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    let empty = error(bucket.output(&["list", PLACE]));
    assert!(empty.contains("s3://bucket/ensemble has no backup"), "{empty}");
    let plain = Command::new(ZEBU)
        .args(["backup", "list", PLACE, "--s3-endpoint", &bucket.store.endpoint()])
        .env("AWS_ACCESS_KEY_ID", "key")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .output();
    let plain = error(plain.unwrap());
    assert!(plain.contains("--s3-allow-http"), "{plain}");
    let keys = error(bucket.command(&["list", PLACE]).env_remove("AWS_ACCESS_KEY_ID").output().unwrap());
    assert!(keys.contains("AWS_ACCESS_KEY_ID"), "{keys}");
    bucket.store.set(|faults| faults.forbidden = true);
    let refused = error(bucket.output(&["run", "--servers", &bucket.servers, "--to", PLACE]));
    assert!(refused.contains("refused the credentials"), "{refused}");
}
