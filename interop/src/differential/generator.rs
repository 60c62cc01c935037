//! Draws steps. It knows which sessions have a connection and avoids what is a race inside Apache itself:
//! a comparison can only be as strict as the reference is deterministic.

use std::collections::VecDeque;

use zebu_proto::{Acl, OpCode};

use super::deviation;
use super::dialect::Dialect;
use super::random::Random;
use super::request::{Body, Request, Residue};
use super::requests::{Mood, Requests};
use super::step::{Action, Arrival, Ending, Intrusion, SESSIONS, Step};
use super::vocabulary::{self, RawText};

/// Most requests in one write.
const BURST_MAX: usize = 50;

/// Steps between two repairs: with ACLs that exclude every client, all later steps would be refused.
const REPAIR_INTERVAL: usize = 150;

/// Paths remembered of those that servers made up.
const KNOWN_MAX: usize = 24;

/// Frames that no server accepts: negative and oversized lengths, and a header cut short.
const BAD_FRAMES: &[&[u8]] =
    &[&[255, 255, 255, 255], &[0x7f, 255, 255, 255], &[0, 0, 0, 0], &[0, 0, 0, 4, 0, 0, 0, 1], b"ruok"];

/// Whether requests are drawn that the two servers must get in different forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pairing {
    /// Left is Apache, right is Zebu.
    ApacheAndZebu,
    /// Both are Apache.
    TwoApaches,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    Connected,
    Disconnected,
    Ended,
}

/// Draws the steps of one run.
#[derive(Debug)]
pub(crate) struct Generator {
    random: Random,
    pairing: Pairing,
    dialect: Dialect,
    sessions: [Presence; SESSIONS],
    planned: VecDeque<Step>,
    known: Vec<String>,
    zxid: i64,
    steps: usize,
    restart_every: Option<usize>,
}

impl Generator {
    /// The steps of `seed`; with `restart_every`, both servers restart after that many.
    pub(crate) fn new(
        seed: u64,
        pairing: Pairing,
        dialect: Dialect,
        restart_every: Option<usize>,
    ) -> Generator {
        Generator {
            random: Random::new(seed),
            pairing,
            dialect,
            sessions: [Presence::Ended; SESSIONS],
            planned: VecDeque::new(),
            known: Vec::new(),
            zxid: 0,
            steps: 0,
            restart_every,
        }
    }

    /// A path that a server made up.
    pub(crate) fn learn_path(&mut self, path: &str) {
        if self.known.iter().any(|known| known == path) {
            return;
        }
        if self.known.len() >= KNOWN_MAX {
            let forgotten = self.random.below(self.known.len());
            let path = self.known.swap_remove(forgotten);
            let session = self.random.below(SESSIONS);
            // Sequential names would pile up otherwise.
            if self.sessions[session] == Presence::Connected {
                self.planned.push_back(Step::single(session, delete(&path)));
            }
        }
        self.known.push(path.to_owned());
    }

    /// The latest zxid of a reply, counted from the start.
    pub(crate) fn learn_zxid(&mut self, zxid: i64) {
        self.zxid = self.zxid.max(zxid);
    }

    /// The next step.
    pub(crate) fn next(&mut self) -> Step {
        let step = self.draw();
        self.steps += 1;
        match &step.action {
            Action::Send { ending, .. } | Action::SendDifferent { ending, .. } => match ending {
                Ending::Open => {}
                Ending::Closed => self.sessions[step.session] = Presence::Disconnected,
                Ending::SessionEnded => self.sessions[step.session] = Presence::Ended,
            },
            Action::SendBytes(_) | Action::Intrude(Intrusion::WrongPassword) => {
                self.sessions[step.session] = Presence::Disconnected;
            }
            Action::Arrive(_) => self.sessions[step.session] = Presence::Connected,
            Action::Intrude(_) => {}
            Action::Restart => self.sessions = [Presence::Disconnected; SESSIONS],
        }
        step
    }

