//! with: a read that says how fresh its answer must be. The options stand before the operation code and the
//! body of the read. The reply is that of the read.

use crate::client::request::RequestError;
use crate::ids::Zxid;
use crate::jute::{Jute, Reader};
use crate::op::OpCode;

const LINEARIZABLE: i32 = 1;
const MAX_AGE: i32 = 2;
const MIN_ZXID: i32 = 4;

/// How fresh the answer to a read must be. Without an option any state will do that the session may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The answer shows every transaction that was answered to any client before the request was sent.
    pub linearizable: bool,
    /// The answer shows every transaction that was answered to any client this many milliseconds before.
    pub max_age_ms: Option<i32>,
    /// The answer shows this transaction.
    pub min_zxid: Option<Zxid>,
}

impl Freshness {
    /// The strictest option.
    pub const LINEARIZABLE: Freshness = Freshness { linearizable: true, max_age_ms: None, min_zxid: None };

    /// Whether any state will do.
    pub const fn is_any(&self) -> bool {
        !self.linearizable && self.max_age_ms.is_none() && self.min_zxid.is_none()
    }

    /// Appends the options.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let bit = |is_set: bool, bit: i32| if is_set { bit } else { 0 };
        let options = bit(self.linearizable, LINEARIZABLE)
            | bit(self.max_age_ms.is_some(), MAX_AGE)
            | bit(self.min_zxid.is_some(), MIN_ZXID);
        options.encode(out);
        if let Some(max_age_ms) = self.max_age_ms {
            max_age_ms.encode(out);
        }
        if let Some(min_zxid) = self.min_zxid {
            min_zxid.0.encode(out);
        }
    }

    /// Decodes the options. A bit that this release does not know is refused: it may ask for more.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Freshness, RequestError> {
        let options = reader.int()?;
        if options & !(LINEARIZABLE | MAX_AGE | MIN_ZXID) != 0 {
            return Err(RequestError::BadArguments);
        }
        let max_age_ms = if options & MAX_AGE != 0 { Some(reader.int()?) } else { None };
        let min_zxid = if options & MIN_ZXID != 0 { Some(Zxid(reader.long()?)) } else { None };
        if max_age_ms.is_some_and(|age_ms| age_ms < 0) {
            return Err(RequestError::BadArguments);
        }
        Ok(Freshness { linearizable: options & LINEARIZABLE != 0, max_age_ms, min_zxid })
    }
}

/// Whether the freshness of this read can be asked for.
pub(super) const fn is_read_with_freshness(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::Exists
            | OpCode::GetData
            | OpCode::GetAcl
            | OpCode::GetChildren
            | OpCode::GetChildren2
            | OpCode::MultiRead
            | OpCode::GetEphemerals
            | OpCode::GetAllChildrenNumber
            | OpCode::AddWatch
            | OpCode::GetChildrenPaginated
            | OpCode::Page
            | OpCode::Scan
    )
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::client::read::{ReadRequest, Watch};
    use crate::client::request::Request;

    const WITH: i32 = 0x5A42_0001;
    const GET: [u8; 11] = [0, 0, 0, 4, 0, 0, 0, 2, b'/', b'a', 0];

    fn decode<'a>(bytes: &'a [u8]) -> Result<Request<'a>, RequestError> {
        Request::decode(WITH, &mut Reader::new(bytes))
    }

    fn with(options: &[u8], read: &[u8]) -> Vec<u8> {
        [options, read].concat()
    }

    #[test]
    fn options_stand_before_the_read() {
        let all = Freshness { linearizable: true, max_age_ms: Some(5), min_zxid: Some(Zxid(9)) };
        let mut bytes = Vec::new();
        all.encode(&mut bytes);
        assert_eq!(bytes, [0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9]);
        let read = ReadRequest::GetData(Cow::Borrowed("/a"), Watch::None);
        assert_eq!(decode(&with(&bytes, &GET)), Ok(Request::With(all, read.clone())));
        let plain = with(&[0; 4], &GET);
        assert_eq!(decode(&plain), Ok(Request::With(Freshness::default(), read)));
    }

    #[test]
    fn unknown_options_and_ages_below_zero_are_refused() {
        assert_eq!(decode(&with(&[0, 0, 0, 8], &GET)), Err(RequestError::BadArguments));
        assert_eq!(decode(&with(&[0x80, 0, 0, 1], &GET)), Err(RequestError::BadArguments));
        assert_eq!(decode(&with(&[0, 0, 0, 2, 255, 255, 255, 255], &GET)), Err(RequestError::BadArguments));
    }

    #[test]
    fn only_reads_can_be_fresh() {
        for op in [1i32, 5, 9, 11, 14, 100, 101, 107, 4711, WITH, 0x5A42_0004] {
            let mut bytes = vec![0, 0, 0, 1];
            op.encode(&mut bytes);
            bytes.extend_from_slice(&[0; 32]);
            assert_eq!(decode(&bytes), Err(RequestError::BadArguments), "{op}");
        }
    }

    #[test]
    fn a_body_that_is_cut_short_does_not_decode() {
        let whole = with(&[0, 0, 0, 1], &GET);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), Err(RequestError::Undecodable), "{length}");
        }
    }
}
