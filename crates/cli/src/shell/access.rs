//! ACLs as they are typed: `scheme:id:permissions`, joined by commas. An id may have colons.

use zebu_client::{Acl, ErrorCode, Permissions};

use super::failure::{Failure, Stream};

/// What could be read, and what is to be said about the rest.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadAcl {
    pub(crate) entries: Vec<Acl>,
    pub(crate) complaints: Vec<String>,
}

impl ReadAcl {
    /// The error if no entry could be parsed: one line with an example.
    pub(crate) fn refusal(&self) -> Failure {
        let text = format!("{}; an example is world:anyone:cdrwa", self.complaints.join("; "));
        let (code, path) = (ErrorCode::InvalidAcl.name(), None);
        Failure::Refused { code, path, lines: vec![(Stream::Error, text)] }
    }
}

/// Reads a list. Entries that are none are left out, with a complaint.
pub(crate) fn read(text: &str) -> ReadAcl {
    let mut read = ReadAcl::default();
    for entry in text.split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| {
            let (id, permissions) = rest.rsplit_once(':')?;
            Some((scheme, id, permissions))
        });
        let Some((scheme, id, letters)) = parts else {
            read.complaints.push(format!("{entry} does not have the form scheme:id:perm"));
            continue;
        };
        let mut bits = 0;
        for letter in letters.chars() {
            match bit(letter) {
                Some(bit) => bits |= bit,
                None => read.complaints.push(format!("Unknown perm type: {letter}")),
            }
        }
        read.entries.push(Acl::new(bits, scheme, id));
    }
    read
}

/// The permission that a letter stands for.
pub(crate) fn bit(letter: char) -> Option<i32> {
    Some(match letter {
        'r' => Permissions::READ,
        'w' => Permissions::WRITE,
        'c' => Permissions::CREATE,
        'd' => Permissions::DELETE,
        'a' => Permissions::ADMIN,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_complaints() {
        let good = read("world:anyone:r,digest:bob:x=y=:cdrwa");
        assert_eq!(good.complaints, [""; 0]);
        assert_eq!(
            good.entries,
            [
                Acl::new(Permissions::READ, "world", "anyone"),
                Acl::new(Permissions::ALL, "digest", "bob:x=y=")
            ]
        );
        let bad = read("bad,ip:127.0.0.1:rx");
        assert_eq!(bad.complaints, ["bad does not have the form scheme:id:perm", "Unknown perm type: x"]);
        assert_eq!(bad.entries, [Acl::new(Permissions::READ, "ip", "127.0.0.1")]);
        assert_eq!(read("auth::rw").entries, [Acl::new(3, "auth", "")]);
        assert_eq!(read("world:anyone").entries, []);
        assert_eq!(read("").complaints, [" does not have the form scheme:id:perm"]);
    }
}
