//! ACLs in the form of the command line: `scheme:id:permissions`, joined by commas. An id may have colons.

use zebu_client::{Acl, ErrorCode, Permissions};

use super::failure::{Failure, Stream};

/// The parsed entries, and the errors in the others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedAcl {
    pub(crate) entries: Vec<Acl>,
    pub(crate) errors: Vec<String>,
}

impl ParsedAcl {
    /// The error if no entry could be parsed: one line with an example.
    pub(crate) fn error(&self) -> Failure {
        let text = format!("{}; an example is world:anyone:cdrwa", self.errors.join("; "));
        let (code, path) = (ErrorCode::InvalidAcl.name(), None);
        Failure::Refused { code, path, lines: vec![(Stream::Error, text)] }
    }
}

/// Parses a list. Invalid entries are left out, with an error.
pub(crate) fn parse(text: &str) -> ParsedAcl {
    let mut parsed = ParsedAcl::default();
    for entry in text.split(',') {
        let parts = entry.split_once(':').and_then(|(scheme, rest)| {
            let (id, permissions) = rest.rsplit_once(':')?;
            Some((scheme, id, permissions))
        });
        let Some((scheme, id, letters)) = parts else {
            parsed.errors.push(format!("{entry} does not have the form scheme:id:perm"));
            continue;
        };
        let mut bits = 0;
        for letter in letters.chars() {
            match bit(letter) {
                Some(bit) => bits |= bit,
                None => parsed.errors.push(format!("Unknown perm type: {letter}")),
            }
        }
        parsed.entries.push(Acl::new(bits, scheme, id));
    }
    parsed
}

/// The permission of a letter.
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
    fn entries_and_errors() {
        let good = parse("world:anyone:r,digest:bob:x=y=:cdrwa");
        assert_eq!(good.errors, [""; 0]);
        assert_eq!(
            good.entries,
            [
                Acl::new(Permissions::READ, "world", "anyone"),
                Acl::new(Permissions::ALL, "digest", "bob:x=y=")
            ]
        );
        let bad = parse("bad,ip:127.0.0.1:rx");
        assert_eq!(bad.errors, ["bad does not have the form scheme:id:perm", "Unknown perm type: x"]);
        assert_eq!(bad.entries, [Acl::new(Permissions::READ, "ip", "127.0.0.1")]);
        assert_eq!(parse("auth::rw").entries, [Acl::new(3, "auth", "")]);
        assert_eq!(parse("world:anyone").entries, []);
        assert_eq!(parse("").errors, [" does not have the form scheme:id:perm"]);
    }
}
