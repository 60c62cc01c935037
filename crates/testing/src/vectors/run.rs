//! Plays vectors against a server, one at a time, and ends every session that they leave behind.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use regex::Regex;
use zebu_proto::frame::LENGTH_SIZE;
use zebu_proto::{OpCode, Xid};

use super::bindings::Bindings;
use super::format::{Step, Vector};
use super::{Release, Servers, VectorFileError, compare, load};
use crate::four_letter;
use crate::raw::{Message, RawClient, Received, Session};
use crate::server_process::ServerError;

/// How long a frame or a close may take.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long to listen where nothing is to arrive. What arrives later is found by the next step of the
/// connection or by the close at the end.
const QUIET: Duration = Duration::from_millis(100);

/// No recorded request has this number.
const CLOSING_XID: Xid = Xid(0x7abc_0001);

/// In which order vectors run. They hold in any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As recorded.
    File,
    /// Mixed by this seed.
    Shuffled(u64),
}

/// A difference from the recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The index of the step; the number of steps for a difference at the end.
    pub step: usize,
    /// The expected and the actual frame.
    pub what: String,
}

/// The result of one vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub why: String,
    /// Whether its behaviour need not be copied.
    pub quirk: bool,
    /// `None` if everything was as recorded.
    pub mismatch: Option<Mismatch>,
}

/// The results of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// One per vector that holds for the release, in the order they ran.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The vectors that did not pass.
    pub fn failures(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| outcome.mismatch.is_some())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} vectors, {} failed", self.outcomes.len(), self.failures().count())?;
        for outcome in self.failures() {
            let Some(mismatch) = &outcome.mismatch else { continue };
            let quirk = if outcome.quirk { " (quirk)" } else { "" };
            writeln!(f, "{}{quirk}: {}", outcome.name, outcome.why)?;
            writeln!(f, "    step {}: {}", mismatch.step, mismatch.what)?;
        }
        Ok(())
    }
}

/// Why vectors could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file is not usable.
    #[error(transparent)]
    File(#[from] VectorFileError),
    /// There is no server to run them on.
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Runs the vectors of one file that hold for `release`.
pub fn run(servers: &mut Servers, file: &Path, release: Release) -> Result<Report, RunError> {
    Ok(run_all(servers, load(file)?, release, Order::File)?)
}

/// Runs those of `vectors` that hold for `release`.
pub fn run_all(
    servers: &mut Servers,
    vectors: Vec<Vector>,
    release: Release,
    order: Order,
) -> Result<Report, ServerError> {
    let mut vectors: Vec<Vector> = vectors.into_iter().filter(|vector| vector.holds_for(release)).collect();
    if let Order::Shuffled(seed) = order {
        shuffle(&mut vectors, seed);
    }
    let mut report = Report::default();
    for vector in vectors {
        let mismatch = play(servers.address(vector.config)?, &vector, release).err();
        let Vector { name, why, quirk, .. } = vector;
        report.outcomes.push(Outcome { name, why, quirk, mismatch });
    }
    Ok(report)
}

fn shuffle(vectors: &mut [Vector], seed: u64) {
    let mut state = seed;
    for last in (1..vectors.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        vectors.swap(last, (state >> 33) as usize % (last + 1));
    }
}

/// One vector while it is played.
struct Play<'a> {
    address: SocketAddr,
    connections: BTreeMap<&'a str, RawClient>,
    bindings: Bindings,
}

fn play(address: SocketAddr, vector: &Vector, release: Release) -> Result<(), Mismatch> {
    let base = four_letter::last_zxid(address, TIME_LIMIT)
        .map_err(|error| Mismatch { step: 0, what: format!("last zxid before the first step: {error}") })?;
    let mut play = Play { address, connections: BTreeMap::new(), bindings: Bindings::new(base, release) };
    let mut result = Ok(());
    for (index, step) in vector.steps.iter().enumerate() {
        result = play.step(step).map_err(|what| Mismatch { step: index, what });
        if result.is_err() {
            break;
        }
    }
    // Also after a mismatch: a session left behind would spend a zxid when it expires, in another vector.
    let ended = play.end().map_err(|what| Mismatch { step: vector.steps.len(), what });
    result.and(ended)
}

