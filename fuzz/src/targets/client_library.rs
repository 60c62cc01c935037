//! A server says anything to the client library: its session machine ends the connection or goes on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use zebu_client::core::{ServerList, SessionAction, SessionMachine, SessionRequest, SessionSettings};
use zebu_proto::OpCode;

use crate::bits::Bits;
use crate::corpus::{self, Side};

pub(super) fn run(data: &[u8]) {
    let servers: ServerList = match "127.0.0.1:2181".parse() {
        Ok(servers) => servers,
        Err(_) => return,
    };
    let mut now = Instant::now();
    let mut session: SessionMachine<u32> =
        SessionMachine::new(SessionSettings::default(), servers.servers(), 1, now);
    let mut bits = Bits::new(data);
    let (mut link, mut calls, mut ended, mut out) = (None, 0, 0, Vec::new());
    for _ in 0..400 {
        while let Some(action) = session.poll_action() {
            match action {
                SessionAction::Open { link: opened, .. } => {
                    session.opened(now, opened);
                    link = Some(opened);
                }
                SessionAction::Drop { .. } => link = None,
                SessionAction::Complete { .. } => ended += 1,
                SessionAction::Authenticate { .. } => unreachable!("the settings have no SASL login"),
                SessionAction::Notify { .. }
                | SessionAction::Feed { .. }
                | SessionAction::Status(_)
                | SessionAction::Probe { .. }
                | SessionAction::Log(_)
                | SessionAction::End => {}
            }
        }
        out.clear();
        session.poll_write(now, &mut out);
        if bits.is_empty() {
            break;
        }
        match bits.below(6) {
            0 => {
                now += Duration::from_millis(u64::from(bits.short()));
                session.tick(now);
            }
            1 => {
                calls += 1;
                session.submit(now, request(), calls);
            }
            2 => {
                if let Some(link) = link.take() {
                    session.lost(now, link, "cut");
                }
            }
            _ => {
                let length = usize::from(bits.short());
                let bytes = bits.take(length);
                if let Some(link) = link {
                    session.received(now, link, bytes);
                }
            }
        }
    }
    assert!(ended <= calls, "a call ends once");
}

fn request() -> SessionRequest {
    SessionRequest {
        op: OpCode::GetData,
        body: Bytes::from_static(b"\0\0\0\x02/a\0"),
        watch: None,
        disconnects_seen: 0,
        connection: None,
    }
}

/// Recorded answers behind a recorded handshake, each with its length.
pub(super) fn corpus() -> Vec<Vec<u8>> {
    let frames = corpus::client_frames(Side::Server);
    let string = |frames: &[Vec<u8>]| {
        let mut input = Vec::new();
        for frame in frames {
            let mut framed = (frame.len() as u32).to_be_bytes().to_vec();
            framed.extend_from_slice(frame);
            input.extend_from_slice(&[1, 3]);
            input.extend_from_slice(&(framed.len() as u16).to_be_bytes());
            input.extend_from_slice(&framed[..framed.len().min(usize::from(u16::MAX))]);
        }
        input
    };
    frames.chunks(8).map(string).collect()
}
