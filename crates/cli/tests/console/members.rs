//! The servers of an ensemble in the browser: a snapshot, a comparison, a hand-over, a drain and a reconfig.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use zebu_proto::OpCode;
use zebu_proto::client::ConnectRequest;
use zebu_testing::raw::new_session_request;
use zebu_testing::{RawClient, port};

use crate::admin_common::{SUPER_DIGEST, eventually, get};
use crate::browser::Browser;
use crate::common::{done, path_and_watch, set_data_body};
use crate::processes::{Ensemble, TIME_LIMIT};
use crate::scene::{EPHEMERAL, PERSISTENT, create, log_in_as_super};
use crate::screenshots::{NARROW, WIDE, picture, show, wanted};

/// More than the transactions between two recorded digests.
const WRITES: usize = 300;

/// Clients of a load, and the pause between two requests of each.
const CLIENTS_OF_LOAD: usize = 9;
const LOAD_PAUSE: Duration = Duration::from_millis(4);

/// Name, language, theme and size.
const PICTURES: [(&str, &str, &str, (u32, u32)); 4] = [
    ("light", "en", "light", WIDE),
    ("dark-zh", "zh", "dark", WIDE),
    ("dark-narrow", "en", "dark", NARROW),
    ("light-zh-narrow", "zh", "light", NARROW),
];

/// Three voters with the console, and more lines in each file.
fn start(more: &str) -> (Ensemble, Vec<SocketAddr>) {
    let line = format!(
        "{more}initLimit=20\nzebu.drainTime=2000\nreconfigEnabled=true\nstandaloneEnabled=false\n\
         maxSessionTimeout=900000\nDigestAuthenticationProvider.superDigest={SUPER_DIGEST}"
    );
    let mut ensemble = Ensemble::prepare(3, &line);
    let consoles: Vec<SocketAddr> = (0..3).map(|_| port::free_address().unwrap()).collect();
    for (index, address) in consoles.iter().enumerate() {
        let path = ensemble.home.path().join(format!("zoo{index}.cfg"));
        let text = std::fs::read_to_string(&path).unwrap();
        let admin = format!("admin.serverPort={}", address.port());
        let text = text.replace("admin.enableServer=false", &admin);
        std::fs::write(&path, with_client_addresses(&ensemble, &text)).unwrap();
        ensemble.run(index);
    }
    (ensemble, consoles)
}

/// The servers share a host, so only the config tells their client ports.
fn with_client_addresses(ensemble: &Ensemble, text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("server.") {
        Some(rest) => {
            let id: usize = rest.split('=').next().unwrap().parse().unwrap();
            format!("{line};{}\n", ensemble.clients[id - 1])
        }
        None => format!("{line}\n"),
    });
    lines.filter(|line| !line.starts_with("clientPort")).collect()
}

fn client(address: SocketAddr) -> RawClient {
    let mut client = RawClient::connect(address).unwrap();
    // The tests send no pings, and a busy machine needs its time.
    client.handshake(&ConnectRequest { timeout_ms: 600_000, ..new_session_request() }).unwrap();
    client
}

/// Opens the page of the ensemble as the super user, unlocked.
fn open_unlocked(browser: &Browser) {
    browser.open("ensemble?lang=en");
    log_in_as_super(browser);
    browser.click("#operate-unlock");
    browser.click("dialog .primary");
    browser.wait_text("#operate", "Drain and stop");
}

/// Types the word of a deed and does it. Without the word the button does nothing.
fn confirm(browser: &Browser, word: &str) {
    assert_eq!(browser.script("return document.querySelector('#operate-run').disabled"), true);
    browser.fill("#operate-typed", word);
    browser.click("#operate-run");
}

