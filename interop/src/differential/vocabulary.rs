//! The words that requests are made of: a small set of paths, so that requests meet, and values both good
//! and bad. It decides nothing about operations.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};
use zebu_proto::{Acl, Id, Permissions};

use super::random::Random;

/// A string as bytes, because clients may send what is no UTF-8; `None` is null.
pub(crate) type RawText = Option<Vec<u8>>;

const NAMES: &[&str] = &["a", "b", "c"];

/// Roots whose quota is set now and then. Only these names: see [`is_deadly`].
const QUOTA_PATHS: &[&str] = &[
    "/zookeeper/quota/a",
    "/zookeeper/quota/a/zookeeper_limits",
    "/zookeeper/quota/a/zookeeper_stats",
    "/zookeeper/quota/a/b",
    "/zookeeper/quota/a/b/zookeeper_limits",
    "/zookeeper/quota/a/b/zookeeper_stats",
];

const SYSTEM_PATHS: &[&str] = &["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", "/zookeeper/a"];

const BAD_PATHS: &[&[u8]] = &[
    b"",
    b"a",
    b"a/b",
    b"/a/",
    b"//",
    b"/a//b",
    b"/.",
    b"/a/..",
    b"/a/./b",
    b"/...",
    b"/a\0b",
    b"/a\x01",
    b"/a\x7f",
    b"/\xc2\x85",
    b"/\xee\x80\x80",
    b"/\xef\xbf\xb0",
    b"/\xf0\x9f\x98\x80",
    b"/\xed\xa0\xbd\xed\xb8\x80",
    b"/\xff",
    b"/a/\xc3",
    b"/\xc3\xa9",
    b"/a b",
    b"/zookeeper/",
];

/// Quota texts. Anything else in a quota node makes Apache fail while it applies a transaction.
const QUOTA_TEXTS: &[&str] =
    &["count=5,bytes=-1", "count=-1,bytes=100", "count=2,bytes=20=;byteHardLimit=1000;countHardLimit=10"];

/// Users of the digest scheme, as auth packets carry them.
pub(crate) const USERS: &[&str] = &["u1:p1", "u2:p2", "u3:"];

/// The super user that both servers are configured with.
pub(crate) const SUPER_USER: &str = "super:admin";

/// The value of `zookeeper.DigestAuthenticationProvider.superDigest` for it.
pub(crate) const SUPER_DIGEST: &str = "super:xQJmxLMiHGwaqBvst5y6rkB6HQs=";

/// A path of the small universe, up to three levels deep.
pub(crate) fn plain_path(random: &mut Random) -> String {
    let depth = random.weighted(&[(45, 1), (40, 2), (15, 3)]);
    (0..depth).map(|_| format!("/{}", random.pick(NAMES))).collect()
}

/// Any path; `known` are paths that servers have made up (sequential names).
pub(crate) fn path(random: &mut Random, known: &[String]) -> RawText {
    let text = match random.below(100) {
        0..66 => plain_path(random),
        66..76 if !known.is_empty() => random.pick(known).clone(),
        76..81 if !known.is_empty() => format!("{}/{}", random.pick(known), random.pick(NAMES)),
        66..86 => random.pick(QUOTA_PATHS).to_string(),
        86..94 => random.pick(SYSTEM_PATHS).to_string(),
        94..98 => return Some(random.pick(BAD_PATHS).to_vec()),
        98 => return None,
        _ => format!("{}/", plain_path(random)),
    };
    Some(text.into_bytes())
}

/// Data for the node at `path`.
pub(crate) fn data(random: &mut Random, path: &RawText) -> Option<Vec<u8>> {
    if path.as_ref().is_some_and(|path| path.starts_with(b"/zookeeper/quota")) {
        return Some(random.pick(QUOTA_TEXTS).as_bytes().to_vec());
    }
    match random.below(10) {
        0 => None,
        1 => Some(Vec::new()),
        2 => Some(vec![b'x'; random.below(300)]),
        _ => Some(vec![b'0' + random.below(10) as u8; random.below(4)]),
    }
}

