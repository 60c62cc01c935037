//! The reply to a multi or multiRead, as a client decodes it: one result per operation, then the end.

use crate::client::multi::MultiHeader;
use crate::client::reply::{Create2Response, GetDataResponse};
use crate::jute::{DecodeError, Jute, Reader};
use crate::op::OpCode;
use crate::stat::Stat;

/// One result of a multi, body included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MultiReply {
    /// The operation's error code; zero for one that was rolled back because another failed.
    Error(i32),
    /// create, createIfNotExists, and create2 of servers before 3.7.2 and 3.8.2: the final path.
    Create(Box<str>),
    /// create2, createContainer, createTTL: the final path and the stat.
    Create2(Create2Response),
    /// delete, tryRemove and removeRecursive.
    Delete,
    /// setData: the new stat.
    SetData(Stat),
    /// check, checkNotExists and checkStat.
    Check,
    /// getData.
    GetData(GetDataResponse),
    /// getChildren: the names, in unspecified order.
    GetChildren(Vec<Box<str>>),
}

/// Decodes all results up to the end mark.
pub fn decode_multi_replies(reader: &mut Reader<'_>) -> Result<Vec<MultiReply>, DecodeError> {
    let mut replies = Vec::new();
    loop {
        let header = MultiHeader::decode(reader)?;
        if header.done {
            return Ok(replies);
        }
        replies.push(decode_reply(header, reader)?);
    }
}

fn decode_reply(header: MultiHeader, reader: &mut Reader<'_>) -> Result<MultiReply, DecodeError> {
    let unknown = DecodeError::Unknown { what: "result of a multi", value: header.op.into() };
    Ok(match OpCode::from_wire(header.op).ok_or(unknown.clone())? {
        OpCode::Error => MultiReply::Error(reader.int()?),
        OpCode::Create | OpCode::CreateIfNotExists => MultiReply::Create(Jute::decode(reader)?),
        OpCode::Create2 => MultiReply::Create2(Jute::decode(reader)?),
        OpCode::Delete | OpCode::TryRemove | OpCode::RemoveRecursive => MultiReply::Delete,
        OpCode::SetData => MultiReply::SetData(Jute::decode(reader)?),
        OpCode::Check | OpCode::CheckNotExists | OpCode::CheckStat => MultiReply::Check,
        OpCode::GetData => MultiReply::GetData(Jute::decode(reader)?),
        OpCode::GetChildren => MultiReply::GetChildren(Jute::decode(reader)?),
        _ => return Err(unknown),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::multi::{MULTI_END, encode_error_result, encode_result_header};
    use crate::error_code::ErrorCode;

    #[test]
    fn results_are_read_in_order() {
        let mut bytes = Vec::new();
        encode_result_header(OpCode::Check, &mut bytes);
        encode_result_header(OpCode::SetData, &mut bytes);
        Stat { version: 7, ..Stat::default() }.encode(&mut bytes);
        encode_error_result(Some(ErrorCode::NoNode), &mut bytes);
        encode_error_result(None, &mut bytes);
        MULTI_END.encode(&mut bytes);
        let replies = decode_multi_replies(&mut Reader::new(&bytes)).unwrap();
        let stat = Stat { version: 7, ..Stat::default() };
        let expected = [
            MultiReply::Check,
            MultiReply::SetData(stat),
            MultiReply::Error(ErrorCode::NoNode.wire()),
            MultiReply::Error(0),
        ];
        assert_eq!(replies, expected);
        for cut in 0..bytes.len() {
            assert!(decode_multi_replies(&mut Reader::new(&bytes[..cut])).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_result_of_another_operation_is_refused() {
        let mut bytes = Vec::new();
        encode_result_header(OpCode::Sync, &mut bytes);
        assert!(decode_multi_replies(&mut Reader::new(&bytes)).is_err());
    }
}
