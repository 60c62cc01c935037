//! One writer: a session that sends many operations at once and keeps account of what was answered.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use zebu_proto::client::CreateOp;
use zebu_testing::Session;
use zebu_testing::raw::RawError;

use super::model::Model;
use super::operation::{Access, Operation, Owner};
use crate::client::{Client, answer};
use crate::differential::Random;
use crate::dump::Dump;

/// Operations in flight.
const WINDOW: usize = 64;

/// Nodes of one kind that a writer keeps; older ones are deleted again.
const KEPT: usize = 60;

/// Its session outlives every pause between two connections.
pub(crate) const TIMEOUT_MS: i32 = 300_000;

/// The node whose data only grows.
const COUNTER: &str = "/counter";

/// Two nodes that multis keep equal.
const PAIR: [&str; 2] = ["/left", "/right"];

/// A writer between and during its connections.
#[derive(Debug)]
pub(crate) struct Writer {
    top: String,
    session: Session,
    random: Random,
    /// After everything that was acknowledged.
    confirmed: Model,
    /// After everything that was sent.
    planned: Model,
    /// Sent and not acknowledged.
    pending: VecDeque<Operation>,
    next_number: u64,
    acknowledged: u64,
    last_zxid: i64,
}

impl Writer {
    /// Opens its session and makes its directory.
    pub(crate) fn new(address: SocketAddr, top: String, random: Random) -> Result<Writer> {
        let mut client = Client::open(address, TIMEOUT_MS)?;
        let mut writer = Writer {
            top,
            session: client.session(),
            random,
            confirmed: Model::default(),
            planned: Model::default(),
            pending: VecDeque::new(),
            next_number: 0,
            acknowledged: 0,
            last_zxid: 0,
        };
        for path in ["", COUNTER, PAIR[0], PAIR[1], "/nodes", "/numbered", "/pairs"] {
            let (path, data) = (path.to_owned(), b"0".to_vec());
            writer.queue(
                &mut client,
                Operation::Create { path, data, owner: Owner::Nobody, op: CreateOp::Create2 },
            );
        }
        client.flush()?;
        while !writer.pending.is_empty() {
            writer.receive(&mut client)?;
        }
        Ok(writer)
    }

    /// The path of its directory.
    pub(crate) fn top(&self) -> &str {
        &self.top
    }

    /// The path of its counter.
    pub(crate) fn counter(&self) -> String {
        format!("{}{COUNTER}", self.top)
    }

    /// Its session.
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// Operations that were answered, over its whole life.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The highest zxid in any of its replies.
    pub(crate) fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Comes back to its session; `None` if the server has forgotten it.
    pub(crate) fn connect(&self, address: SocketAddr) -> Result<Option<Client>> {
        Client::resume(address, self.session, TIMEOUT_MS)
    }