    fn draw(&mut self) -> Step {
        // At once: a session without connection expires after a while, and then its ephemeral nodes go at
        // a moment that no two servers share.
        for session in 0..SESSIONS {
            let arrival = match self.sessions[session] {
                Presence::Connected => continue,
                Presence::Disconnected if self.random.percent(10) => Arrival::ResumeFromOldClient,
                Presence::Disconnected => Arrival::Resume,
                Presence::Ended if self.random.percent(10) => Arrival::NewFromOldClient,
                Presence::Ended => Arrival::New,
            };
            return Step { session, action: Action::Arrive(arrival) };
        }
        if let Some(step) = self.planned.pop_front() {
            return step;
        }
        if self.restart_every.is_some_and(|every| self.steps % every == every - 1) {
            return Step { session: 0, action: Action::Restart };
        }
        if self.steps % REPAIR_INTERVAL == REPAIR_INTERVAL - 1 {
            self.plan_repair();
        }
        let session = self.random.below(SESSIONS);
        match self.random.below(1000) {
            0..25 => Step::single(session, self.auth()),
            25..33 => Step::closing(session, self.bad_auth()),
            33..38 => Step::closing(session, self.unknown_operation()),
            38..41 => Step { session, action: Action::SendBytes(self.random.pick::<&[u8]>(BAD_FRAMES)) },
            41..53 => Step::close_session(session),
            53..65 => Step { session, action: Action::Arrive(Arrival::Resume) },
            65..70 => Step { session, action: Action::Intrude(Intrusion::WrongPassword) },
            70..74 => Step { session, action: Action::Intrude(Intrusion::UnknownSession) },
            74..78 => Step { session, action: Action::Intrude(Intrusion::FutureZxid) },
            78..84 if self.pairing == Pairing::ApacheAndZebu => deviation::draw(&mut self.random, session),
            // Zebu refuses a token without SASL, where Apache keeps the connection: a listed difference.
            84..90 if self.pairing == Pairing::TwoApaches => Step::single(session, self.sasl()),
            90..270 => self.burst(session),
            270..340 => self.write_read_write(session),
            _ => Step::single(session, self.requests().any()),
        }
    }

    fn requests(&mut self) -> Requests<'_> {
        Requests {
            random: &mut self.random,
            known: &self.known,
            zxid: self.zxid,
            mood: Mood::Wild,
            dialect: self.dialect,
        }
    }

    /// Requests of one session in one write. auth, sasl and unknown codes are not among them: Apache
    /// answers those before requests that came earlier. closeSession is not: what follows it is dropped or
    /// refused, depending on how far it got.
    fn burst(&mut self, session: usize) -> Step {
        let count = 1 + self.random.below(BURST_MAX);
        let requests = (0..count).map(|_| self.requests().any()).collect();
        self.pipelined(session, requests)
    }

    fn write_read_write(&mut self, session: usize) -> Step {
        let requests = self.requests().write_read_write();
        self.pipelined(session, requests)
    }

    fn pipelined(&mut self, session: usize, mut requests: Vec<Request>) -> Step {
        remove_acl_races(&mut requests);
        remove_residues(&mut requests);
        Step { session, action: Action::Send { requests, ending: Ending::Open } }
    }

    fn auth(&mut self) -> Request {
        let auth: (&str, &[u8]) = match self.random.below(20) {
            0 => ("digest", vocabulary::SUPER_USER.as_bytes()),
            1 => ("digest", b"no colon"),
            2 => ("digest", b""),
            3 => ("digest", b"a:b:c"),
            4 => ("ip", b"whatever"),
            _ => ("digest", self.random.pick(vocabulary::USERS).as_bytes()),
        };
        auth_request(&Some(auth.0.into()), &Some(auth.1.to_vec()))
    }

    /// Refused with an error or without a word; the connection is closed either way.
    fn bad_auth(&mut self) -> Request {
        match self.random.below(6) {
            0 => auth_request(&Some(b"digest".to_vec()), &None),
            1 => auth_request(&None, &Some(b"u1:p1".to_vec())),
            scheme => {
                let scheme = ["world", "sasl", "nobody", ""][scheme - 2];
                auth_request(&Some(scheme.into()), &Some(b"u1:p1".to_vec()))
            }
        }
    }

    fn sasl(&mut self) -> Request {
        let token: RawText = Some(vec![b'x'; self.random.below(3)]);
        Request::read(OpCode::Sasl, "a token".to_owned(), Body::default().text(&token))
    }

    fn unknown_operation(&mut self) -> Request {
        // 13 is check, which exists only inside a multi.
        Request::unknown(*self.random.pick(self.dialect.unknown_codes()))
    }

    /// A super user opens what random ACLs have closed, and gives the credential up again.
    fn plan_repair(&mut self) {
        let session = self.random.below(SESSIONS);
        let secret: RawText = Some(vocabulary::SUPER_USER.into());
        self.planned.push_back(Step::single(session, auth_request(&Some(b"digest".to_vec()), &secret)));
        let mut paths = vec!["/".to_owned(), "/zookeeper".to_owned(), "/zookeeper/quota".to_owned()];
        paths.extend((0..6).map(|_| vocabulary::plain_path(&mut self.random)));
        for path in paths {
            let body = Body::default().text(&Some(path.clone().into_bytes())).acl(&Some(Acl::open())).int(-1);
            let request = Request::write(OpCode::SetAcl, format!("{path} open again"), vec![path], body);
            self.planned.push_back(Step::single(session, request));
        }
        self.planned.push_back(Step { session, action: Action::Arrive(Arrival::Resume) });
    }
}

