//! A server that does nothing: every frame is answered at once by one of a fixed size. What it reaches is
//! what the kernel and the runtime allow on a machine, and no real server can be above it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zebu_proto::client::ReplyHeader;
use zebu_proto::client::connect::{ConnectResponse, ReadOnlyField};
use zebu_proto::frame::{self, Framed, LENGTH_SIZE};
use zebu_proto::{Jute, SessionId};

const READ_BYTES: usize = 64 * 1024;
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Serves for ever: `body_bytes` behind the header of each reply.
pub async fn serve_echo(listener: TcpListener, body_bytes: usize) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move { answer(stream, body_bytes).await.ok() });
    }
}

async fn answer(mut stream: TcpStream, body_bytes: usize) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut received, mut out) = (Vec::new(), Vec::new());
    let mut reply = connected();
    loop {
        received.reserve(READ_BYTES);
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        let mut used = 0;
        while let Framed::Complete { length } = frame::peek(&received[used..], FRAME_BYTES_MAX) {
            let payload = &received[used + LENGTH_SIZE..used + LENGTH_SIZE + length];
            if reply.is_empty() {
                let xid = payload.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
                frame::write_frame(&mut out, |out| {
                    ReplyHeader { xid, zxid: 1, err: 0 }.encode(out);
                    out.resize(out.len() + body_bytes, 0);
                });
            } else {
                // The first frame asks for a session.
                out.append(&mut reply);
            }
            used += LENGTH_SIZE + length;
        }
        received.drain(..used);
        stream.write_all(&out).await?;
        out.clear();
    }
}

/// The frame that gives a session.
fn connected() -> Vec<u8> {
    let response = ConnectResponse::accepted(SessionId(1), 30_000, ReadOnlyField::Present(false));
    let mut out = Vec::new();
    frame::write_frame(&mut out, |out| response.encode(out));
    out
}