impl<'a> Play<'a> {
    fn step(&mut self, step: &'a Step) -> Result<(), String> {
        thread::sleep(Duration::from_millis(step.wait_ms));
        let Some(label) = step.session.as_deref() else { return Ok(()) };
        if step.connect {
            let client = RawClient::connect(self.address).map_err(|error| error.to_string())?;
            self.connections.insert(label, client);
        }
        if step.drop {
            self.connections.remove(label);
            return Ok(());
        }
        let client = self.connections.get_mut(label).ok_or_else(|| format!("no connection {label:?}"))?;
        send(client, step, &self.bindings)?;
        receive(client, step, &mut self.bindings)?;
        if step.closed {
            self.connections.remove(label);
        }
        Ok(())
    }

    /// Closes the open sessions. An unexpected frame is found here at the latest.
    fn end(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        let mut clients = Vec::new();
        for (label, mut client) in std::mem::take(&mut self.connections) {
            result = result.and(close_session(&mut client).map_err(|error| format!("{label}: {error}")));
            clients.push(client);
        }
        for session in self.bindings.sessions() {
            // A rejected session is one that has ended already.
            let resumed = RawClient::resume(self.address, &Session::of(session));
            if let Ok((mut client, response)) = resumed
                && response.session_id != 0
            {
                result = result.and(close_session(&mut client));
            }
        }
        result
    }
}

fn send(client: &mut RawClient, step: &Step, bindings: &Bindings) -> Result<(), String> {
    let Some(bytes) = &step.send else { return Ok(()) };
    let mut bytes = bytes.0.clone();
    for field in &step.patch {
        bindings.patch(field, &mut bytes)?;
    }
    bytes.resize(bytes.len() + step.pad, 0);
    if let Some(then) = &step.then {
        bytes.extend_from_slice(&then.0);
    }
    match client.send_bytes(&bytes) {
        Ok(()) => Ok(()),
        // The server may refuse while it is still being sent to.
        Err(_) if step.closed => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn receive(client: &mut RawClient, step: &Step, bindings: &mut Bindings) -> Result<(), String> {
    if step.text.is_some() || step.pattern.is_some() {
        return receive_text(client, step);
    }
    for (index, expected) in step.recv.iter().enumerate() {
        let mask = step.mask.get(index).map_or(&[][..], Vec::as_slice);
        match client.receive(TIME_LIMIT).map_err(|error| error.to_string())? {
            Received::Frame(payload) => {
                compare::frame(&expected.0, &with_length(&payload), mask, bindings)
                    .map_err(|what| format!("frame {index}: {what}"))?;
            }
            other => return Err(format!("frame {index} did not arrive: {other:?}")),
        }
    }
    let (expected, patience) = match step.closed {
        true => (Received::Closed, TIME_LIMIT),
        // Frames too many are found by what follows on this connection, without waiting for them here.
        false if !step.recv.is_empty() => return Ok(()),
        false => (Received::Nothing, QUIET),
    };
    let got = client.receive(patience).map_err(|error| error.to_string())?;
    if got == expected { Ok(()) } else { Err(format!("then expected {expected:?}, got {got:?}")) }
}

fn receive_text(client: &mut RawClient, step: &Step) -> Result<(), String> {
    let answer = client.receive_to_end(TIME_LIMIT).map_err(|error| error.to_string())?;
    let answer = answer.ok_or("the answer to a four-letter word did not end")?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    if let Some(text) = &step.text
        && *text != answer
    {
        return Err(format!("expected {text:?}, got {answer:?}"));
    }
    if let Some(pattern) = &step.pattern {
        let whole = Regex::new(&format!("(?s)^(?:{pattern})$")).map_err(|error| error.to_string())?;
        if !whole.is_match(&answer) {
            return Err(format!("expected {pattern:?}, got {answer:?}"));
        }
    }
    Ok(())
}

fn with_length(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(LENGTH_SIZE + payload.len());
    zebu_proto::frame::write_frame(&mut frame, |out| out.extend_from_slice(payload));
    frame
}

/// Closes a session; the reply must be the next frame. A connection that is closed already is fine, and
/// so is one without a session: the server closes it when it reads what is no connect request.
fn close_session(client: &mut RawClient) -> Result<(), String> {
    client.queue_as(CLOSING_XID, OpCode::CloseSession.wire(), |_| {});
    if client.flush().is_err() {
        return Ok(());
    }
    match client.receive(TIME_LIMIT).map_err(|error| error.to_string())? {
        Received::Closed => Ok(()),
        Received::Nothing => Err("no answer to closeSession at the end".into()),
        Received::Frame(payload) => match Message::decode(&payload) {
            Ok(Message::Reply { header, .. }) if header.xid == CLOSING_XID.0 => Ok(()),
            other => Err(format!("a frame that was not recorded: {other:?}")),
        },
    }
}