/// While a setACL is on its way, Apache checks permissions by the old ACL, and by the new one as soon as it
/// has been applied: a later write of the same burst may meet either. Such a write is left out.
fn remove_acl_races(requests: &mut Vec<Request>) {
    let mut changing: Vec<String> = Vec::new();
    requests.retain(|request| {
        let races = request.guarded_by.iter().any(|node| changing.contains(node));
        if !races && let Some(node) = &request.sets_acl_of {
            changing.push(node.clone());
        }
        !races
    });
}

/// What such a request leaves behind in Apache for a while is there or not, depending on how far the burst
/// got. Nothing may follow it.
fn remove_residues(requests: &mut Vec<Request>) {
    let last = requests.pop();
    requests.retain(|request| request.residue == Residue::None);
    requests.extend(last);
}

fn auth_request(scheme: &RawText, auth: &RawText) -> Request {
    let what = format!("{} {}", super::request::show(scheme), super::request::show(auth));
    Request::read(OpCode::Auth, what, Body::default().int(0).text(scheme).text(auth))
}

fn delete(path: &str) -> Request {
    let body = Body::default().text(&Some(path.as_bytes().to_vec())).int(-1);
    Request::write(OpCode::Delete, path.to_owned(), Vec::new(), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_steps() {
        let steps = |seed| {
            let mut generator = Generator::new(seed, Pairing::TwoApaches, Dialect::V3_9, None);
            (0..500).map(|_| generator.next().describe()).collect::<Vec<_>>()
        };
        assert_eq!(steps(7), steps(7));
        assert_ne!(steps(7), steps(8));
    }

    #[test]
    fn no_write_follows_a_change_of_the_acl_that_guards_it() {
        let mut generator = Generator::new(3, Pairing::ApacheAndZebu, Dialect::V3_9, Some(100));
        for _ in 0..5_000 {
            let Action::Send { requests, .. } = generator.next().action else { continue };
            for (index, request) in requests.iter().enumerate() {
                let Some(node) = &request.sets_acl_of else { continue };
                assert!(requests[index + 1..].iter().all(|later| !later.guarded_by.contains(node)));
            }
        }
    }

    #[test]
    fn nothing_follows_what_is_ephemeral_only_while_it_is_pending() {
        let mut generator = Generator::new(3, Pairing::ApacheAndZebu, Dialect::V3_9, None);
        let mut met = 0;
        for _ in 0..5_000 {
            let Action::Send { requests, .. } = generator.next().action else { continue };
            let pending = |request: &Request| request.residue == Residue::PendingKind;
            met += requests.iter().filter(|request| pending(request)).count();
            assert!(requests.iter().rev().skip(1).all(|request| !pending(request)));
        }
        assert!(met > 0, "no such request is ever sent");
    }
}
