//! `zebu container` as the entry point of a container, and what systemd hears of a server.
#![allow(clippy::unwrap_used, reason = "a test that fails here should stop here")]

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zebu_testing::port;

const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");
const TIME_LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn zebu(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ZEBU);
    command.args(words).env_clear().stdin(Stdio::null());
    command.env("ZOO_CONF_DIR", home.join("conf")).env("ZOO_DATA_DIR", home.join("data"));
    command.env("ZOO_DATA_LOG_DIR", home.join("log"));
    command
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

fn is_healthy(home: &Path, which: &str, variables: &[(&str, &str)]) -> bool {
    let mut command = zebu(home, &["container", "--healthcheck", which]);
    command.envs(variables.iter().copied()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().unwrap().success()
}

#[test]
fn official_variables_start_a_server_and_a_second_start_keeps_its_files() {
    let home = TempDir::new().unwrap();
    let address = port::free_address().unwrap();
    let servers = format!("server.7=localhost:2888:3888;127.0.0.1:{}", address.port());
    let start = |tick: &str| {
        let mut command = zebu(home.path(), &["container", "--log-format", "json"]);
        command.env("ZOO_MY_ID", "7").env("ZOO_SERVERS", &servers).env("ZOO_TICK_TIME", tick);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    assert!(!is_healthy(home.path(), "live", &[]), "nothing runs yet");
    for tick in ["1500", "1700"] {
        let mut child = start(tick);
        until("the server is not ready", || is_healthy(home.path(), "ready", &[]));
        assert!(is_healthy(home.path(), "live", &[]));
        let words = std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        assert!(words.contains(" serve ") && words.contains("conf/zoo.cfg"), "{words}");
        let config = std::fs::read_to_string(home.path().join("conf/zoo.cfg")).unwrap();
        assert!(config.contains("tickTime=1500\n"), "the file of the first start counts: {config}");
        assert_eq!(std::fs::read_to_string(home.path().join("data/myid")).unwrap(), "7\n");
        signal(&child, "-TERM");
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn bitnami_variables_with_a_login_from_a_file() {
    let home = TempDir::new().unwrap();
    let address = port::free_address().unwrap();
    std::fs::write(home.path().join("secret"), "one\n").unwrap();
    let number = address.port().to_string();
    let secret = home.path().join("secret").display().to_string();
    let variables = [
        ("ZOO_PORT_NUMBER", number.as_str()),
        ("ZOO_ENABLE_AUTH", "yes"),
        ("ZOO_SERVER_USERS", "alice"),
        ("ZOO_SERVER_PASSWORDS_FILE", secret.as_str()),
    ];
    let mut command = zebu(home.path(), &["container"]);
    let mut child = command.envs(variables).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the server is not ready", || is_healthy(home.path(), "ready", &variables));
    let jaas = home.path().join("conf/zoo_jaas.conf");
    assert!(std::fs::read_to_string(&jaas).unwrap().contains("user_alice=\"one\""));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(&jaas).unwrap().permissions().mode() & 0o777, 0o600);
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn wrong_variables_write_nothing_and_end_with_2() {
    let home = TempDir::new().unwrap();
    let ended = zebu(home.path(), &["container"]).env("ZOO_SERVERS", "zk1:2888:3888,zk2").output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(
        text.contains("ALLOW_EMPTY_PASSWORD=yes") && text.contains("\"zk2\" is not of the form"),
        "{text}"
    );
    assert!(!home.path().join("conf").exists());
}

/// The build context of the image has every file that the Containerfile copies.
#[test]
fn containerfiles_copy_files_of_a_release() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/container");
    let release =
        ["bin/zebu", "bin/zkServer.sh", "bin/zkCli.sh", "LICENSE", "container/writable/", "container/etc/"];
    for name in ["Containerfile", "Containerfile.debian"] {
        let text = std::fs::read_to_string(packaging.join(name)).unwrap();
        let copies: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("COPY ")).collect();
        assert!(copies.len() >= 2, "{name}");
        for line in copies {
            let words: Vec<&str> = line.split(' ').filter(|word| !word.starts_with("--")).collect();
            for source in &words[..words.len() - 1] {
                assert!(release.contains(source), "{name}: {source} is not in the release directory");
            }
        }
    }
}

#[test]
fn systemd_hears_when_the_server_is_ready_reloads_and_stops() {
    let home = TempDir::new().unwrap();
    let socket = UnixDatagram::bind(home.path().join("notify")).unwrap();
    socket.set_read_timeout(Some(TIME_LIMIT)).unwrap();
    let receive_until = |part: &str| {
        let mut heard = String::new();
        let mut buffer = [0; 4096];
        while !heard.contains(part) {
            let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{part}: {error}: {heard}"));
            heard.push_str(&String::from_utf8_lossy(&buffer[..length]));
            heard.push('\n');
        }
        heard
    };
    let address = port::free_address().unwrap();
    let config = home.path().join("zoo.cfg");
    let text = format!(
        "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\n",
        home.path().display(),
        address.port()
    );
    std::fs::write(&config, &text).unwrap();
    let mut command = Command::new(ZEBU);
    command.arg("serve").arg(&config).arg("--log-file").arg(home.path().join("log/zebu.log"));
    command.env("NOTIFY_SOCKET", home.path().join("notify")).env("WATCHDOG_USEC", "4000000");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = receive_until("READY=1");
    assert!(begin.contains("EXTEND_TIMEOUT_USEC="), "{begin}");
    receive_until("STATUS=standalone, 0 client connections");
    receive_until("WATCHDOG=1");
    std::fs::write(&config, format!("{text}zebu.log.filter=debug\n")).unwrap();
    signal(&child, "-HUP");
    let reload = receive_until("RELOADING=1");
    assert!(reload.contains("MONOTONIC_USEC="), "{reload}");
    receive_until("READY=1");
    let log = || std::fs::read_to_string(home.path().join("log/zebu.log")).unwrap();
    until("the filter is not read again", || log().contains("filter=\"debug\""));
    signal(&child, "-TERM");
    receive_until("STOPPING=1");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
