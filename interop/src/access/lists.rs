//! Random access control lists out of the ids that the connections have, ids of others, and entries that no
//! server accepts.

use zebu_client::{Acl, Id, Identity, Permissions};

use super::certificates::SUPER_SUBJECT;
use super::identities::ANY_SASL_USER;
use crate::differential::{Random, digest_id};

const MOST_ENTRIES: usize = 4;

/// Addresses and ranges: of the clients, of others, and such as are none.
const ADDRESSES: [&str; 12] = [
    "127.0.0.1",
    "127.0.0.1/32",
    "127.0.0.0/8",
    "127.0.0.2",
    "126.0.0.0/7",
    "0.0.0.0/0",
    "10.0.0.0/8",
    "10.0.0.1",
    "::1",
    "127.0.0.1/33",
    "127.0.0",
    "",
];

/// Names of x509 and SASL that no connection has, that are written in another way, or that are no names.
const OTHER_SUBJECTS: [&str; 9] = [
    "CN=nobody",
    "cn=client one,o=Zebu Test,c=DE",
    "CN=client one, O=Zebu Test, C=DE",
    "C=DE,O=Zebu Test,CN=client one",
    SUPER_SUBJECT,
    "",
    "not a name",
    "FOO=x",
    "CN=a,",
];

const OTHER_USERS: [&str; 8] = ["bob", "eve", "root", "super", "mallory", "bob@REALM", "a/b/c@R", ""];

/// Ids to choose from.
pub(super) struct Vocabulary {
    /// Ids of x509 and SASL that connections have or match.
    known: Vec<(String, String)>,
}

impl Vocabulary {
    pub(super) fn new(known: Vec<Identity>) -> Vocabulary {
        let pairs = known.into_iter().map(|identity| (identity.scheme, identity.user));
        let mut known: Vec<_> = pairs.filter(|(scheme, _)| scheme == "x509" || scheme == "sasl").collect();
        known.push(("sasl".to_owned(), ANY_SASL_USER.to_owned()));
        known.sort();
        known.dedup();
        Vocabulary { known }
    }

    /// Now and then an empty list.
    pub(super) fn list(&self, random: &mut Random) -> Vec<Acl> {
        if random.percent(2) {
            return Vec::new();
        }
        (0..=random.below(MOST_ENTRIES))
            .map(|_| Acl { perms: permissions(random), id: self.id(random) })
            .collect()
    }

    fn id(&self, random: &mut Random) -> Id {
        match random.below(100) {
            0..40 => {
                let (scheme, id) = random.pick(&self.known);
                Id::new(scheme.as_str(), id.as_str())
            }
            40..52 => Id::new("auth", *random.pick(&["", "", "", "anything"])),
            52..66 => digest_id(random.pick::<&str>(&["u1:p1", "u2:p2", "u3:p3", "u1:wrong"])),
            66..76 => Id::new("ip", *random.pick(&ADDRESSES)),
            76..84 => Id::new("x509", *random.pick(&OTHER_SUBJECTS)),
            84..92 => Id::new("sasl", *random.pick(&OTHER_USERS)),
            92..98 => Id::new("world", "anyone"),
            98 => Id::new("world", "someone"),
            _ => Id::new(*random.pick(&["super", "host", "x", ""]), "x"),
        }
    }
}

/// Often one bit alone, so that each decides.
fn permissions(random: &mut Random) -> i32 {
    match random.below(10) {
        0..5 => 1 << random.below(5),
        5 => Permissions::ALL,
        _ => random.below(32) as i32,
    }
}
