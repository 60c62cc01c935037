//! Reads the first message of an election connection: the id and the addresses of the connecting
//! server. It does not decide on admission.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use zebu_proto::Reader;
use zebu_proto::quorum::InitialMessage;
use zebu_proto::quorum::election::ADDRESS_BYTES_MAX;

use super::protection::{PeerRefusal, recognize_protection};

/// Reads the initial message of a connection. A server that begins with TLS has other settings.
pub(super) async fn introduce(stream: &mut (impl AsyncRead + Unpin)) -> Result<InitialMessage, PeerRefusal> {
    let mut bytes = vec![0; 8];
    stream.read_exact(&mut bytes).await?;
    if let Some(refusal) = recognize_protection(&bytes) {
        return Err(refusal);
    }
    if bytes[0] & 0x80 != 0 {
        bytes.resize(20, 0);
        stream.read_exact(&mut bytes[8..]).await?;
        let length = i32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        let length = usize::try_from(length).ok().filter(|length| *length <= ADDRESS_BYTES_MAX);
        let Some(length) = length else { return Err(io::Error::from(io::ErrorKind::InvalidData).into()) };
        bytes.resize(20 + length, 0);
        stream.read_exact(&mut bytes[20..]).await?;
    }
    let message = InitialMessage::decode(&mut Reader::new(&bytes));
    Ok(message.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?)
}
