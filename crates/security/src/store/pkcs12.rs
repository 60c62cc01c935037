//! The PKCS12 format: bags of keys and certificates under a MAC.

use ring::{digest, hmac};
use zeroize::Zeroizing;

use super::pbe::{self, EncodedPassword, Pkcs12Purpose, RoundBudget};
use super::{KeyEntry, StoreContents, StoreError, StoreInput, StoreLimits, StoredKey, TrustedEntry};
use super::{check_certificate, check_entries};
use crate::der::{self, DerError, DerReader, dotted};
use crate::secret::SecretBytes;

const FILE: &str = "the PKCS12 store";
const DATA: &str = "1.2.840.113549.1.7.1";
const ENCRYPTED_DATA: &str = "1.2.840.113549.1.7.6";

/// Whether the bytes begin like a PFX: a sequence that opens with version 3.
pub(super) fn looks_like_pfx(bytes: &[u8]) -> bool {
    let outer = DerReader::new(bytes).enter(der::SEQUENCE);
    outer.is_ok_and(|mut reader| reader.number() == Ok(3))
}

pub(super) fn read(input: &StoreInput<'_>) -> Result<StoreContents, StoreError> {
    let malformed = |error| StoreError::der(FILE, error);
    let mut file = DerReader::new(input.bytes);
    let mut reader = file.enter(der::SEQUENCE).map_err(malformed)?;
    file.finish().map_err(malformed)?;
    if reader.number().map_err(malformed)? != 3 {
        return Err(StoreError::malformed(FILE, "its version is not 3"));
    }
    let mut safe = reader.enter(der::SEQUENCE).map_err(malformed)?;
    let kind = dotted(safe.expect(der::OBJECT_IDENTIFIER).map_err(malformed)?);
    if kind != DATA {
        return Err(StoreError::Unsupported {
            place: FILE.to_owned(),
            feature: format!("content type {kind}"),
            remedy: "use a store with password integrity".to_owned(),
        });
    }
    let authenticated = octets(safe).map_err(malformed)?;
    let mut budget = RoundBudget::new(&input.limits);
    let password = check_mac(reader, authenticated, input, &mut budget)?;

    let contents = StoreContents::default();
    let mut bags = BagReader { password, budget, limits: input.limits, contents, entries: 0 };
    let mut infos = DerReader::new(authenticated).enter(der::SEQUENCE).map_err(malformed)?;
    while !infos.is_empty() {
        bags.count_entry()?;
        bags.read_content(infos.enter(der::SEQUENCE).map_err(malformed)?)?;
    }
    bags.decrypt_first_key()?;
    Ok(bags.contents)
}

/// The octets of a ContentInfo with type data.
fn octets<'a>(mut info: DerReader<'a>) -> Result<&'a [u8], DerError> {
    info.enter(der::context(0))?.expect(der::OCTET_STRING)
}

