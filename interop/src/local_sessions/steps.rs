//! The steps at each server. Each step begins and ends without a session.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use zebu_proto::ErrorCode;
use zebu_proto::client::{CreateOp, WriteRequest};

use super::home::{
    Counts, Home, LONG_MS, Maker, SHORT_MS, both, close, create, delete, ephemeral, exists, persistent, ping,
    queue_exists, set, succeed,
};
use crate::client::Client;

/// How many sessions come and go.
const CROWD: i64 = 200;

/// No server has made a transaction since, and this one has heard of no global session.
fn ensure_silence(home: &Home<'_>, before: &[zebu_proto::Zxid]) -> Result<()> {
    let now = home.zxids()?;
    ensure!(now == before, "transactions were made: {before:?}, now {now:?}");
    Ok(())
}

/// `dump` shows all sessions as local and none as global.
fn ensure_dump(home: &Home<'_>) -> Result<()> {
    let dump = home.ask("dump")?;
    let shows =
        |start: &str, end: &str| dump.lines().any(|line| line.starts_with(start) && line.ends_with(end));
    let global = if home.leads() { ("Global Session Sets (", "/(0):") } else { ("Global Sessions(0)", ":") };
    let heads: Vec<&str> = dump.lines().filter(|line| line.contains("Session")).take(4).collect();
    ensure!(
        shows("Local Session Sets (", &format!("/({CROWD}):")) && shows(global.0, global.1),
        "dump says {heads:?}"
    );
    Ok(())
}

pub(super) fn come_and_go(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let before = home.zxids()?;
    let clients = (0..CROWD).map(|_| home.client(LONG_MS)).collect::<Result<Vec<Client>>>()?;
    let server = i64::from(home.index as u8 + 1);
    for client in &clients {
        let id = client.session().id.0;
        ensure!(
            id >> 56 == server && client.timeout_ms() == LONG_MS,
            "{id:#x} for {} ms",
            client.timeout_ms()
        );
    }
    home.await_counts(Counts { local: CROWD, global: 0 })?;
    ensure_dump(home)?;
    let with_session = home.ask("cons")?.lines().filter(|line| line.contains("sid=0x")).count() as i64;
    ensure!(with_session == CROWD, "cons shows {with_session} sessions");
    ensure_silence(home, &before)?;
    clients.into_iter().try_for_each(close)?;
    home.await_counts(Counts { local: 0, global: 0 })?;
    ensure_silence(home, &before)
}

