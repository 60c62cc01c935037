//! Versions of nodes as entity tags: `"<version>.<zxid>"`.
//!
//! The version is checked by the leader together with the write. The zxid tells a node from another one that
//! was created later under the same path; this server compares it before it sends the write.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use zebu_proto::Stat;

use super::problem::Problem;

/// The version of a node that a client has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag {
    /// The version of the data, or of the ACL.
    pub version: i32,
    /// `None` if the client names the version only.
    pub zxid: Option<i64>,
}

/// What a client requires of the present node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    None,
    /// `*`: any node.
    Any,
    /// A version.
    Tag(EntityTag),
}

impl EntityTag {
    /// The tag of a node's data.
    pub fn of_data(stat: &Stat) -> EntityTag {
        EntityTag { version: stat.version, zxid: Some(stat.mzxid) }
    }

    /// The tag of a node's ACL. Its zxid is that of the creation: a change of the ACL leaves no other.
    pub fn of_acl(stat: &Stat) -> EntityTag {
        EntityTag { version: stat.aversion, zxid: Some(stat.czxid) }
    }

    /// The value of the header `ETag`.
    pub fn header(self) -> HeaderValue {
        let text = match self.zxid {
            Some(zxid) => format!("\"{}.{zxid:#x}\"", self.version),
            None => format!("\"{}\"", self.version),
        };
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"?\""))
    }

    /// Whether a node with this tag is the one that the client has seen.
    pub fn matches(self, now: EntityTag) -> bool {
        self.version == now.version && self.is_same_node(now)
    }

    /// Whether the zxids do not contradict each other.
    pub fn is_same_node(self, now: EntityTag) -> bool {
        self.zxid.is_none() || self.zxid == now.zxid
    }

    fn parse(text: &str) -> Option<EntityTag> {
        let text = text.strip_prefix('"')?.strip_suffix('"')?;
        let (version, zxid) = match text.split_once('.') {
            Some((version, zxid)) => {
                let digits = zxid.strip_prefix("0x")?;
                (version, Some(i64::from_str_radix(digits, 16).ok()?))
            }
            None => (text, None),
        };
        Some(EntityTag { version: version.parse().ok()?, zxid })
    }
}

/// The condition of `If-Match`. A weak tag never matches.
pub fn if_match(headers: &HeaderMap) -> Result<Condition, Problem> {
    let weak = "a weak tag never matches in If-Match";
    match single(headers, header::IF_MATCH)? {
        Some(text) if text.starts_with("W/") => {
            Err(Problem::new(StatusCode::PRECONDITION_FAILED, "BADVERSION", weak))
        }
        text => condition(text, "If-Match"),
    }
}

/// The condition of `If-None-Match`.
pub(crate) fn if_none_match(headers: &HeaderMap) -> Result<Condition, Problem> {
    let text = single(headers, header::IF_NONE_MATCH)?;
    condition(text.map(|text| text.trim_start_matches("W/")), "If-None-Match")
}

fn single(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Problem> {
    let mut values = headers.get_all(&name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(Problem::bad_request(format!("the header {name} cannot be read"))),
        },
        (Some(_), Some(_)) => Err(Problem::bad_request(format!("there are two headers {name}"))),
    }
}

fn condition(text: Option<&str>, name: &str) -> Result<Condition, Problem> {
    match text {
        None => Ok(Condition::None),
        Some("*") => Ok(Condition::Any),
        Some(text) => EntityTag::parse(text).map(Condition::Tag).ok_or_else(|| {
            Problem::bad_request(format!("{name} must be * or one tag such as \"7.0x500000012\" or \"7\""))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_back_as_they_are_written() {
        let tag = EntityTag { version: 7, zxid: Some(0x5_0000_0012) };
        assert_eq!(tag.header(), "\"7.0x500000012\"");
        for tag in [tag, EntityTag { version: -3, zxid: None }, EntityTag { version: 0, zxid: Some(0) }] {
            assert_eq!(EntityTag::parse(tag.header().to_str().unwrap()), Some(tag));
        }
        for bad in ["7", "\"7", "\"\"", "\"7.12\"", "\"x\"", "\"7.0xg\"", "\"1\", \"2\"", "\"99999999999\""] {
            assert_eq!(EntityTag::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_node_created_again_is_another_one() {
        let seen = EntityTag { version: 0, zxid: Some(5) };
        assert!(seen.matches(EntityTag { version: 0, zxid: Some(5) }));
        assert!(!seen.matches(EntityTag { version: 0, zxid: Some(9) }));
        assert!(EntityTag { version: 0, zxid: None }.matches(EntityTag { version: 0, zxid: Some(9) }));
    }

    #[test]
    fn conditions_of_a_request() {
        let headers = |value: &str| HeaderMap::from_iter([(header::IF_MATCH, value.parse().unwrap())]);
        assert_eq!(if_match(&headers("*")).unwrap(), Condition::Any);
        assert_eq!(if_match(&headers("W/\"1.0x1\"")).unwrap_err().status, 412);
        assert_eq!(if_match(&headers("one")).unwrap_err().status, 400);
        assert_eq!(if_match(&HeaderMap::new()).unwrap(), Condition::None);
    }
}