/// Verifies the MAC and returns the encoding of the password that fits.
fn check_mac(
    mut reader: DerReader<'_>,
    authenticated: &[u8],
    input: &StoreInput<'_>,
    budget: &mut RoundBudget,
) -> Result<EncodedPassword, StoreError> {
    if reader.is_empty() {
        return Err(StoreError::MacMissing);
    }
    let mut fields = || {
        let mut mac = reader.enter(der::SEQUENCE)?;
        let mut info = mac.enter(der::SEQUENCE)?;
        let algorithm = info.enter(der::SEQUENCE)?.expect(der::OBJECT_IDENTIFIER)?;
        let expected = info.expect(der::OCTET_STRING)?;
        let salt = mac.expect(der::OCTET_STRING)?;
        let rounds = if mac.is_empty() { 1 } else { mac.number()? };
        Ok((algorithm, expected, salt, rounds))
    };
    let (algorithm, expected, salt, rounds) = fields().map_err(|error| StoreError::der(FILE, error))?;
    let (hash, mac): (&digest::Algorithm, hmac::Algorithm) = match dotted(algorithm).as_str() {
        "1.3.14.3.2.26" => (&digest::SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        "2.16.840.1.101.3.4.2.1" => (&digest::SHA256, hmac::HMAC_SHA256),
        "2.16.840.1.101.3.4.2.2" => (&digest::SHA384, hmac::HMAC_SHA384),
        "2.16.840.1.101.3.4.2.3" => (&digest::SHA512, hmac::HMAC_SHA512),
        other => {
            return Err(StoreError::Unsupported {
                place: FILE.to_owned(),
                feature: format!("MAC algorithm {other}"),
                remedy: "write it again with `openssl pkcs12 -export -macalg sha256`".to_owned(),
            });
        }
    };
    let mut candidates = vec![EncodedPassword::new(input.password)];
    if input.password.is_empty() {
        candidates.push(EncodedPassword::absent());
    }
    for candidate in candidates {
        let rounds = budget.spend(rounds, FILE)?;
        let key =
            pbe::pkcs12_derive(hash, Pkcs12Purpose::Mac, candidate.bmp(), salt, rounds, hash.output_len());
        if hmac::verify(&hmac::Key::new(mac, &key), authenticated, expected).is_ok() {
            return Ok(candidate);
        }
    }
    Err(StoreError::WrongPassword { place: FILE.to_owned() })
}

struct BagReader {
    password: EncodedPassword,
    budget: RoundBudget,
    limits: StoreLimits,
    contents: StoreContents,
    /// Parts and bags, those that are ignored too: each may leave a note.
    entries: usize,
}

/// Name and marks of a bag.
#[derive(Default)]
struct BagAttributes {
    name: Option<String>,
    is_trusted: bool,
}

impl BagReader {
    fn count_entry(&mut self) -> Result<(), StoreError> {
        self.entries += 1;
        check_entries(self.entries, &self.limits)
    }

    fn read_content(&mut self, mut info: DerReader<'_>) -> Result<(), StoreError> {
        let malformed = |error| StoreError::der(FILE, error);
        match dotted(info.expect(der::OBJECT_IDENTIFIER).map_err(malformed)?).as_str() {
            DATA => self.read_bags(octets(info).map_err(malformed)?),
            ENCRYPTED_DATA => {
                let mut fields = || {
                    let mut data = info.enter(der::context(0))?.enter(der::SEQUENCE)?;
                    data.number()?;
                    let mut encrypted = data.enter(der::SEQUENCE)?;
                    encrypted.expect(der::OBJECT_IDENTIFIER)?;
                    let algorithm = encrypted.expect(der::SEQUENCE)?;
                    Ok((algorithm, encrypted.expect(0x80)?))
                };
                let (algorithm, cipher_text) = fields().map_err(malformed)?;
                let plain = pbe::decrypt(FILE, algorithm, cipher_text, &self.password, &mut self.budget)?;
                self.read_bags(&plain)
            }
            other => {
                self.contents.notes.push(format!("content of type {other} in the PKCS12 store is ignored"));
                Ok(())
            }
        }
    }

    fn read_bags(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let malformed = |error| StoreError::der(FILE, error);
        let mut bags = DerReader::new(bytes).enter(der::SEQUENCE).map_err(malformed)?;
        while !bags.is_empty() {
            let mut fields = || {
                let mut bag = bags.enter(der::SEQUENCE)?;
                let kind = bag.expect(der::OBJECT_IDENTIFIER)?;
                let value = bag.enter(der::context(0))?;
                let attributes = bag.optional(der::SET)?.unwrap_or_default();
                Ok((dotted(kind), value, read_attributes(attributes)?))
            };
            let (kind, value, attributes) = fields().map_err(malformed)?;
            self.count_entry()?;
            self.add_bag(&kind, value, attributes)?;
        }
        Ok(())
    }

    fn add_bag(
        &mut self,
        kind: &str,
        mut value: DerReader<'_>,
        attributes: BagAttributes,
    ) -> Result<(), StoreError> {
        let place = match &attributes.name {
            Some(name) => format!("alias {}", name.escape_debug()),
            None => "an entry without alias".to_owned(),
        };
        let malformed = |error| StoreError::der(&place, error);
        match kind {
            "1.2.840.113549.1.12.10.1.1" => {
                let key = value.element().map_err(malformed)?.whole.to_vec();
                self.add_key(place, StoredKey::Pkcs8(SecretBytes::new(key)));
            }
            "1.2.840.113549.1.12.10.1.2" => {
                let key = value.element().map_err(malformed)?.whole.to_vec();
                self.add_key(place, StoredKey::Encrypted(key));
            }
            "1.2.840.113549.1.12.10.1.3" => {
                let mut fields = || {
                    let mut bag = value.enter(der::SEQUENCE)?;
                    let kind = bag.expect(der::OBJECT_IDENTIFIER)?;
                    Ok((dotted(kind), bag.enter(der::context(0))?.expect(der::OCTET_STRING)?))
                };
                let (kind, certificate) = fields().map_err(malformed)?;
                if kind != "1.2.840.113549.1.9.22.1" {
                    self.contents.notes.push(format!("{place} is no X.509 certificate and is ignored"));
                    return Ok(());
                }
                let certificate = check_certificate(&place, certificate)?;
                let list = match attributes.is_trusted {
                    true => &mut self.contents.trusted,
                    false => &mut self.contents.unassigned,
                };
                list.push(TrustedEntry { place, certificate });
            }
            other => self.contents.notes.push(format!("{place} has bag type {other} and is ignored")),
        }
        Ok(())
    }

    fn add_key(&mut self, place: String, key: StoredKey) {
        self.contents.keys.push(KeyEntry { place, key, chain: Vec::new() });
    }

    /// Decrypts the key that will be used. Other keys stay encrypted.
    fn decrypt_first_key(&mut self) -> Result<(), StoreError> {
        let Some(entry) = self.contents.keys.first_mut() else { return Ok(()) };
        if let StoredKey::Encrypted(encrypted) = &entry.key {
            let plain = decrypt_key(&entry.place, encrypted, &self.password, &mut self.budget)?;
            entry.key = StoredKey::Pkcs8(plain);
        }
        Ok(())
    }
}

/// Decrypts an EncryptedPrivateKeyInfo.
pub(super) fn decrypt_key(
    place: &str,
    encrypted: &[u8],
    password: &EncodedPassword,
    budget: &mut RoundBudget,
) -> Result<SecretBytes, StoreError> {
    let fields = || {
        let mut outer = DerReader::new(encrypted).enter(der::SEQUENCE)?;
        Ok((outer.expect(der::SEQUENCE)?, outer.expect(der::OCTET_STRING)?))
    };
    let (algorithm, cipher_text) = fields().map_err(|error| StoreError::der(place, error))?;
    let plain: Zeroizing<Vec<u8>> = pbe::decrypt(place, algorithm, cipher_text, password, budget)?;
    // Wrong padding is not always noticed; a wrong key gives no sequence with a version.
    let is_key = DerReader::new(&plain).enter(der::SEQUENCE).is_ok_and(|mut key| key.number().is_ok());
    if !is_key {
        return Err(StoreError::WrongPassword { place: place.to_owned() });
    }
    Ok(SecretBytes::new(plain.to_vec()))
}

fn read_attributes(bytes: &[u8]) -> Result<BagAttributes, DerError> {
    let mut attributes = BagAttributes::default();
    let mut reader = DerReader::new(bytes);
    while !reader.is_empty() {
        let mut attribute = reader.enter(der::SEQUENCE)?;
        let kind = dotted(attribute.expect(der::OBJECT_IDENTIFIER)?);
        let mut values = attribute.enter(der::SET)?;
        match kind.as_str() {
            "1.2.840.113549.1.9.20" => {
                let text = values.expect(der::BMP_STRING)?;
                let units = text.chunks_exact(2).map(|unit| u16::from_be_bytes([unit[0], unit[1]]));
                attributes.name = Some(String::from_utf16_lossy(&units.collect::<Vec<_>>()));
            }
            // Java's mark of a trusted certificate.
            "2.16.840.1.113894.746875.1.1" => attributes.is_trusted = true,
            _ => {}
        }
    }
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SecretText;

    #[test]
    fn bags_that_are_ignored_count() {
        let mut kind = Vec::new();
        // A bag with a secret, which is no key and no certificate.
        let secret_bag = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1, 5];
        der::write(&mut kind, der::OBJECT_IDENTIFIER, &secret_bag);
        der::write(&mut kind, der::context(0), &[]);
        let mut bag = Vec::new();
        der::write(&mut bag, der::SEQUENCE, &kind);
        let read = |count: usize| {
            let limits = StoreLimits::default();
            let mut bags = BagReader {
                password: EncodedPassword::new(&SecretText::default()),
                budget: RoundBudget::new(&limits),
                limits,
                contents: StoreContents::default(),
                entries: 0,
            };
            let mut bytes = Vec::new();
            der::write(&mut bytes, der::SEQUENCE, &bag.repeat(count));
            bags.read_bags(&bytes).map(|()| bags.contents.notes.len())
        };
        assert_eq!(read(1000), Ok(1000));
        assert!(matches!(read(1001), Err(StoreError::Limit { what: "entries", .. })));
    }
}