/// An expected version: mostly none, otherwise small enough to be right now and then.
pub(crate) fn version(random: &mut Random) -> i32 {
    random.weighted(&[
        (60, -1),
        (14, 0),
        (10, 1),
        (6, 2),
        (4, 3),
        (2, 4),
        (2, -2),
        (1, i32::MAX),
        (1, i32::MIN),
    ])
}

/// An access control list; `None` is null.
pub(crate) fn acl(random: &mut Random) -> Option<Vec<Acl>> {
    match random.below(100) {
        0..68 => Some(Acl::open()),
        68 => None,
        69 => Some(Vec::new()),
        70..74 => Some(Acl::read_only()),
        74..92 => Some(vec![entry(random)]),
        _ => Some((0..2 + random.below(2)).map(|_| entry(random)).collect()),
    }
}

fn entry(random: &mut Random) -> Acl {
    let perms = match random.below(10) {
        0..4 => Permissions::ALL,
        4 => *random.pick(&[0, 64, -1, 1 << 20]),
        _ => random.below(32) as i32,
    };
    let id = match random.below(20) {
        0..5 => Id::new("world", "anyone"),
        5..9 => digest_id(random.pick::<&str>(USERS)),
        9..12 => Id::new("auth", ""),
        12..14 => Id::new("ip", "127.0.0.1"),
        14 => Id::new("ip", *random.pick(&["127.0.0.0/8", "10.0.0.0/8", "10.0.0.1", "::1", "0.0.0.0/0"])),
        15 => Id::new("ip", *random.pick(&["127.0.0.1/33", "127.0.0", "x", "", "127.0.0.1/", "1.2.3.4/-1"])),
        16 => Id::new("digest", *random.pick(&["a:b", ":b", "a:b:", "a:", ":", "a", "a:b:c", ""])),
        17 => Id::new(*random.pick(&["world", "super", "sasl", "x509", "nobody", ""]), "x"),
        18 => Id { scheme: None, id: Some("x".into()) },
        _ => Id { scheme: Some((*random.pick(&["world", "digest", "ip", "auth"])).into()), id: None },
    };
    Acl { perms, id }
}

/// The id that a digest credential turns into.
pub(crate) fn digest_id(user_and_password: &str) -> Id {
    let user = user_and_password.split(':').next().unwrap_or_default();
    Id::new("digest", format!("{user}:{}", STANDARD.encode(Sha1::digest(user_and_password))))
}

/// Requests that end an Apache server for good, because the transaction that it cannot apply is in its log:
/// a limits node directly below `/zookeeper/quota` (it would be a quota on the empty path), or one below
/// `/zookeeper` and outside of quota (its deletion cuts a prefix that is not there).
pub(crate) fn is_deadly(path: &RawText) -> bool {
    let Some(path) = path else { return false };
    let Some(parent) = path.strip_suffix(b"/zookeeper_limits").or(path.strip_suffix(b"/zookeeper_stats"))
    else {
        return false;
    };
    parent.starts_with(b"/zookeeper") && !parent.starts_with(b"/zookeeper/quota/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_zookeeper() {
        assert!(digest_id("user:pass").is("digest", "user:smGaoVKd/cQkjm7b88GyorAUz20="));
        assert!(digest_id(SUPER_USER).is("digest", SUPER_DIGEST));
    }

    #[test]
    fn deadly_paths_are_never_drawn() {
        assert!(is_deadly(&Some(b"/zookeeper/quota/zookeeper_limits".to_vec())));
        assert!(!is_deadly(&Some(b"/zookeeper/quota/a/zookeeper_limits".to_vec())));
        let mut random = Random::new(1);
        let known = vec!["/zookeeper/quota/a0000000001".to_owned()];
        for _ in 0..10_000 {
            let path = path(&mut random, &known);
            assert!(!is_deadly(&path), "{path:?}");
        }
    }
}