    /// Writes until the server has ended. Replies that were sent before are still read.
    pub(crate) fn write_until_gone(&mut self, client: &mut Client) -> Result<()> {
        let mut sending = true;
        loop {
            if sending {
                while self.pending.len() < WINDOW {
                    let operation = self.draw();
                    self.queue(client, operation);
                }
                // A failed send says nothing about the answers that are on their way.
                sending = client.flush().is_ok();
            }
            match self.receive(client) {
                Ok(()) => {}
                Err(error) => match error.downcast_ref::<RawError>() {
                    Some(RawError::Closed { .. } | RawError::Io { .. }) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Finds out how much of what was sent has happened: all that was acknowledged, and any first part of
    /// the rest. Returns how many unacknowledged operations are there.
    pub(crate) fn verify(&mut self, dump: &Dump) -> Result<usize> {
        for path in PAIR.map(|path| format!("{}{path}", self.top)).windows(2) {
            let data = |path: &String| dump.0.get(path).map(|node| node.data.clone());
            ensure!(data(&path[0]) == data(&path[1]), "half a multi: {} and {} differ", path[0], path[1]);
        }
        let mut state = self.confirmed.clone();
        let mut closest = state.differences(dump, &self.top, self.session.id.0);
        let mut happened = 0;
        for (index, operation) in self.pending.iter().enumerate() {
            if closest.is_empty() {
                break;
            }
            state.apply(operation, None);
            let differences = state.differences(dump, &self.top, self.session.id.0);
            if differences.len() < closest.len() {
                (closest, happened) = (differences, index + 1);
            }
        }
        if !closest.is_empty() {
            bail!(
                "{}: neither the {} acknowledged operations nor any first part of the {} others explain it; \
                 after {happened} of them there is still\n  {}",
                self.top,
                self.acknowledged,
                self.pending.len(),
                closest[..closest.len().min(10)].join("\n  ")
            );
        }
        state.adopt(dump, &self.top);
        self.planned = state.clone();
        self.confirmed = state;
        self.pending.clear();
        Ok(happened)
    }

    /// Nodes that were compared by [`Writer::verify`].
    pub(crate) fn nodes(&self) -> usize {
        self.confirmed.len()
    }

    fn queue(&mut self, client: &mut Client, operation: Operation) {
        client.queue_write(&operation.request(&self.top));
        self.planned.apply(&operation, None);
        self.pending.push_back(operation);
    }

    fn receive(&mut self, client: &mut Client) -> Result<()> {
        let (header, body) = client.reply()?;
        let operation = self.pending.pop_front().context("a reply without a request")?;
        let answer = answer(&operation.request(&self.top), &header, &body)?;
        if let Operation::CreateNumbered { parent, .. } = &operation {
            let expected = format!("{}{}", self.top, self.confirmed.numbered(parent));
            ensure!(answer.created == [expected.clone()], "{answer:?} instead of {expected}");
        }
        let expected = self.confirmed.apply(&operation, Some(answer.zxid));
        ensure!(answer.error == expected, "{operation:?} was answered {answer:?}, expected {expected}");
        ensure!(answer.zxid > self.last_zxid, "zxid {} after {}", answer.zxid, self.last_zxid);
        self.last_zxid = answer.zxid;
        self.acknowledged += 1;
        Ok(())
    }

    /// The next operation, drawn for the state after everything that was sent.
    fn draw(&mut self) -> Operation {
        self.next_number += 1;
        let number = self.next_number;
        let data = self.data();
        let owner = if self.random.percent(25) { Owner::Session } else { Owner::Nobody };
        let pair = || PAIR.map(str::to_owned);
        match self.random.below(100) {
            0..20 => {
                let data = number.to_string().into_bytes();
                Operation::Set { path: COUNTER.to_owned(), data, version: -1 }
            }
            20..40 => match self.oldest("/nodes") {
                Some(path) => Operation::Delete { path },
                None => {
                    let op = if self.random.percent(50) { CreateOp::Create } else { CreateOp::Create2 };
                    Operation::Create { path: format!("/nodes/n{number:010}"), data, owner, op }
                }
            },
            40..55 => match self.oldest("/numbered") {
                Some(path) => Operation::Delete { path },
                None => Operation::CreateNumbered { parent: "/numbered".to_owned(), data, owner },
            },
            55..70 => Operation::SetBoth { paths: pair(), data },
            70..78 => match self.oldest("/pairs") {
                Some(left) => {
                    let right = left.replace("-a", "-b");
                    Operation::DeleteBoth { paths: [left, right] }
                }
                None => {
                    let name = |side: &str| format!("/pairs/p{number:010}-{side}");
                    Operation::CreateBoth { paths: [name("a"), name("b")], data }
                }
            },
            78..82 => {
                Operation::SetBothAndFail { paths: pair(), data, wrong_version: self.wrong_version(PAIR[1]) }
            }
            82..86 => {
                let wrong = self.wrong_version(COUNTER);
                Operation::Set { path: COUNTER.to_owned(), data, version: wrong }
            }
            86..89 => Operation::Create { path: PAIR[0].to_owned(), data, owner, op: CreateOp::Create },
            89..94 => {
                let path = self.any("/nodes");
                Operation::SetAccess { path, access: *self.random.pick(&Access::ALL) }
            }
            _ => {
                let path = self.any("/nodes");
                Operation::Set { path, data, version: -1 }
            }
        }
    }

    /// A child to delete, once there are enough of them.
    fn oldest(&self, parent: &str) -> Option<String> {
        let children = self.planned.children(parent);
        if children.len() < KEPT { None } else { children.into_iter().next() }
    }

    /// A child of `parent`, or `parent` itself.
    fn any(&mut self, parent: &str) -> String {
        let mut choice = self.planned.children(parent);
        choice.push(parent.to_owned());
        self.random.pick(&choice).clone()
    }

    fn wrong_version(&self, path: &str) -> i32 {
        self.planned.version(path).map_or(1, |version| version + 1)
    }

    fn data(&mut self) -> Vec<u8> {
        let length = self.random.weighted(&[(80, 20), (15, 300), (4, 5000), (1, 60_000)]);
        let length = self.random.below(length);
        vec![b'a' + self.random.below(26) as u8; length]
    }
}
