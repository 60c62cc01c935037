//! `zebu backup` with ensembles of real processes. The leader and the backup are killed while a client
//! writes, and every point that the backup claims has exactly the writes up to it.

#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

#[path = "common/ensemble.rs"]
mod processes;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use processes::{Ensemble, TIME_LIMIT, block_on};
use serde_json::Value;
use tempfile::TempDir;
use zebu_client::Client;
use zebu_testing::port;

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");

/// A backup process, which ends with the test.
struct Backup {
    child: Child,
    log: PathBuf,
}

impl Backup {
    fn start(ensemble: &Ensemble, place: &Path, more: &[&str]) -> Backup {
        let log = ensemble
            .home
            .path()
            .join(format!("backup{}", fs::read_dir(ensemble.home.path()).unwrap().count()));
        let child = Command::new(ZEBU)
            .args([
                "backup",
                "run",
                "--servers",
                &servers(ensemble),
                "--every",
                "200ms",
                "--tick-time",
                "500",
                "--to",
            ])
            .arg(place)
            .args(more)
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Backup { child, log }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends the process as systemd does; it must have stored everything.
    fn stop(mut self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Waits for the end of a process that cannot go on, and returns what it said.
    fn failure(mut self) -> String {
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(2), "{}", self.log());
        self.log()
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the backup has a transaction.
    fn await_stored(&self, place: &Path, zxid: i64) {
        let deadline = Instant::now() + TIME_LIMIT;
        while end_of(place).is_none_or(|end| end < zxid) {
            assert!(Instant::now() < deadline, "{zxid:#x} is not stored: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn servers(ensemble: &Ensemble) -> String {
    ensemble.clients.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn zebu(words: &[&str], place: &Path, more: &[&str]) -> Output {
    Command::new(ZEBU).arg("backup").args(words).arg(place).args(more).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a tool of the backup that must succeed.
fn succeed(words: &[&str], place: &Path, more: &[&str]) -> String {
    let output = zebu(words, place, more);
    assert!(output.status.success(), "{words:?} {more:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

fn list(place: &Path) -> Option<Value> {
    let output = zebu(&["list", "--json"], place, &[]);
    output.status.success().then(|| serde_json::from_slice(&output.stdout).unwrap())
}

fn end_of(place: &Path) -> Option<i64> {
    let list = list(place)?;
    let end = list["chains"].as_array()?.last()?["end_zxid"].as_str()?.to_owned();
    i64::from_str_radix(end.trim_start_matches("0x"), 16).ok()
}

/// Creates nodes one after the other, and returns the zxid and the path of each whose reply came.
async fn write(client: &Client, from: usize, to: usize) -> Vec<(i64, String)> {
    let mut written = Vec::new();
    let deadline = Instant::now() + TIME_LIMIT;
    for number in from..to {
        let path = format!("/w/{number}");
        loop {
            match client.create(&path).data(number.to_string()).await {
                Ok(created) => {
                    let stat = client.exists(&created.path).await;
                    if let Ok(Some(stat)) = stat {
                        written.push((stat.czxid, path));
                    }
                    break;
                }
                // It may have been created by an attempt without a reply.
                Err(error) if error.code() == Some(zebu_client::ErrorCode::NodeExists) => break,
                Err(error) => {
                    assert!(Instant::now() < deadline, "{error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
    written
}

/// A standalone server on a restored directory.
struct Restored {
    _home: TempDir,
    child: Child,
    address: String,
}

impl Restored {
    fn start(place: &Path, zxid: i64, more: &[&str]) -> Restored {
        let home = TempDir::new().unwrap();
        let data = home.path().join("data");
        let zxid = format!("{zxid:#x}");
        let mut words = vec!["--to-zxid", &zxid, "--out", data.to_str().unwrap()];
        words.extend(more);
        succeed(&["restore"], place, &words);
        let address = port::free_address().unwrap();
        let config = home.path().join("zoo.cfg");
        let text = format!(
            "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display(),
            address.port()
        );
        fs::write(&config, text).unwrap();
        let child = Command::new(ZEBU).arg("serve").arg(&config).stderr(Stdio::null()).spawn().unwrap();
        Restored { _home: home, child, address: address.to_string() }
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kills_of_leader_and_backup_leave_no_hole() {
    let mut ensemble = Ensemble::start(3);
    let leader = ensemble.await_leader(3);
    let place = ensemble.home.path().join("backup");
    let mut written = Vec::new();
    block_on(async {
        let client = Client::connect(&servers(&ensemble)).await.unwrap();
        client.create("/w").await.unwrap();
        client.create("/lock").ephemeral().await.unwrap();
        written.extend(write(&client, 0, 5).await);
        let backup = Backup::start(&ensemble, &place, &[]);
        backup.await_stored(&place, written.last().unwrap().0);
        written.extend(write(&client, 5, 20).await);
        ensemble.kill(leader);
        written.extend(write(&client, 20, 40).await);
        backup.await_stored(&place, written.last().unwrap().0);
        ensemble.run(leader);
        backup.kill();
        written.extend(write(&client, 40, 60).await);
        let backup = Backup::start(&ensemble, &place, &["--base-log", "1K"]);
        written.extend(write(&client, 60, 80).await);
        backup.await_stored(&place, written.last().unwrap().0);
        backup.stop();
    });
    assert!(written.len() > 60, "only {} writes were confirmed", written.len());
    let list = list(&place).unwrap();
    let chains = list["chains"].as_array().unwrap();
    assert_eq!(chains.len(), 1, "{list:#}");
    assert!(chains[0]["bases"].as_array().unwrap().len() > 1, "{list:#}");
    let proof = succeed(&["verify"], &place, &[]);
    assert!(proof.contains("reaches base"), "{proof}");

    let epoch = list["highest_epoch"].as_i64().unwrap();
    let count = written.len();
    for index in [5, count / 3, count / 2, count - 1] {
        let (zxid, _) = written[index];
        let restored = Restored::start(&place, zxid, &[]);
        block_on(async {
            let client = Client::connect(&restored.address).await.unwrap();
            for (czxid, path) in &written {
                let exists = client.exists(path).await.unwrap();
                assert_eq!(exists.is_some(), *czxid <= zxid, "{path} at {zxid:#x}");
            }
            // The lock's session is not part of the new ensemble.
            assert_eq!(client.exists("/lock").await.unwrap(), None);
            let stat = client.create("/new").await.unwrap();
            let new = client.exists(&stat.path).await.unwrap().unwrap();
            assert!(new.czxid >> 32 > epoch, "{:#x}", new.czxid);
        });
    }
    // The old members were in later epochs than the backup has seen.
    let restored = Restored::start(&place, written[10].0, &["--min-epoch", "100"]);
    block_on(async {
        let client = Client::connect(&restored.address).await.unwrap();
        client.create("/new").await.unwrap();
        let stat = client.exists("/new").await.unwrap().unwrap();
        assert!(stat.czxid >> 32 >= 100, "{:#x}", stat.czxid);
    });
    let restored = Restored::start(&place, written[10].0, &["--keep-sessions"]);
    block_on(async {
        let client = Client::connect(&restored.address).await.unwrap();
        assert!(client.exists("/lock").await.unwrap().is_some());
    });
}

#[test]
fn the_tools_on_a_running_backup() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    let place = ensemble.home.path().join("backup");
    let backup = Backup::start(&ensemble, &place, &[]);
    backup.await_stored(&place, 0);
    let (mut first, mut last) = (0, 0);
    block_on(async {
        let client = Client::connect(&servers(&ensemble)).await.unwrap();
        client.create("/app").data("settings").await.unwrap();
        client.create("/app/a").data("1").await.unwrap();
        first = client.set("/app/a", "2").await.unwrap().mzxid;
        client.create("/app/extra").await.unwrap();
        client.set("/app", "broken").await.unwrap();
        client.delete("/app/a").await.unwrap();
        last = client.set("/app/extra", "x").await.unwrap().mzxid;
    });
    backup.await_stored(&place, last);
    let first = format!("{first:#x}");

    // A second process on the same directory.
    let second = Command::new(ZEBU)
        .args(["backup", "run", "--servers", &servers(&ensemble), "--to"])
        .arg(&place)
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(stderr(&second).contains("in use by another backup process"), "{}", stderr(&second));

    let history = succeed(&["history", "--json"], &place, &["/app/a"]);
    let changes: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown: Vec<_> =
        changes.iter().map(|row| (row["change"].as_str().unwrap(), row["data"].as_str())).collect();
    assert_eq!(shown, [("created", Some("1")), ("set", Some("2")), ("deleted", None)]);
    assert_eq!(changes[1]["zxid"], first.as_str());
    assert_eq!(zebu(&["history"], &place, &["/never"]).status.code(), Some(1));

    let diff = zebu(&["diff"], &place, &[&first, "latest", "--path", "/app"]);
    assert_eq!(
        (diff.status.code(), stdout(&diff).as_str()),
        (Some(1), "~ /app data\n- /app/a\n+ /app/extra\n")
    );
    assert_eq!(zebu(&["diff"], &place, &[&first, &first]).status.code(), Some(0));

    let into = servers(&ensemble);
    let plan = ["--path", "/app", "--to-zxid", &first, "--into", &into, "--delete"];
    let dry = zebu(&["apply", "--dry-run"], &place, &plan);
    assert_eq!(dry.status.code(), Some(1), "{}", stderr(&dry));
    assert!(
        stdout(&dry).starts_with("+ /app/a 1 byte\n~ /app 8 bytes, if version 1\n- /app/extra"),
        "{}",
        stdout(&dry)
    );
    succeed(&["apply"], &place, &plan);
    block_on(async {
        let client = Client::connect(&into).await.unwrap();
        assert_eq!(client.get("/app").await.unwrap().data.as_ref(), b"settings");
        assert_eq!(client.get("/app/a").await.unwrap().data.as_ref(), b"2");
        assert_eq!(client.exists("/app/extra").await.unwrap(), None);
    });
    assert_eq!(zebu(&["apply", "--dry-run"], &place, &plan).status.code(), Some(0));
    backup.stop();

    // Points that the backup does not have, and a directory with data.
    let out = ensemble.home.path().join("out");
    let out = out.to_str().unwrap();
    let late = zebu(&["restore"], &place, &["--to-zxid", "0x7f00000000", "--out", out]);
    assert_eq!(late.status.code(), Some(2));
    assert!(stderr(&late).contains("the backup ends earlier"), "{}", stderr(&late));
    let early = zebu(&["restore"], &place, &["--to-time", "2001-01-01T00:00:00Z", "--out", out]);
    assert!(stderr(&early).contains("the backup begins later"), "{}", stderr(&early));
    succeed(&["restore", "--json"], &place, &["--out", out, "--myid", "7"]);
    let again = zebu(&["restore"], &place, &["--out", out]);
    assert!(stderr(&again).contains("has data of a server"), "{}", stderr(&again));
    assert_eq!(fs::read_to_string(Path::new(out).join("myid")).unwrap(), "7\n");

    // Digests of another tree are refused, unless there is nothing better.
    let manifest = place.join("manifest.json");
    let right = fs::read(&manifest).unwrap();
    let mut other: Value = serde_json::from_slice(&right).unwrap();
    other["bases"][0]["digest"] = Value::from(other["bases"][0]["digest"].as_i64().unwrap() ^ 1);
    fs::write(&manifest, serde_json::to_vec(&other).unwrap()).unwrap();
    let out = ensemble.home.path().join("lenient");
    let out = out.to_str().unwrap();
    let refused = zebu(&["restore"], &place, &["--out", out]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("the digest of the tree is"), "{}", stderr(&refused));
    let written = succeed(&["restore"], &place, &["--out", out, "--ignore-digests"]);
    assert!(written.contains("1 digest of the ensemble"), "{written}");
    fs::write(&manifest, right).unwrap();

    // Damage is found.
    let segment = fs::read_dir(place.join("log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let flaw = zebu(&["verify"], &place, &[]);
    assert_eq!(flaw.status.code(), Some(1));
    assert!(stdout(&flaw).contains("is damaged"), "{}", stdout(&flaw));
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    let flaw = zebu(&["verify"], &place, &[]);
    assert_eq!(flaw.status.code(), Some(1));
    assert!(stdout(&flaw).contains("FLAW manifest.json is damaged"), "{}", stdout(&flaw));
}

#[test]
fn a_whole_ensemble_is_set_back_without_a_restart() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    let place = ensemble.home.path().join("backup");
    let backup = Backup::start(&ensemble, &place, &[]);
    backup.await_stored(&place, 0);
    let into = servers(&ensemble);
    let (mut good, mut last) = (0, 0);
    block_on(async {
        let client = Client::connect(&into).await.unwrap();
        client.create("/a").data("1").await.unwrap();
        client.create("/a/b").data("2").await.unwrap();
        client.create("/a/b/c").null_data().await.unwrap();
        client.create("/other").data("3").await.unwrap();
        good = client.exists("/other").await.unwrap().unwrap().czxid;
        client.set("/a/b/c", "not null").await.unwrap();
        client.set("/other", "broken").await.unwrap();
        client.create("/extra").await.unwrap();
        last = client.exists("/extra").await.unwrap().unwrap().czxid;
    });
    backup.await_stored(&place, last);
    let good = format!("{good:#x}");
    let data = async |client: &Client, path: &str| {
        let node = client.get(path).await.unwrap();
        (!node.is_null).then(|| String::from_utf8(node.data.to_vec()).unwrap())
    };

    // The root needs its own option.
    let root = zebu(&["apply"], &place, &["--path", "/", "--to-zxid", &good, "--into", &into]);
    assert_eq!(root.status.code(), Some(2));
    assert!(stderr(&root).contains("--all"), "{}", stderr(&root));
    let all = ["--all", "--to-zxid", &good, "--into", &into, "--delete"];
    let dry = zebu(&["apply", "--dry-run"], &place, &all);
    assert_eq!(dry.status.code(), Some(1), "{}", stderr(&dry));
    assert!(!stdout(&dry).contains("/zookeeper"), "{}", stdout(&dry));
    succeed(&["apply"], &place, &all);
    block_on(async {
        let client = Client::connect(&into).await.unwrap();
        assert_eq!(data(&client, "/a/b/c").await, None);
        assert_eq!(data(&client, "/other").await.as_deref(), Some("3"));
        assert_eq!(client.exists("/extra").await.unwrap(), None);
        assert!(client.exists("/zookeeper/config").await.unwrap().is_some());
    });
    let again = zebu(&["apply", "--dry-run"], &place, &all);
    assert_eq!((again.status.code(), stdout(&again).lines().count()), (Some(0), 1), "{}", stdout(&again));

    // A subtree whose parents are gone.
    block_on(async {
        let client = Client::connect(&into).await.unwrap();
        for path in ["/a/b/c", "/a/b", "/a"] {
            client.delete(path).await.unwrap();
        }
    });
    succeed(&["apply"], &place, &["--path", "/a/b/c", "--to-zxid", &good, "--into", &into]);
    block_on(async {
        let client = Client::connect(&into).await.unwrap();
        assert_eq!(data(&client, "/a").await.as_deref(), Some("1"));
        assert_eq!(data(&client, "/a/b").await.as_deref(), Some("2"));
        assert_eq!(data(&client, "/a/b/c").await, None);
    });
    backup.stop();
}

#[test]
fn an_encrypted_backup_needs_its_key() {
    let ensemble = Ensemble::start(3);
    ensemble.await_leader(3);
    let home = ensemble.home.path();
    let place = home.join("sealed");
    let key = |name: &str| {
        let path = home.join(name);
        let output = Command::new(ZEBU).args(["backup", "key", "--out"]).arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        (stdout(&output).trim().to_owned(), path.to_str().unwrap().to_owned())
    };
    let ((public, key), (_, other)) = (key("key"), key("other"));
    let first = Backup::start(&ensemble, &place, &["--encrypt-to", &public]);
    let mut last = 0;
    block_on(async {
        let client = Client::connect(&servers(&ensemble)).await.unwrap();
        client.create("/secret-node").data("secret-data").await.unwrap();
        last = client.set("/secret-node", "secret-data-2").await.unwrap().mzxid;
    });
    first.await_stored(&place, last);
    first.kill();
    // A restart continues with the key, and says what it needs without.
    let without = Backup::start(&ensemble, &place, &["--encrypt-to", &public]);
    assert!(without.failure().contains("--identity"));
    let plain = Backup::start(&ensemble, &place, &["--identity", &key]);
    assert!(plain.failure().contains("--encrypt-to"));
    let second = Backup::start(&ensemble, &place, &["--encrypt-to", &public, "--identity", &key]);
    block_on(async {
        let client = Client::connect(&servers(&ensemble)).await.unwrap();
        last = client.set("/secret-node", "secret-data-3").await.unwrap().mzxid;
    });
    second.await_stored(&place, last);
    second.stop();
    assert_eq!(list(&place).unwrap()["chains"].as_array().unwrap().len(), 1);

    let history = succeed(&["history"], &place, &["/secret-node", "--identity", &key]);
    assert!(history.contains("secret-data-2") && history.contains("secret-data-3"), "{history}");
    succeed(&["verify"], &place, &["--identity", &key]);
    let refused = zebu(&["verify"], &place, &[]);
    assert!(stderr(&refused).contains("--identity"), "{}{}", stdout(&refused), stderr(&refused));
    assert_eq!(refused.status.code(), Some(2));
    let refused = zebu(&["history"], &place, &["/secret-node", "--identity", &other]);
    assert!(stderr(&refused).contains("for another key"), "{}", stderr(&refused));
    // No object shows what the nodes have.
    for directory in ["log", "base"] {
        let mut due = vec![place.join(directory)];
        while let Some(path) = due.pop() {
            if path.is_dir() {
                due.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            assert!(path.extension().is_some_and(|end| end == "age"), "{}", path.display());
            let bytes = fs::read(&path).unwrap();
            assert!(!bytes.windows(11).any(|part| part == b"secret-node"), "{}", path.display());
        }
    }
}

#[test]
fn errors_say_what_to_do() {
    let home = TempDir::new().unwrap();
    let nowhere = zebu(&["list"], &home.path().join("missing"), &[]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(stderr(&nowhere).contains("cannot open"), "{}", stderr(&nowhere));
    let empty = zebu(&["verify"], home.path(), &[]);
    assert!(stderr(&empty).contains("has no manifest.json"), "{}", stderr(&empty));
    fs::write(home.path().join("manifest.json"), "{\"format\": 9}").unwrap();
    let later = zebu(&["list"], home.path(), &[]);
    assert!(stderr(&later).contains("use a later release"), "{}", stderr(&later));
    let scheme = zebu(&["list"], Path::new("ftp://host/x"), &[]);
    assert_eq!(scheme.status.code(), Some(2));
    assert!(stderr(&scheme).contains("ftp://"), "{}", stderr(&scheme));
}
