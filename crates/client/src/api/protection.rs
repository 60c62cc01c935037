//! The names of protected nodes: `_c_<uuid>-name`, as Curator writes them, and the broom that goes with a
//! create whose end nobody sees.

use super::client::Client;
use super::janitor::Chore;
use crate::path;

/// What every protected name starts with.
const MARK: &str = "_c_";

/// Characters of mark, id and dash.
const PREFIX_LENGTH: usize = 40;

/// The id of one protected create; all attempts carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    id: String,
}

impl Protection {
    /// A version 4 UUID from 128 random bits.
    pub(crate) fn new(high: u64, low: u64) -> Protection {
        let high = (high & !0xf000) | 0x4000;
        let low = (low & !(0b11 << 62)) | (0b10 << 62);
        let (time, middle, version) = (high >> 32, (high >> 16) & 0xffff, high & 0xffff);
        let (variant, node) = (low >> 48, low & 0xffff_ffff_ffff);
        Protection { id: format!("{time:08x}-{middle:04x}-{version:04x}-{variant:04x}-{node:012x}") }
    }

    pub(crate) fn prefix(&self) -> String {
        format!("{MARK}{}-", self.id)
    }

    pub(crate) fn apply(&self, path: &str) -> String {
        let parent = path::parent(path).unwrap_or("/");
        path::join(parent, &format!("{}{}", self.prefix(), path::name(path)))
    }
}

/// Whether a name or path is that of a protected node, of this client, Curator or a client like them.
///
/// ```
/// let name = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-0000000001";
/// assert!(zebu_client::is_protected(name));
/// assert_eq!(zebu_client::without_protection(name), "lock-0000000001");
/// ```
pub fn is_protected(path: &str) -> bool {
    let name = path::name(path).as_bytes();
    let dashes = [8, 13, 18, 23].map(|at| at + MARK.len());
    let is_id = |(at, byte): (usize, &u8)| match dashes.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    name.len() >= PREFIX_LENGTH
        && name.starts_with(MARK.as_bytes())
        && name[PREFIX_LENGTH - 1] == b'-'
        && name.iter().enumerate().take(PREFIX_LENGTH - 1).skip(MARK.len()).all(is_id)
}

/// The last name of a path, without the mark of protection.
pub fn without_protection(path: &str) -> &str {
    let name = path::name(path);
    if is_protected(name) { &name[PREFIX_LENGTH..] } else { name }
}

/// Leaves a chore to the janitor unless the call that it stands behind came to a known end.
pub(crate) struct Sweeper {
    client: Client,
    chore: Option<Chore>,
}

impl Sweeper {
    pub(crate) fn new(client: &Client, chore: Chore) -> Sweeper {
        Sweeper { client: client.clone(), chore: Some(chore) }
    }

    pub(crate) fn disarm(mut self) {
        self.chore = None;
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(chore) = self.chore.take() {
            self.client.clean_up(chore);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_curators() {
        let protection = Protection::new(0x5334_5f98_9423_fe0c, 0xa7b5_9f81_9e3e_c2e1);
        let path = protection.apply("/locks/lock-");
        assert_eq!(path, "/locks/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-");
        assert!(is_protected(&path));
        assert_eq!(without_protection(&path), "lock-");
        assert_eq!(protection.apply("/a"), format!("/{}a", protection.prefix()));
    }

    #[test]
    fn other_names_are_left_alone() {
        for name in [
            "",
            "lock-1",
            "_c_",
            "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1",
            "_c_é3345f98-9423-4e0c-a7b5-9f819e3ec2e1-x",
        ] {
            assert!(!is_protected(name), "{name}");
            assert_eq!(without_protection(name), name);
        }
    }
}