pub(super) fn expire(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let before = home.zxids()?;
    let leaves = home.client(SHORT_MS)?;
    let mut stays = home.client(SHORT_MS)?;
    let session = leaves.session();
    drop(leaves);
    let started = Instant::now();
    while home.counts()?.local == 2 {
        ensure!(started.elapsed() < Duration::from_secs(10), "it never expires");
        ping(&mut stays)?;
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(started.elapsed() >= Duration::from_millis(500), "it expired at once");
    ensure!(Client::resume(home.address(), session, SHORT_MS)?.is_none(), "it lives on");
    ping(&mut stays)?;
    close(stays)?;
    ensure_silence(home, &before)
}

pub(super) fn write(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("written");
    let mut client = home.client(LONG_MS)?;
    for request in [persistent(&path), set(&path)] {
        succeed(&mut client, &request)?;
    }
    ensure!(exists(&mut client, &path)?, "{path} is not there");
    let refused = client.write(&persistent(&path))?;
    ensure!(refused.error == ErrorCode::NodeExists.wire(), "twice: {}", refused.error);
    succeed(&mut client, &delete(&path))?;
    home.await_counts(Counts { local: 1, global: 0 })?;
    close(client)
}

pub(super) fn stay_at_home(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("home");
    let mut client = home.client(LONG_MS)?;
    let session = client.session();
    for address in home.elsewhere() {
        ensure!(Client::resume(address, session, LONG_MS)?.is_none(), "{address} took it");
    }
    succeed(&mut client, &persistent(&path))?;
    drop(client);
    let mut client = Client::resume(home.address(), session, LONG_MS)?.context("its server refused it")?;
    succeed(&mut client, &delete(&path))?;
    close(client)?;
    ensure!(Client::resume(home.address(), session, LONG_MS)?.is_none(), "it lives on after its farewell");
    Ok(())
}

/// The request makes the session a global one, whether it succeeds or not.
fn upgrade(home: &Home<'_>, request: &WriteRequest, wanted: i32) -> Result<()> {
    let mut client = home.client(LONG_MS)?;
    let mut stays = home.client(LONG_MS)?;
    home.await_counts(Counts { local: 2, global: 0 })?;
    let answer = client.write(request)?;
    ensure!(answer.error == wanted, "{request:?} was answered {}", answer.error);
    home.await_counts(Counts { local: 1, global: 1 })?;
    for index in 0..crate::trio::SERVERS {
        let at = Home { ensemble: home.ensemble, index };
        let local = if index == home.index { 1 } else { 0 };
        at.await_counts(Counts { local, global: 1 })?;
    }
    ping(&mut stays)?;
    close(client)?;
    home.await_counts(Counts { local: 1, global: 0 })?;
    close(stays)
}

pub(super) fn upgrade_by_create(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    upgrade(home, &ephemeral(&home.path("created")), 0)?;
    home.await_absence(&home.path("created"))
}

pub(super) fn upgrade_by_create2(home: &Home<'_>) -> Result<()> {
    const EPHEMERAL_SEQUENTIAL: i32 = 3;
    home.await_rest()?;
    let request = create(CreateOp::Create2, &home.path("created"), EPHEMERAL_SEQUENTIAL);
    upgrade(home, &WriteRequest::Create(request), 0)
}

pub(super) fn upgrade_by_multi(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let (stays, goes) = (home.path("multi-stays"), home.path("multi-goes"));
    upgrade(home, &both(&stays, &goes), 0)?;
    home.await_absence(&goes)?;
    let mut client = home.client(LONG_MS)?;
    succeed(&mut client, &delete(&stays))?;
    close(client)
}

pub(super) fn upgrade_by_failure(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    upgrade(home, &ephemeral("/nobody/here"), ErrorCode::NoNode.wire())
}

pub(super) fn pipeline(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let [first, second, third] = ["first", "second", "third"].map(|name| home.path(name));
    let mut client = home.client(LONG_MS)?;
    client.queue_write(&persistent(&first));
    client.queue_write(&ephemeral(&second));
    queue_exists(&mut client, &second);
    client.queue_write(&ephemeral(&third));
    queue_exists(&mut client, &third);
    client.queue_write(&delete(&first));
    client.queue_write(&WriteRequest::CloseSession);
    client.flush()?;
    let mut last = 0;
    for xid in 1..=7 {
        let (header, _) = client.reply()?;
        ensure!((header.xid, header.err) == (xid, 0), "request {xid} was answered {header:?}");
        ensure!(header.zxid >= last, "{header:?} after {last:#x}");
        last = header.zxid;
    }
    home.await_counts(Counts { local: 0, global: 0 })?;
    [second, third].iter().try_for_each(|path| home.await_absence(path))
}

pub(super) fn go_anywhere(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("carried");
    let mut client = home.client(LONG_MS)?;
    let session = client.session();
    succeed(&mut client, &ephemeral(&path))?;
    for address in home.elsewhere() {
        client =
            Client::resume(address, session, LONG_MS)?.with_context(|| format!("{address} refused it"))?;
        succeed(&mut client, &set(&path))?;
    }
    client = Client::resume(home.address(), session, LONG_MS)?.context("its server refused it")?;
    succeed(&mut client, &set(&path))?;
    home.await_counts(Counts { local: 0, global: 1 })?;
    close(client)?;
    home.await_absence(&path)
}

pub(super) fn live_by_pings(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("alive");
    let mut client = home.client(SHORT_MS)?;
    succeed(&mut client, &ephemeral(&path))?;
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(3 * SHORT_MS as u64) {
        ping(&mut client)?;
        std::thread::sleep(Duration::from_millis(200));
    }
    ensure!(exists(&mut client, &path)?, "its pings were not heard");
    drop(client);
    home.await_absence(&path)?;
    home.await_counts(Counts { local: 0, global: 0 })
}

pub(super) fn lose_connection(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("lost");
    for _ in 0..5 {
        let mut client = home.client(SHORT_MS)?;
        client.queue_write(&ephemeral(&path));
        client.queue_write(&set(&path));
        client.flush()?;
        drop(client);
    }
    home.await_counts(Counts { local: 0, global: 0 })?;
    home.await_absence(&path)
}

pub(super) fn refuse_create(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let path = home.path("refused");
    let mut client = home.client(LONG_MS)?;
    for request in [ephemeral(&path), ephemeral("/nobody/here")] {
        let answer = client.write(&request)?;
        ensure!(answer.error == ErrorCode::EphemeralOnLocalSession.wire(), "answered {}", answer.error);
    }
    ensure!(!exists(&mut client, &path)?, "{path} is there");
    succeed(&mut client, &persistent(&path))?;
    succeed(&mut client, &delete(&path))?;
    home.await_counts(Counts { local: 1, global: 0 })?;
    close(client)
}

pub(super) fn refuse_multi(home: &Home<'_>) -> Result<()> {
    home.await_rest()?;
    let (stays, goes) = (home.path("refused-stays"), home.path("refused-goes"));
    let mut client = home.client(LONG_MS)?;
    let answer = client.write(&both(&stays, &goes))?;
    // Apache's followers pass on what their leader says, to whom the session is unknown.
    let wanted = match (home.maker(), home.leads()) {
        (Maker::Apache, false) => ErrorCode::SessionExpired,
        (Maker::Zebu, _) | (Maker::Apache, true) => ErrorCode::EphemeralOnLocalSession,
    };
    ensure!(answer.error == wanted.wire(), "answered {}", answer.error);
    for path in [&stays, &goes] {
        ensure!(!exists(&mut client, path)?, "{path} is there");
    }
    close(client)
}
