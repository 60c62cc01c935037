//! Unique ids for nodes: 128 random bits as text.

use zebu_client::Client;

/// A UUID in the two forms that layouts use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UniqueId(u128);

impl UniqueId {
    /// A new version 4 UUID. A client with a fixed seed makes it reproducible.
    pub(crate) fn new(client: &Client) -> UniqueId {
        UniqueId::from_bits(client.unique_bits())
    }

    /// A new version 4 UUID of the operating system, where there is no client.
    pub(crate) fn random() -> UniqueId {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has randomness; without it nothing here is safe");
        UniqueId::from_bits(u128::from_be_bytes(bytes))
    }

    fn from_bits(bits: u128) -> UniqueId {
        UniqueId((bits & !(0xf << 76) & !(0b11 << 62)) | (0x4 << 76) | (0b10 << 62))
    }

    /// The form with dashes.
    pub(crate) fn dashed(self) -> String {
        let hex = self.hex();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// The form of 32 digits.
    pub(crate) fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_those_of_a_version_4_uuid() {
        let id = UniqueId::random();
        let (dashed, hex) = (id.dashed(), id.hex());
        assert_eq!((dashed.len(), hex.len()), (36, 32));
        assert_eq!(dashed.replace('-', ""), hex);
        assert_eq!(&dashed[14..15], "4");
        assert!("89ab".contains(&dashed[19..20]));
        assert_ne!(id, UniqueId::random());
    }
}
