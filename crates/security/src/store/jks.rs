//! The JKS format of Java: big-endian entries, a keyed SHA-1 at the end, keys behind a SHA-1 key stream.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN};
use rustls::pki_types::CertificateDer;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{KeyEntry, StoreContents, StoreError, StoreInput, StoreLimits, StoredKey, TrustedEntry};
use super::{check_certificate, check_entries, modified_utf8};
use crate::der::{DerReader, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};
use crate::secret::{SecretBytes, SecretText};

/// A constant of the format, which every integrity hash contains.
const WHITENER: &[u8] = b"Mighty Aphrodite";
const MAGIC_BYTES: usize = 4;
const SALT_BYTES: usize = 20;

/// 1.3.6.1.4.1.42.2.17.1.1, Sun's key protector.
const KEY_PROTECTOR: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

pub(super) fn read(input: &StoreInput<'_>) -> Result<StoreContents, StoreError> {
    let Some(split) = input.bytes.len().checked_sub(SHA1_OUTPUT_LEN).filter(|size| *size >= MAGIC_BYTES)
    else {
        return Err(StoreError::malformed("the JKS store", "it ends within its header"));
    };
    let (body, integrity) = input.bytes.split_at(split);
    let mut reader = JksReader { rest: &body[MAGIC_BYTES..], version: 0 };
    reader.version = reader.number("the JKS header")?;
    if !matches!(reader.version, 1 | 2) {
        let problem = format!("version {} is neither 1 nor 2", reader.version);
        return Err(StoreError::malformed("the JKS header", problem));
    }
    let count = reader.number("the JKS header")?;
    check_entries(count as usize, &input.limits)?;
    let mut contents = StoreContents::default();
    for index in 1..=count {
        read_entry(&mut reader, index, &input.limits, &mut contents)?;
    }
    if !reader.rest.is_empty() {
        return Err(StoreError::malformed("the JKS store", "bytes follow the last entry"));
    }
    check_integrity(body, integrity, input.password)?;
    // Java uses one password for store and key, and one key is used.
    if let Some(entry) = contents.keys.first_mut()
        && let StoredKey::Encrypted(encrypted) = &entry.key
    {
        entry.key = StoredKey::Pkcs8(unprotect(&entry.place, encrypted, input.password)?);
    }
    Ok(contents)
}

fn check_integrity(body: &[u8], expected: &[u8], password: &SecretText) -> Result<(), StoreError> {
    let mut message = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    message.update(&utf16_bytes(password));
    message.update(WHITENER);
    message.update(body);
    let actual = message.finish();
    if bool::from(actual.as_ref().ct_eq(expected)) {
        return Ok(());
    }
    Err(StoreError::WrongPassword { place: "the JKS store".to_owned() })
}

fn utf16_bytes(password: &SecretText) -> Zeroizing<Vec<u8>> {
    // No text is longer in UTF-16; a buffer that grows would leave copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(2 * password.reveal().len()));
    bytes.extend(password.reveal().encode_utf16().flat_map(u16::to_be_bytes));
    bytes
}

struct JksReader<'a> {
    rest: &'a [u8],
    version: u32,
}

impl<'a> JksReader<'a> {
    fn bytes(&mut self, count: usize, place: &str) -> Result<&'a [u8], StoreError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(StoreError::malformed(place, "a length points beyond the end of the file"));
        };
        self.rest = rest;
        Ok(taken)
    }

    fn number(&mut self, place: &str) -> Result<u32, StoreError> {
        let bytes = self.bytes(4, place)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }

    fn text(&mut self, place: &str) -> Result<String, StoreError> {
        let length = self.bytes(2, place)?;
        let bytes = self.bytes(usize::from(length[0]) << 8 | usize::from(length[1]), place)?;
        modified_utf8::decode(bytes)
            .ok_or_else(|| StoreError::malformed(place, "a text is not in modified UTF-8"))
    }

    fn certificate(&mut self, place: &str) -> Result<CertificateDer<'static>, StoreError> {
        if self.version == 2 {
            let kind = self.text(place)?;
            if kind != "X.509" {
                let problem = format!("a certificate of type {kind:?} instead of X.509");
                return Err(StoreError::malformed(place, problem));
            }
        }
        let length = self.number(place)?;
        check_certificate(place, self.bytes(length as usize, place)?)
    }
}

fn read_entry(
    reader: &mut JksReader<'_>,
    index: u32,
    limits: &StoreLimits,
    contents: &mut StoreContents,
) -> Result<(), StoreError> {
    let mut place = format!("entry {index} of the JKS store");
    let tag = reader.number(&place)?;
    place = format!("alias {}", reader.text(&place)?.escape_debug());
    reader.bytes(8, &place)?;
    match tag {
        1 => {
            let length = reader.number(&place)?;
            let key = StoredKey::Encrypted(reader.bytes(length as usize, &place)?.to_vec());
            let count = reader.number(&place)?;
            if count as usize > limits.chain {
                let (found, limit) = (u64::from(count), limits.chain as u64);
                return Err(StoreError::Limit { place, what: "certificates in its chain", found, limit });
            }
            let chain = (0..count).map(|_| reader.certificate(&place)).collect::<Result<_, _>>()?;
            contents.keys.push(KeyEntry { place, key, chain });
        }
        2 => {
            let certificate = reader.certificate(&place)?;
            contents.trusted.push(TrustedEntry { place, certificate });
        }
        _ => return Err(StoreError::malformed(place, format!("entry tag {tag} is neither 1 nor 2"))),
    }
    Ok(())
}

/// Decrypts a key of Sun's key protector.
fn unprotect(place: &str, encrypted: &[u8], password: &SecretText) -> Result<SecretBytes, StoreError> {
    let fields = || {
        let mut outer = DerReader::new(encrypted).enter(SEQUENCE)?;
        let algorithm = outer.enter(SEQUENCE)?.expect(OBJECT_IDENTIFIER)?;
        Ok((algorithm, outer.expect(OCTET_STRING)?))
    };
    let (algorithm, data) = fields().map_err(|error| StoreError::der(place, error))?;
    if algorithm != KEY_PROTECTOR {
        return Err(StoreError::Unsupported {
            place: place.to_owned(),
            feature: format!("key protection {}", crate::der::dotted(algorithm)),
            remedy: "write the store again with keytool".to_owned(),
        });
    }
    let Some(length) = data.len().checked_sub(SALT_BYTES + SHA1_OUTPUT_LEN) else {
        return Err(StoreError::malformed(place, "the encrypted key is too short"));
    };
    let (salt, rest) = data.split_at(SALT_BYTES);
    let (cipher_text, check) = rest.split_at(length);
    let password = utf16_bytes(password);
    let hash = |tail: &[u8]| {
        let mut message = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        message.update(&password);
        message.update(tail);
        message.finish()
    };
    let mut plain = Zeroizing::new(Vec::with_capacity(length));
    let mut block = hash(salt);
    for chunk in cipher_text.chunks(SHA1_OUTPUT_LEN) {
        plain.extend(chunk.iter().zip(block.as_ref()).map(|(byte, mask)| byte ^ mask));
        block = hash(block.as_ref());
    }
    if !bool::from(hash(&plain).as_ref().ct_eq(check)) {
        return Err(StoreError::WrongPassword { place: place.to_owned() });
    }
    Ok(SecretBytes::new(plain.to_vec()))
}
