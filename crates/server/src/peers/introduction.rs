//! Reads the first message of an election connection: the id and the addresses of the connecting
//! server. It does not decide on admission.

use std::io;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use zebu_proto::Reader;
use zebu_proto::quorum::InitialMessage;
use zebu_proto::quorum::election::ADDRESS_BYTES_MAX;

use super::dial::prepare_for_election;

/// Reads the initial message of a connection.
pub(super) async fn introduce(
    mut stream: TcpStream,
    keep_alive: bool,
) -> io::Result<(InitialMessage, TcpStream)> {
    prepare_for_election(&stream, keep_alive)?;
    let mut bytes = vec![0; 8];
    stream.read_exact(&mut bytes).await?;
    if bytes[0] & 0x80 != 0 {
        bytes.resize(20, 0);
        stream.read_exact(&mut bytes[8..]).await?;
        let length = i32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        let length = usize::try_from(length).ok().filter(|length| *length <= ADDRESS_BYTES_MAX);
        let Some(length) = length else { return Err(io::ErrorKind::InvalidData.into()) };
        bytes.resize(20 + length, 0);
        stream.read_exact(&mut bytes[20..]).await?;
    }
    let message = InitialMessage::decode(&mut Reader::new(&bytes));
    let message = message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((message, stream))
}