#[test]
fn an_operator_works_on_a_server_after_a_preview() {
    let (mut ensemble, consoles) = start("");
    let leader = ensemble.await_leader(3);
    let Some(browser) = Browser::start(consoles[leader]) else { return };
    let mut holder = client(ensemble.clients[leader]);
    create(&mut holder, "/a", b"", PERSISTENT);
    create(&mut holder, "/held", b"", EPHEMERAL);
    for number in 0..WRITES {
        done(&mut holder, OpCode::SetData, set_data_body("/a", number.to_string().as_bytes(), -1));
    }
    // A visitor sees what is there, and that it is not for visitors.
    browser.open("ensemble?lang=en");
    browser.wait_text("#operate", "for the super user");
    browser.click("#digest-compare");
    browser.wait_text("#digests [role=alert]", "");
    open_unlocked(&browser);

    browser.click("#operate-snapshot");
    browser.wait_text("dialog", "exact at one transaction");
    confirm(&browser, "snapshot");
    browser.wait_text(".toasts", "Snapshot written");
    let files = std::fs::read_dir(ensemble.data(leader).join("version-2")).unwrap();
    let names: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let shown = browser.script("return document.querySelector('.toasts').innerText");
    assert!(names.iter().any(|name| shown.as_str().unwrap().contains(name.as_str())), "{names:?}: {shown}");

    browser.click("#digest-compare");
    browser.wait_text("#digest-verdict", "3 servers are equal");

    let pictures = wanted();
    for (name, language, theme, size) in PICTURES.into_iter().filter(|_| pictures.is_some()) {
        show(&browser, "ensemble", (language, theme), size);
        browser.click("#operate-unlock");
        browser.click("dialog .primary");
        browser.click("#digest-compare");
        browser.wait("a verdict", "return !!document.querySelector('#digest-verdict')");
        picture(&browser, pictures.as_ref().unwrap(), &format!("ensemble-{name}"));
        browser.click("#operate-hand-over");
        picture(&browser, pictures.as_ref().unwrap(), &format!("hand-over-{name}"));
        browser.click("dialog header button");
    }
    show(&browser, "ensemble", ("en", "light"), WIDE);
    browser.click("#operate-unlock");
    browser.click("dialog .primary");

    browser.click("#operate-hand-over");
    browser.wait_text("dialog", "Synchronized: server");
    confirm(&browser, "hand-over");
    browser.wait_text(".toasts", "hands over its leadership");
    let deadline = Instant::now() + TIME_LIMIT;
    let next = loop {
        let next = ensemble.await_leader(3);
        if next != leader {
            break next;
        }
        assert!(Instant::now() < deadline, "the leader has not changed");
    };
    browser.wait_text("#server-line", "follower");
    browser.wait("no button for a follower", "return !document.querySelector('#operate-hand-over')");
    // The client kept its connection and its node.
    done(&mut holder, OpCode::Exists, path_and_watch("/held", false));

    browser.click("#operate-drain");
    browser.wait_text("dialog", "its process ends");
    confirm(&browser, "drain");
    browser.wait_text(".toasts", "The server drains");
    let mut child = ensemble.children[leader].take().unwrap();
    let deadline = Instant::now() + TIME_LIMIT;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "the server has not ended"),
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(status.success(), "{status}");
    assert_eq!(ensemble.await_leader(2), next);
}

/// Server 1 has three of five votes: no majority of servers decides, and no other server is needed.
#[test]
fn weights_decide_what_a_loss_would_mean() {
    let (mut ensemble, consoles) = start("group.1=1:2:3\nweight.1=3\nweight.2=1\nweight.3=1\n");
    let leader = ensemble.await_leader(3);
    let Some(browser) = Browser::start(consoles[leader]) else { return };
    browser.open("ensemble?lang=en");
    browser.wait_text("main", "Groups and weights decide which servers are a quorum. None may fail.");
    browser.wait_text("main", "on which servers are lost");
    let lost = (1..3).find(|index| *index != leader).unwrap();
    ensemble.kill(lost);
    browser.wait_text("main", "not connected");
    let code = format!(
        "return [...document.querySelectorAll('main tbody tr')].find((row) => row.cells[0].innerText === '{}').cells[2].innerText",
        lost + 1
    );
    assert_eq!(browser.script(&code), "voter", "a server that is down follows no leader");
    browser.open("?lang=en");
    browser.wait_text(
        "main [role=alert]",
        "2 of 3 voting servers are up: the loss of server 1 stops all writes.",
    );
    assert_eq!(browser.errors(), Vec::<String>::new());
}

/// Clients that read and write until the value is dropped.
struct Load {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(servers: &[SocketAddr]) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let run = |(number, server): (usize, SocketAddr)| {
            let (mut client, stop) = (client(server), stop.clone());
            std::thread::spawn(move || {
                let path = format!("/load-{number}");
                create(&mut client, &path, b"", PERSISTENT);
                for round in 0_u32.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match round % 4 {
                        0 => drop(done(&mut client, OpCode::SetData, set_data_body(&path, &[b'x'; 200], -1))),
                        _ => drop(done(&mut client, OpCode::GetData, path_and_watch(&path, false))),
                    }
                    std::thread::sleep(LOAD_PAUSE);
                }
            })
        };
        let threads = servers.iter().cycle().take(CLIENTS_OF_LOAD).copied().enumerate().map(run).collect();
        Load { stop, threads }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// The overview of a leader after an election: all servers, the roles that it had, and charts that move.
