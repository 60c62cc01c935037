//! The session handshake: the first frame in each direction, without headers.

use std::sync::Arc;

use crate::ids::SessionId;
use crate::jute::{Buffer, DecodeError, Jute, Reader};
use crate::password::{PASSWORD_LENGTH, session_password};

/// Whether the client sent the read-only byte. The response has one exactly if the request had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyField {
    /// A client up to 3.3, or Go's: no such byte.
    Absent,
    /// The byte was there, with this value.
    Present(bool),
}

/// The first frame of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// Always zero; ignored.
    pub protocol_version: i32,
    /// Highest zxid that the client has seen.
    pub last_zxid_seen: i64,
    /// Session timeout that the client requests, milliseconds.
    pub timeout_ms: i32,
    /// Zero for a new session.
    pub session_id: i64,
    /// The password of the session that is resumed.
    pub password: Buffer,
    /// Whether the client accepts a read-only server.
    pub read_only: ReadOnlyField,
}

impl ConnectRequest {
    /// Detects a read-only field by the number of remaining bytes.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ConnectRequest, DecodeError> {
        Ok(ConnectRequest {
            protocol_version: reader.int()?,
            last_zxid_seen: reader.long()?,
            timeout_ms: reader.int()?,
            session_id: reader.long()?,
            password: Buffer::decode(reader)?,
            read_only: match reader.remaining() {
                0 => ReadOnlyField::Absent,
                _ => ReadOnlyField::Present(reader.boolean()?),
            },
        })
    }

    /// Appends the payload of the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.protocol_version.encode(out);
        self.last_zxid_seen.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        self.password.encode(out);
        if let ReadOnlyField::Present(read_only) = self.read_only {
            read_only.encode(out);
        }
    }
}

/// The first frame of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectResponse {
    /// The negotiated timeout; zero rejects the session.
    pub timeout_ms: i32,
    /// The session; zero rejects it.
    pub session_id: i64,
    /// Always sixteen bytes: the C client copies them without checking the length.
    pub password: [u8; PASSWORD_LENGTH],
    /// True only on a server in read-only mode; written only if the request had the field.
    pub read_only: ReadOnlyField,
}

impl ConnectResponse {
    /// The response for an accepted session.
    pub fn accepted(session: SessionId, timeout_ms: i32, read_only: ReadOnlyField) -> ConnectResponse {
        ConnectResponse {
            timeout_ms,
            session_id: session.0,
            password: session_password(session),
            read_only: answer_field(read_only),
        }
    }

    /// The response for a session that is unknown, expired or not the client's. Clients test either field.
    pub fn rejected(read_only: ReadOnlyField) -> ConnectResponse {
        ConnectResponse {
            timeout_ms: 0,
            session_id: 0,
            password: [0; PASSWORD_LENGTH],
            read_only: answer_field(read_only),
        }
    }

    /// The same response of a server in read-only mode.
    #[must_use]
    pub fn in_read_only_mode(mut self) -> ConnectResponse {
        if let ReadOnlyField::Present(read_only) = &mut self.read_only {
            *read_only = true;
        }
        self
    }

    /// Appends the payload of the frame.
    pub fn encode(&self, out: &mut Vec<u8>) {
        0i32.encode(out);
        self.timeout_ms.encode(out);
        self.session_id.encode(out);
        crate::jute::encode_bytes(&self.password, out);
        if let ReadOnlyField::Present(read_only) = self.read_only {
            read_only.encode(out);
        }
    }

    /// Decodes the payload of the frame.
    pub fn decode(reader: &mut Reader<'_>) -> Result<ConnectResponse, DecodeError> {
        let _protocol_version = reader.int()?;
        let timeout_ms = reader.int()?;
        let session_id = reader.long()?;
        let at = reader.position();
        let password = reader.buffer()?.unwrap_or_default();
        let length = password.len() as i32;
        let password = password.try_into().map_err(|_| DecodeError::BadLength { at, length })?;
        let read_only = match reader.remaining() {
            0 => ReadOnlyField::Absent,
            _ => ReadOnlyField::Present(reader.boolean()?),
        };
        Ok(ConnectResponse { timeout_ms, session_id, password, read_only })
    }
}

/// A read-write server sets the field to false, if the client sent one.
fn answer_field(request: ReadOnlyField) -> ReadOnlyField {
    match request {
        ReadOnlyField::Absent => ReadOnlyField::Absent,
        ReadOnlyField::Present(_) => ReadOnlyField::Present(false),
    }
}

/// The password in the connect request of a new client.
pub fn empty_password() -> Buffer {
    Some(Arc::from([0u8; PASSWORD_LENGTH]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_field_is_optional() {
        let mut request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 30_000,
            session_id: 0,
            password: empty_password(),
            read_only: ReadOnlyField::Present(false),
        };
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        assert_eq!(bytes.len(), 45);
        assert_eq!(ConnectRequest::decode(&mut Reader::new(&bytes)).unwrap(), request);
        request.read_only = ReadOnlyField::Absent;
        assert_eq!(ConnectRequest::decode(&mut Reader::new(&bytes[..44])).unwrap(), request);
    }

    #[test]
    fn answer_has_the_field_only_if_asked() {
        let mut bytes = Vec::new();
        ConnectResponse::rejected(ReadOnlyField::Absent).encode(&mut bytes);
        assert_eq!(bytes.len(), 36);
        bytes.clear();
        let session = SessionId(0x0100_abcd_ef12_0000);
        ConnectResponse::accepted(session, 30_000, ReadOnlyField::Present(true)).encode(&mut bytes);
        let expected = [
            0, 0, 0, 0, 0, 0, 0x75, 0x30, 1, 0, 0xab, 0xcd, 0xef, 0x12, 0, 0, 0, 0, 0, 0x10, 0x9c, 0x4f,
            0x63, 0xba, 0xf9, 0x3e, 0x34, 0x0e, 0xda, 0x51, 0x5f, 0xa0, 0x6a, 0xfe, 0xb9, 2, 0,
        ];
        assert_eq!(bytes, expected);
        for (field, expected) in [
            (ReadOnlyField::Absent, ReadOnlyField::Absent),
            (ReadOnlyField::Present(true), ReadOnlyField::Present(true)),
        ] {
            let answers =
                [ConnectResponse::accepted(session, 30_000, field), ConnectResponse::rejected(field)];
            assert!(answers.into_iter().all(|answer| answer.in_read_only_mode().read_only == expected));
        }
    }
}
