//! The binary from outside: texts and exit statuses. Nothing here depends on a server that serves.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// Runs zebu in a directory, without the environment variables of the caller.
fn zebu(directory: &Path, words: &[&str]) -> Output {
    command(Path::new(env!("CARGO_BIN_EXE_zebu")), directory, words).output().unwrap()
}

fn command(program: &Path, directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(directory).args(words).env_clear().env("USER", "test");
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

fn home(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("zoo.cfg"), config).unwrap();
    home
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A configuration that could be served, and its client port.
fn good() -> (String, u16) {
    let port = zebu_testing::port::free_address().unwrap().port();
    (format!("tickTime=2000\ndataDir=data\ndataLogDir=log\nclientPort={port}\n"), port)
}

#[test]
fn check_of_a_good_file() {
    let (good, port) = good();
    let home = home(&format!("{good}tickTme=3\nautopurge.purgeInterval=1\nadmin.serverPort=9\n"));
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    assert_eq!(
        stdout(&output),
        format!(
            "warning: zoo.cfg:5: tickTme is unknown and has no effect; did you mean tickTime?\n\
             would start a standalone server\n  clients:   *:{port}, plain\n  snapshots: data/version-2\n\
             \x20 log:       log/version-2\n  sessions:  4000 to 40000 ms, tick 2000 ms\n\
             \x20 purge:     every 3600 s, keeping 3 snapshots\n  words:     srvr\n\
             \x20 admin:     127.0.0.1:9/commands, http\n  super:     none\n"
        )
    );
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn check_of_a_bad_file() {
    let home = home("dataDir=/data\nclientPort=x\nrequireClientAuthScheme=sasl\n");
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    assert_eq!(
        stdout(&output),
        "error: zoo.cfg:2: clientPort = \"x\" is not valid; allowed: 0 to 65535 (a TCP port)\n\
         error: zoo.cfg:3: requireClientAuthScheme asks for protection that this version does not have; \
         remove it, or start without protection with -Dzebu.startUnprotected=true\n\
         would not start: exit status 2\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn check_as_json() {
    let home = home("dataDir=/data\nclientPort=x\n");
    let output = zebu(home.path(), &["check", "--json", "zoo.cfg"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let expected = serde_json::json!({
        "starts": false,
        "starts_now": false,
        "fatal": [],
        "busy": [],
        "obstacles": [],
        "remarks": [],
        "errors": [{
            "place": "zoo.cfg:2",
            "text": "clientPort = \"x\" is not valid; allowed: 0 to 65535 (a TCP port)",
        }],
        "warnings": [],
        "notes": [],
        "server": null,
    });
    assert_eq!(value, expected);
    let port = good().1.to_string();
    let good = zebu(home.path(), &["check", "--json", &port, "data"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&good)).unwrap();
    assert_eq!(value["server"]["client_address"], format!("*:{port}"));
    assert_eq!((&value["starts"], &value["starts_now"]), (&true.into(), &true.into()));
    assert_eq!(good.status.code(), Some(0));
}

/// A member of an ensemble on this machine, with its myid.
fn member(line: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("myid"), "1\n").unwrap();
    let port = good().1;
    let text = format!(
        "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\nclientPort={port}\nserver.1=127.0.0.1:1998:1999\n\
         server.2=127.0.0.2:2888:3888\nserver.3=127.0.0.3:2888:3888:observer\nserver.4=127.0.0.4:2888:3888\n{line}\n",
        data.display()
    );
    std::fs::write(home.path().join("zoo.cfg"), text).unwrap();
    home
}

#[test]
fn check_of_a_member_names_what_keeps_it_from_others() {
    let home = member("");
    let good = zebu(home.path(), &["check", "zoo.cfg"]);
    let text = stdout(&good);
    assert!(
        text.starts_with(
            "would start server 1 of an ensemble, as participant\n  members:   3 participants, 1 observers\n"
        ),
        "{text}"
    );
    assert_eq!(good.status.code(), Some(0));

    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port();
    let taken = format!("server.1=127.0.0.1:{number}:1999");
    let output = zebu(member(&taken).path(), &["check", "zoo.cfg"]);
    let text = stdout(&output);
    assert!(text.contains(&format!("busy: the quorum port 127.0.0.1:{number} is in use; stop")), "{text}");
    assert_eq!(output.status.code(), Some(3), "{text}");

    let home = member("closeSessionTxn.enabled=false");
    std::fs::create_dir(home.path().join("data/version-2")).unwrap();
    std::fs::write(home.path().join("data/version-2/acceptedEpoch"), "one").unwrap();
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    let text = stdout(&output);
    assert!(text.contains("obstacle: zoo.cfg:10: closeSessionTxn.enabled=false: transactions"), "{text}");
    assert!(text.contains("/acceptedEpoch does not hold a number"), "{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    let output = zebu(home.path(), &["check", "--json", "zoo.cfg"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(value["obstacles"].as_array().unwrap().len(), 2, "{value}");
    assert_eq!((&value["server"]["mode"], &value["server"]["server_id"]), (&"ensemble".into(), &1.into()));

    std::fs::remove_file(home.path().join("data/myid")).unwrap();
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    assert!(stdout(&output).contains("/myid: myid file is missing"), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(2));
}

/// What `zebu check` says, its status, and the status of `zebu serve` with the same words.
fn check_and_serve(home: &TempDir) -> (String, Option<i32>, Option<i32>) {
    let checked = zebu(home.path(), &["check", "zoo.cfg"]);
    let served = zebu(home.path(), &["serve", "zoo.cfg"]);
    (stdout(&checked), checked.status.code(), served.status.code())
}

#[test]
fn check_tries_the_client_port() {
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = held.local_addr().unwrap().port();
    let config = format!("dataDir=data\nclientPort={port}\nclientPortAddress=127.0.0.1\n");
    let home = home(&config);
    let (text, status, served) = check_and_serve(&home);
    assert!(
        text.starts_with(&format!(
            "busy: the client port 127.0.0.1:{port} is in use; stop the server that this one is to replace before you \
             start it, or choose another port\nwould start a standalone server, once what is busy is free\n"
        )),
        "{text}"
    );
    assert_eq!((status, served), (Some(3), Some(1)));
    let output = zebu(home.path(), &["check", "--json", "zoo.cfg"]);
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&value["starts"], &value["starts_now"]), (&true.into(), &false.into()));
    assert!(!home.path().join("data").exists(), "check changes nothing");

    std::fs::write(home.path().join("zoo.cfg"), config.replace("127.0.0.1", "192.0.2.1")).unwrap();
    let (text, status, served) = check_and_serve(&home);
    let expected = format!(
        "error: clientPortAddress: 192.0.2.1:{port} is no address of this machine; correct or remove it\n\
         would not start: exit status 1\n"
    );
    assert_eq!((text, status, served), (expected, Some(2), Some(1)));
}

#[test]
fn check_reads_the_files_of_the_data_directory() {
    let home = home(&good().0.replace("dataLogDir=log\n", ""));
    let files = home.path().join("data/version-2");
    std::fs::create_dir_all(&files).unwrap();
    std::fs::write(files.join("log.1"), b"no transaction log at all").unwrap();
    std::fs::write(files.join("snapshot.0"), b"no snapshot at all").unwrap();
    let (text, status, served) = check_and_serve(&home);
    assert!(text.starts_with("error: "), "{text}");
    assert!(text.contains("data/version-2/"), "{text}");
    assert!(text.ends_with("would not start: exit status 3\n"), "{text}");
    assert_eq!((status, served), (Some(2), Some(3)), "{text}");
    let names = std::fs::read_dir(&files).unwrap().count();
    assert_eq!(names, 2, "check and a refused start change nothing");

    std::fs::remove_dir_all(&files).unwrap();
    std::fs::write(&files, "").unwrap();
    let (text, status, served) = check_and_serve(&home);
    assert!(text.contains("error: data/version-2 is no directory"), "{text}");
    assert_eq!((status, served), (Some(2), Some(3)), "{text}");
}

#[test]
fn check_beside_a_running_server() {
    let server = zebu_testing::ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).start().unwrap();
    let data = server.data_dir().display().to_string();
    let port = server.address().port();
    let home = home(&format!("dataDir={data}\nclientPort={port}\nclientPortAddress=127.0.0.1\n"));
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    let text = stdout(&output);
    let process = server.id().unwrap();
    let first =
        format!("busy: {data} is in use by process {process}; stop that server before you start this one\n");
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains(&format!("busy: the client port 127.0.0.1:{port} is in use")), "{text}");
    assert_eq!(output.status.code(), Some(3), "{text}");
}

#[test]
fn java_words_are_glued() {
    let home = home(&good().0);
    let words = ["check", "-Dzookeeper.4lw.commands.whitelist=*", "-Djute.maxbuffer=0x10000", "zoo.cfg"];
    let output = zebu(home.path(), &words);
    assert!(
        stdout(&output)
            .ends_with("  words:     *\n  admin:     127.0.0.1:8080/commands, http\n  super:     none\n"),
        "{}",
        stdout(&output)
    );
    let wrong = zebu(home.path(), &["check", "-Djute.maxbuffer=0", "zoo.cfg"]);
    assert_eq!(
        stdout(&wrong),
        "error: command line: jute.maxbuffer = \"0\" is not valid; allowed: 1 to 2147483647 bytes\n\
         would not start: exit status 2\n"
    );
    let mut with_variable =
        command(Path::new(env!("CARGO_BIN_EXE_zebu")), home.path(), &["check", "zoo.cfg"]);
    with_variable.env("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.snapCount=-1");
    assert!(
        stdout(&with_variable.output().unwrap()).starts_with("error: SERVER_JVMFLAGS: snapCount = \"-1\"")
    );
}

#[test]
fn serve_refuses_a_bad_configuration_with_status_2() {
    let home = home("dataDir=/data\nclientPort=x\n");
    let output = zebu(home.path(), &["serve", "zoo.cfg"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("zoo.cfg:2: clientPort = \"x\" is not valid"), "{}", stderr(&output));
    assert!(stderr(&output).ends_with("Invalid config, exiting abnormally\n"));
    assert_eq!(stdout(&output), "");
    assert_eq!(zebu(home.path(), &["serve", "none.cfg"]).status.code(), Some(2));
    assert_eq!(zebu(home.path(), &["serve", "--nonsense"]).status.code(), Some(2));
}

#[test]
fn json_log() {
    let home = home("dataDir=/data\nclientPort=x\n");
    let output = zebu(home.path(), &["serve", "--log-format", "json", "zoo.cfg"]);
    let text = stderr(&output);
    let line: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["level"], "ERROR");
    let message = "zoo.cfg:2: clientPort = \"x\" is not valid; allowed: 0 to 65535 (a TCP port)";
    assert_eq!(line["message"], message);
}

#[test]
fn bad_log_filter() {
    let home = home(&good().0);
    let mut serve = command(Path::new(env!("CARGO_BIN_EXE_zebu")), home.path(), &["serve", "zoo.cfg"]);
    let output = serve.env("ZEBU_LOG", "zebu=loud").output().unwrap();
    assert!(stderr(&output).starts_with("ZEBU_LOG=\"zebu=loud\" is not a log filter"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(2));
}

/// Answers one connection like a server that was asked `srvr`, on a port of the system's choice.
fn answer_once(answer: &'static str) -> (u16, std::thread::JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = Vec::new();
        stream.read_to_end(&mut question).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        question
    });
    (port, thread)
}