#[test]
fn the_overview_shows_an_ensemble_under_load_after_an_election() {
    let (mut ensemble, consoles) = start("");
    let first = ensemble.await_leader(3);
    // The consoles look at the roles four times a second.
    let has_role = |address: &SocketAddr| get(*address, "/console/api/v1/roles").text().contains("follower");
    for (index, address) in consoles.iter().enumerate().filter(|(index, _)| *index != first) {
        eventually(&format!("server {} follows", index + 1), || has_role(address));
    }
    ensemble.kill(first);
    let leader = ensemble.await_leader(2);
    ensemble.run(first);
    ensemble.await_leader(3);
    let Some(browser) = Browser::start(consoles[leader]) else { return };
    let _load = Load::start(&ensemble.clients);
    show(&browser, "", ("en", "light"), WIDE);
    browser.wait_text("main", "in sync");
    browser.wait("three servers", "return document.querySelectorAll('main .wide tbody tr').length === 3");
    browser.wait_text("main .strip + table", "follower");
    browser.wait_text("main .strip + table", "leader");
    browser.wait("requests", "return !!document.querySelector('.spark .line[d^=M]')");
    browser.wait_text("main", "2 of 3 voting servers are needed to write. One may fail, whichever it is.");
    if let Some(target) = wanted() {
        // No decision hangs on this: the charts get their points.
        std::thread::sleep(Duration::from_secs(60));
        for (name, language, theme, size) in [
            ("overview-light", "en", "light", WIDE),
            ("overview-dark-zh", "zh", "dark", WIDE),
            ("overview-dark-zh-narrow", "zh", "dark", NARROW),
        ] {
            show(&browser, "", (language, theme), size);
            std::thread::sleep(Duration::from_secs(40));
            picture(&browser, &target, name);
        }
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}

#[test]
fn the_config_changes_after_a_preview_of_its_quorums() {
    let (mut ensemble, consoles) = start("");
    let leader = ensemble.await_leader(3);
    let Some(browser) = Browser::start(consoles[leader]) else { return };
    open_unlocked(&browser);
    let follower = (0..3).find(|index| *index != leader).unwrap();
    let choose = |id: usize, role: &str| {
        let code = format!(
            "const row = [...document.querySelectorAll('#reconfig-servers tbody tr')].find((row) => \
             row.cells[0].innerText === '{id}'); if (!row) return false; const choice = row.querySelector('select'); choice.value = '{role}'; \
             choice.dispatchEvent(new Event('change')); return choice.value === '{role}'"
        );
        browser.wait("a role", &code);
    };
    browser.click("#operate-reconfig");
    choose(follower + 1, "leave");
    browser.click("#reconfig-plan");
    browser.wait_text("dialog .consequences", "2 voters are an even number");
    browser.wait_text("dialog .consequences", "No voter may fail");
    browser.wait_text("#reconfig-preview", "May fail");
    let pictures = wanted();
    for (name, _, theme, (width, height)) in PICTURES.into_iter().filter(|_| pictures.is_some()) {
        browser.resize(width, height);
        browser.script(&format!("document.documentElement.dataset.theme = '{theme}'"));
        picture(&browser, pictures.as_ref().unwrap(), &format!("reconfig-{name}"));
        browser.script("document.querySelector('dialog').scrollTo(0, 9999)");
        picture(&browser, pictures.as_ref().unwrap(), &format!("reconfig-end-{name}"));
    }
    browser.resize(WIDE.0, WIDE.1);
    browser.fill("#operate-typed", "reconfig");
    browser.click("#reconfig-run");
    browser.wait_text(".toasts", "The config has changed");
    let mut reader = client(ensemble.clients[leader]);
    let (_, config) = done(&mut reader, OpCode::GetData, path_and_watch("/zookeeper/config", false));
    let config = String::from_utf8_lossy(&config).into_owned();
    assert!(!config.contains(&format!("server.{}=", follower + 1)), "{config}");
    assert!(config.contains(&format!("server.{}=", leader + 1)), "{config}");

    // A list without a synchronized quorum: two servers that do not run.
    ensemble.kill(follower);
    browser.open("ensemble?lang=en");
    browser.click("#operate-unlock");
    browser.click("dialog .primary");
    browser.click("#operate-reconfig");
    let third = (0..3).find(|index| *index != leader && *index != follower).unwrap();
    choose(third + 1, "leave");
    let ports = [(); 3].map(|()| port::free_address().unwrap().port().to_string());
    for (field, text) in [
        ("id", "9"),
        ("host", "127.0.0.1"),
        ("quorum", &ports[0]),
        ("election", &ports[1]),
        ("client", &ports[2]),
    ] {
        browser.fill(&format!("#reconfig-{field}"), text);
    }
    browser.click("#reconfig-plan");
    browser.wait_text("dialog .consequences", "No quorum of the new list is synchronized");
    browser.fill("#operate-typed", "reconfig");
    browser.click("#reconfig-run");
    browser.wait_text("#reconfig-outcome", "No quorum of the new list is synchronized");
    // The browser reports the answer 503, which this test wants.
    browser.errors();
}
