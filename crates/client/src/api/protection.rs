//! Names of protected nodes: a prefix with a unique id, as Curator, go-zookeeper or Kazoo write it.

use super::client::Client;
use crate::path;

/// The start of every prefix except Kazoo's.
const MARK: &str = "_c_";

/// Characters of mark, UUID and dash in Curator's prefix.
const PREFIX_LENGTH: usize = 40;

/// The form of the unique prefix of a protected node; see
/// [`Create::protected_as`](super::Create::protected_as).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ProtectionStyle {
    /// `_c_<uuid>-`
    #[default]
    Curator,
    /// `_c_<32 digits>-`
    Go,
    /// `<32 digits>`
    Kazoo,
}

impl ProtectionStyle {
    /// The prefix in the name of a node that was created in this style; `None` if the name is too short.
    ///
    /// ```
    /// use zebu_client::ProtectionStyle;
    ///
    /// let name = "_c_53345f9894234e0ca7b59f819e3ec2e1-lock-0000000001";
    /// assert_eq!(ProtectionStyle::Go.prefix_of(name), Some("_c_53345f9894234e0ca7b59f819e3ec2e1-"));
    /// ```
    pub fn prefix_of(self, name: &str) -> Option<&str> {
        name.get(
            ..match self {
                ProtectionStyle::Curator => PREFIX_LENGTH,
                ProtectionStyle::Go => 36,
                ProtectionStyle::Kazoo => 32,
            },
        )
    }
}

/// The id of one protected create; every attempt uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protection {
    style: ProtectionStyle,
    id: u128,
}

impl Protection {
    /// Makes a version 4 UUID of 128 random bits.
    pub(crate) fn new(style: ProtectionStyle, bits: u128) -> Protection {
        let id = (bits & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62);
        Protection { style, id }
    }

    pub(crate) fn style(&self) -> ProtectionStyle {
        self.style
    }

    pub(crate) fn prefix(&self) -> String {
        let digits = format!("{:032x}", self.id);
        match self.style {
            ProtectionStyle::Curator => {
                let [a, b, c, d] = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20]];
                format!("{MARK}{a}-{b}-{c}-{d}-{}-", &digits[20..])
            }
            ProtectionStyle::Go => format!("{MARK}{digits}-"),
            ProtectionStyle::Kazoo => digits,
        }
    }

    pub(crate) fn apply(&self, path: &str) -> String {
        let parent = path::parent(path).unwrap_or("/");
        path::join(parent, &format!("{}{}", self.prefix(), path::name(path)))
    }
}

impl Client {
    /// A new unique prefix, for a node that a transaction creates; see [`Client::cleanup_guard`].
    pub fn unique_prefix(&self, style: ProtectionStyle) -> String {
        Protection::new(style, self.shared.unique_bits()).prefix()
    }
}

/// Whether a name or path has a prefix in Curator's style.
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

/// The last name of a path without a prefix in Curator's style.
pub fn without_protection(path: &str) -> &str {
    let name = path::name(path);
    if is_protected(name) { &name[PREFIX_LENGTH..] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: u128 = 0x5334_5f98_9423_fe0c_e7b5_9f81_9e3e_c2e1;

    #[test]
    fn names_are_curators() {
        let protection = Protection::new(ProtectionStyle::Curator, BITS);
        let path = protection.apply("/locks/lock-");
        assert_eq!(path, "/locks/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-");
        assert!(is_protected(&path));
        assert_eq!(without_protection(&path), "lock-");
        assert_eq!(protection.apply("/a"), format!("/{}a", protection.prefix()));
    }

    #[test]
    fn each_style_finds_its_own_prefix() {
        for (style, prefix) in [
            (ProtectionStyle::Curator, "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-"),
            (ProtectionStyle::Go, "_c_53345f9894234e0ca7b59f819e3ec2e1-"),
            (ProtectionStyle::Kazoo, "53345f9894234e0ca7b59f819e3ec2e1"),
        ] {
            assert_eq!(Protection::new(style, BITS).prefix(), prefix);
            assert_eq!(style.prefix_of(&format!("{prefix}lock-0000000001")), Some(prefix));
            assert_eq!(style.prefix_of("short"), None);
        }
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