#[test]
fn status_of_a_server() {
    let (port, server) =
        answer_once("Zookeeper version: x\nLatency min/avg/max: 0/0.0/0\nMode: standalone\n");
    let home = home(&format!("dataDir=/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"));
    let output = zebu(home.path(), &["status", "./zoo.cfg"]);
    let first = format!("Client port found: {port}. Client address: 127.0.0.1. Client SSL: false.\n");
    assert_eq!(stdout(&output), format!("{first}Mode: standalone\n"));
    assert_eq!(stderr(&output), "Using config: ./zoo.cfg\n");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(server.join().unwrap(), b"srvr");
}

#[test]
fn status_of_a_server_that_does_not_serve() {
    let (port, server) = answer_once("This ZooKeeper instance is not currently serving requests\n");
    let home = home(&format!("dataDir=/data\nclientPort={port}\nclientPortAddress=127.0.0.1\n"));
    let output = zebu(home.path(), &["status", "./zoo.cfg"]);
    server.join().unwrap();
    assert!(stdout(&output).ends_with("Error contacting service. It is probably not running.\n"));
    assert_eq!(output.status.code(), Some(1));
    // The listener is gone now.
    let output = zebu(home.path(), &["status", "./zoo.cfg"]);
    assert!(stdout(&output).ends_with("Error contacting service. It is probably not running.\n"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn status_without_a_port() {
    let home = home("dataDir=/data\n");
    let output = zebu(home.path(), &["status", "./zoo.cfg"]);
    let text = "Unable to find either secure or unsecure client port in any configs. Terminating.\n";
    assert_eq!((stdout(&output).as_str(), output.status.code()), (text, Some(1)));
}

#[test]
fn stop_without_a_server() {
    let home = home("");
    let directory = home.path().display().to_string();
    std::fs::write(home.path().join("zoo.cfg"), format!("dataDir={directory}\nclientPort=wrong\n")).unwrap();
    let output = zebu(home.path(), &["stop", "./zoo.cfg"]);
    let file = format!("{directory}/zookeeper_server.pid");
    assert_eq!(
        stdout(&output),
        format!("Stopping zookeeper ... no zookeeper to stop (could not find file {file})\n")
    );
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn stop_leaves_strangers_alone() {
    let home = home("");
    let directory = home.path().display().to_string();
    std::fs::write(home.path().join("zoo.cfg"), format!("dataDir={directory}\n")).unwrap();
    let mut stranger = Command::new("sleep").arg("60").spawn().unwrap();
    std::fs::write(home.path().join("zookeeper_server.pid"), stranger.id().to_string()).unwrap();
    let output = zebu(home.path(), &["stop", "./zoo.cfg"]);
    let still_runs = stranger.try_wait().unwrap().is_none();
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    assert!(still_runs);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).ends_with("is not a running server but sleep 60)\n"), "{}", stdout(&output));
}

#[test]
fn start_of_a_bad_configuration() {
    let home = home("clientPort=x\n");
    let output = zebu(home.path(), &["start", "./zoo.cfg"]);
    assert_eq!(stdout(&output), "Starting zookeeper ... FAILED TO START\n");
    assert_eq!(
        stderr(&output),
        "Using config: ./zoo.cfg\n\
         ./zoo.cfg:1: clientPort = \"x\" is not valid; allowed: 0 to 65535 (a TCP port)\n\
         ./zoo.cfg: dataDir is not set; it names the directory for snapshots and myid\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn start_with_missing_directories_that_must_exist() {
    let home = home("dataDir=/nowhere-at-all\nclientPort=2181\ndatadir.autocreate=false\n");
    let output = zebu(home.path(), &["start", "./zoo.cfg"]);
    assert_eq!(
        stdout(&output),
        "Starting zookeeper ... ZooKeeper data directory is missing at /nowhere-at-all \
         fix the path or run initialize\n"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn version_and_shell_and_completions() {
    let home = home("");
    let version = stdout(&zebu(home.path(), &["version"]));
    assert!(version.contains("\nApache ZooKeeper, version 3.9.5-zebu-"), "{version}");
    for words in [&["shell", "-server", "a:b", "ls", "/"][..], &["-server", "a:b", "ls", "/"]] {
        let shell = zebu(home.path(), words);
        assert_eq!(shell.status.code(), Some(1));
        assert_eq!(stdout(&shell), "Connecting to a:b\n");
        assert!(stderr(&shell).contains("\"a:b\" in the connection string"), "{}", stderr(&shell));
    }
    let help = stdout(&zebu(home.path(), &["shell", "--help"]));
    assert!(help.contains("-client-configuration FILE") && help.contains("Examples:"), "{help}");
    for name in ["bash", "zsh", "fish"] {
        let script = stdout(&zebu(home.path(), &["completions", name]));
        for word in ["_zebu", "getAllChildrenNumber", "export", "stat"] {
            assert!(script.contains(word), "{name}: {word}");
        }
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin").join(name)
}

/// The scripts beside a link to the binary, as in an installation.
fn installation(config: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    for directory in ["bin", "conf"] {
        std::fs::create_dir(home.path().join(directory)).unwrap();
    }
    for name in ["zkServer.sh", "zkCli.sh"] {
        std::fs::copy(script(name), home.path().join("bin").join(name)).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_zebu"), home.path().join("bin/zebu")).unwrap();
    std::fs::write(home.path().join("conf/zoo.cfg"), config).unwrap();
    home
}

fn run_script(home: &TempDir, name: &str, words: &[&str]) -> Output {
    command(&home.path().join("bin").join(name), home.path(), words).output().unwrap()
}

#[test]
fn scripts_hand_over() {
    let home = installation("clientPort=x\n");
    let config = format!("{}/bin/../conf/zoo.cfg", home.path().display());
    let printed = run_script(&home, "zkServer.sh", &["print-cmd"]);
    assert!(stdout(&printed).ends_with(&format!("\" \"serve\" \"{config}\"\n")), "{}", stdout(&printed));
    assert!(
        stdout(&run_script(&home, "zkServer.sh", &["version"])).contains("Apache ZooKeeper, version 3.9.5")
    );
    let started = run_script(&home, "zkServer.sh", &["start"]);
    assert_eq!(stdout(&started), "Starting zookeeper ... FAILED TO START\n");
    assert!(stderr(&started).starts_with(&format!("Using config: {config}\n")));
    let foreground = run_script(&home, "zkServer.sh", &["start-foreground"]);
    assert_eq!(foreground.status.code(), Some(2));
    let usage = run_script(&home, "zkServer.sh", &["upgrade"]);
    assert!(stderr(&usage).starts_with("Usage: ") && usage.status.code() == Some(0));
    assert_eq!(run_script(&home, "zkCli.sh", &["-server", "a:b", "ls", "/"]).status.code(), Some(1));
}

#[test]
fn scripts_take_another_directory_and_its_variables() {
    let home = installation("");
    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("zoo.cfg"), "dataDir=/data\nclientPort=1\n").unwrap();
    std::fs::write(other.join("java.env"), "SERVER_JVMFLAGS=-Dzookeeper.snapCount=-1\n").unwrap();
    let words = ["--config", other.to_str().unwrap(), "start-foreground"];
    let output = run_script(&home, "zkServer.sh", &words);
    assert!(
        stderr(&output).contains("SERVER_JVMFLAGS: snapCount = \"-1\" is not valid"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_word_for_java_wins_over_a_line_that_zookeeper_ignores() {
    let server = zebu_testing::ServerProcess::builder(env!("CARGO_BIN_EXE_zebu"))
        .line("jute.maxbuffer=1048575")
        .property("jute.maxbuffer", "4194304")
        .start()
        .unwrap();
    let (mut client, _) = zebu_testing::RawClient::open(server.address()).unwrap();
    let data = vec![b'x'; 2_000_000];
    let answer = client.call(zebu_proto::OpCode::Create, |out| {
        zebu_proto::jute::encode_bytes(b"/long", out);
        zebu_proto::jute::encode_bytes(&data, out);
        zebu_proto::Jute::encode(&zebu_proto::Acl::open(), out);
        zebu_proto::Jute::encode(&0i32, out);
    });
    let (_, header, _) = answer.expect("ZooKeeper follows the word");
    assert_eq!(header.err, 0);
}

#[test]
fn a_directory_that_is_not_ascii_is_the_one_that_exists() {
    let (text, _) = good();
    let home = home(&text.replace("dataDir=data", "dataDir=\u{fc}n\u{ef}").replace("dataLogDir=log\n", ""));
    std::fs::create_dir(home.path().join("\u{fc}n\u{ef}")).unwrap();
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    let text = stdout(&output);
    assert!(text.starts_with(
        "warning: zoo.cfg:2: dataDir is not ASCII: \u{fc}n\u{ef} is used, ZooKeeper would take it for"
    ));
    assert!(text.contains("  snapshots: \u{fc}n\u{ef}/version-2\n"), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
    std::fs::remove_dir(home.path().join("\u{fc}n\u{ef}")).unwrap();
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    let text = stdout(&output);
    assert!(text.contains("is used, readers of UTF-8 would take it for \u{fc}n\u{ef}."), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn a_wrong_store_is_one_finding_and_a_wrong_line_is_one_too() {
    let home = home(
        "dataDir=data\nclientPort=1\ninitLimit=10\nsyncLimit=5\nsecureClientPort=3181\n\
         ssl.keyStore.location=/k\nssl.keyStore.password=p\nssl.trustStore.location=/t\nssl.trustStore.password=p\n\
         server.1=a:x:1\nserver.2=b:2888:3888\nserver.3=c:2888:3888\n",
    );
    std::fs::create_dir(home.path().join("data")).unwrap();
    std::fs::write(home.path().join("data/myid"), "1\n").unwrap();
    let output = zebu(home.path(), &["check", "zoo.cfg"]);
    assert_eq!(
        stdout(&output),
        "error: zoo.cfg:6: ssl.keyStore.location: /k: No such file or directory (os error 2)\n\
         error: zoo.cfg:10: server.1 = \"a:x:1\" is not valid: \"x\" is not a port; allowed: 1 to 65535\n\
         would not start: exit status 2\n"
    );
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn files_for_variables_are_read_by_bash() {
    let home = installation("");
    let other = home.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("zoo.cfg"), "dataDir=/data\nclientPort=1\n").unwrap();
    std::fs::write(other.join("zookeeper-env.sh"), "if [[ a == a* ]]; then ZOO_LOG_DIR=/var/log/zk; fi\n")
        .unwrap();
    let java = "flags=(-Dzookeeper.snapCount=-1 -Xmx1g)\nexport SERVER_JVMFLAGS=\"${flags[*]}\"\n";
    std::fs::write(other.join("java.env"), java).unwrap();
    let words = ["--config", other.to_str().unwrap(), "start-foreground"];
    let output = run_script(&home, "zkServer.sh", &words);
    let text = stderr(&output);
    assert!(text.contains("SERVER_JVMFLAGS: snapCount = \"-1\" is not valid"), "{text}");
    assert!(!text.contains("not found") && !text.contains("Syntax error"), "{text}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn srvr_counts_the_word_itself_and_has_a_date() {
    let server = zebu_testing::ServerProcess::builder(env!("CARGO_BIN_EXE_zebu")).start().unwrap();
    let received = || {
        let patience = std::time::Duration::from_secs(10);
        let text = zebu_testing::four_letter::ask(server.address(), "srvr", patience).unwrap();
        assert!(!text.contains("built on 1970"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix("Received: ")).map(str::to_owned);
        line.unwrap().parse::<u64>().unwrap()
    };
    // The builder has asked before.
    let first = received();
    assert!(first >= 1);
    assert_eq!(received(), first + 1);
}

#[test]
fn status_of_a_name_that_is_no_file_asks_a_server() {
    let home = home("");
    // Nothing listens there, whatever the machine runs at the usual port.
    let output = zebu(home.path(), &["status", "127.255.255.254"]);
    let text = stdout(&output);
    assert!(text.contains("127.255.255.254:2181"), "{text}");
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(1)));
    let output = zebu(home.path(), &["status", "none.cfg"]);
    assert!(stderr(&output).contains("none.cfg cannot be read"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}
