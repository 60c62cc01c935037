//! When bytes have reached this machine, by the notes of its kernel.
//!
//! To wake up for each of a thousand messages would take the processor from the server that sends them, if
//! both share a machine. With the notes everything can be received later.

use std::io::{self, IoSliceMut};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

/// Bytes that are received at a time: one event.
const BYTES: usize = 4096;

/// How often it is tried whether the kernel notes, and how long between that.
const TRIES_MAX: usize = 200;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// From now on the kernel notes when bytes come on these. It takes a moment to begin, so that is waited for.
pub(crate) async fn note(streams: impl IntoIterator<Item = &TcpStream>) -> io::Result<()> {
    for stream in streams {
        setsockopt(stream, sockopt::ReceiveTimestampns, &true)?;
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let receiver = TcpStream::connect(listener.local_addr()?).await?;
    let (mut sender, _) = listener.accept().await?;
    setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
    let mut tries = 0;
    loop {
        sender.write_all(b"?").await?;
        receiver.readable().await?;
        match receive(&receiver, &mut Vec::new()) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported && tries < TRIES_MAX => tries += 1,
            other => return other.map(drop),
        }
        tokio::time::sleep(BETWEEN_TRIES).await;
    }
}

/// Receives what is there, and says when the last of it has come; nothing if nothing is there.
pub(crate) fn receive(stream: &TcpStream, received: &mut Vec<u8>) -> io::Result<Option<SystemTime>> {
    let mut bytes = [0; BYTES];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut notes = nix::cmsg_space!(TimeSpec);
    let (length, at) =
        match recvmsg::<()>(stream.as_raw_fd(), &mut parts, Some(&mut notes), MsgFlags::MSG_DONTWAIT) {
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(message) if message.bytes == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(message) => {
                let at = message.cmsgs()?.find_map(|note| match note {
                    ControlMessageOwned::ScmTimestampns(at) => {
                        Some(SystemTime::UNIX_EPOCH + Duration::from(at))
                    }
                    _ => None,
                });
                (message.bytes, at)
            }
        };
    received.extend_from_slice(&bytes[..length]);
    let missing = "the kernel does not note when bytes come (SO_TIMESTAMPNS)";
    at.map(Some).ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_have_the_time_at_which_they_came_and_not_at_which_they_are_taken() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let receiver = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut sender, _) = listener.accept().await.unwrap();
        note([&receiver]).await.unwrap();
        let mut received = Vec::new();
        assert_eq!(receive(&receiver, &mut received).unwrap(), None, "nothing was sent");
        let before = SystemTime::now();
        sender.write_all(b"event").await.unwrap();
        receiver.readable().await.unwrap();
        let after = SystemTime::now();
        tokio::time::sleep(Duration::from_millis(2)).await;
        let at = receive(&receiver, &mut received).unwrap().unwrap();
        assert!(before <= at && at <= after, "{before:?} {at:?} {after:?}");
        assert_eq!(received, b"event");
        drop(sender);
        receiver.readable().await.unwrap();
        let error = receive(&receiver, &mut received).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
