//! Password-based encryption of PKCS#8 and PKCS12: PBES2, and the PKCS12 schemes with SHA-1.

use std::num::NonZeroU32;

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut, InnerIvInit, KeyIvInit};
use des::{TdesEde2, TdesEde3};
use rc2::Rc2;
use ring::{digest, pbkdf2};
use zeroize::Zeroizing;

use super::{StoreError, StoreLimits};
use crate::der::{DerError, DerReader, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, dotted};
use crate::secret::SecretText;

const IV_BYTES: usize = 8;

/// A password in the two encodings that the schemes use.
pub(super) struct EncodedPassword {
    /// UTF-8, for PBES2.
    utf8: Zeroizing<Vec<u8>>,
    /// UTF-16BE with a final zero, for the PKCS12 schemes.
    bmp: Zeroizing<Vec<u8>>,
}

impl EncodedPassword {
    pub(super) fn new(password: &SecretText) -> EncodedPassword {
        let units = password.reveal().encode_utf16().chain([0]);
        // No text is longer in UTF-16; a buffer that grows would leave copies behind.
        let mut bmp = Zeroizing::new(Vec::with_capacity(2 * password.reveal().len() + 2));
        bmp.extend(units.flat_map(u16::to_be_bytes));
        EncodedPassword { utf8: Zeroizing::new(password.reveal().as_bytes().to_vec()), bmp }
    }

    /// An empty password without the final zero, as some writers encode it.
    pub(super) fn absent() -> EncodedPassword {
        EncodedPassword { utf8: Zeroizing::default(), bmp: Zeroizing::default() }
    }

    pub(super) fn bmp(&self) -> &[u8] {
        &self.bmp
    }
}

/// The rounds of key derivation that a file may still use.
pub(super) struct RoundBudget {
    limit: u32,
    left: u32,
}

impl RoundBudget {
    pub(super) fn new(limits: &StoreLimits) -> RoundBudget {
        RoundBudget { limit: limits.rounds, left: limits.rounds }
    }

    pub(super) fn spend(&mut self, rounds: u32, place: &str) -> Result<NonZeroU32, StoreError> {
        let rounds = NonZeroU32::new(rounds)
            .ok_or_else(|| StoreError::malformed(place, "key derivation with 0 rounds"))?;
        match self.left.checked_sub(rounds.get()) {
            Some(left) => self.left = left,
            None => {
                let found = u64::from(self.limit - self.left) + u64::from(rounds.get());
                let (what, limit) = ("rounds of key derivation", u64::from(self.limit));
                return Err(StoreError::Limit { place: place.to_owned(), what, found, limit });
            }
        }
        Ok(rounds)
    }
}

/// Decrypts data. `algorithm` is the content of the AlgorithmIdentifier.
pub(super) fn decrypt(
    place: &str,
    algorithm: &[u8],
    cipher_text: &[u8],
    password: &EncodedPassword,
    budget: &mut RoundBudget,
) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let der = |error| StoreError::der(place, error);
    let mut reader = DerReader::new(algorithm);
    let identifier = reader.expect(OBJECT_IDENTIFIER).map_err(der)?;
    let cipher = match dotted(identifier).as_str() {
        "1.2.840.113549.1.5.13" => return decrypt_pbes2(place, reader, cipher_text, password, budget),
        "1.2.840.113549.1.12.1.3" => Pkcs12Cipher::TripleDes,
        "1.2.840.113549.1.12.1.4" => Pkcs12Cipher::DoubleDes,
        "1.2.840.113549.1.12.1.5" => Pkcs12Cipher::Rc2 { key_bytes: 16 },
        "1.2.840.113549.1.12.1.6" => Pkcs12Cipher::Rc2 { key_bytes: 5 },
        other => return Err(unsupported(place, format!("encryption {other}"))),
    };
    let mut parameters = || {
        let mut parameters = reader.enter(SEQUENCE)?;
        Ok((parameters.expect(OCTET_STRING)?, parameters.number()?))
    };
    let (salt, rounds) = parameters().map_err(der)?;
    let rounds = budget.spend(rounds, place)?;
    let sha1 = &digest::SHA1_FOR_LEGACY_USE_ONLY;
    let key = pkcs12_derive(sha1, Pkcs12Purpose::Key, password.bmp(), salt, rounds, cipher.key_bytes());
    // The initialization vector costs the same number of rounds again.
    budget.spend(rounds.get(), place)?;
    let vector = pkcs12_derive(sha1, Pkcs12Purpose::Vector, password.bmp(), salt, rounds, IV_BYTES);
    let plain = match cipher {
        Pkcs12Cipher::TripleDes => decrypt_cbc::<TdesEde3>(&key, &vector, cipher_text),
        Pkcs12Cipher::DoubleDes => decrypt_cbc::<TdesEde2>(&key, &vector, cipher_text),
        Pkcs12Cipher::Rc2 { key_bytes } => {
            let rc2 = Rc2::new_with_eff_key_len(&key, key_bytes * 8);
            cbc::Decryptor::inner_iv_slice_init(rc2, &vector)
                .ok()
                .and_then(|decryptor| decryptor.decrypt_padded_vec_mut::<Pkcs7>(cipher_text).ok())
                .map(Zeroizing::new)
        }
    };
    plain.ok_or_else(|| StoreError::WrongPassword { place: place.to_owned() })
}

enum Pkcs12Cipher {
    TripleDes,
    DoubleDes,
    Rc2 { key_bytes: usize },
}

impl Pkcs12Cipher {
    fn key_bytes(&self) -> usize {
        match self {
            Pkcs12Cipher::TripleDes => 24,
            Pkcs12Cipher::DoubleDes => 16,
            Pkcs12Cipher::Rc2 { key_bytes } => *key_bytes,
        }
    }
}

struct Pbkdf2Parameters<'a> {
    salt: &'a [u8],
    rounds: u32,
    algorithm: pbkdf2::Algorithm,
}

fn decrypt_pbes2(
    place: &str,
    mut reader: DerReader<'_>,
    cipher_text: &[u8],
    password: &EncodedPassword,
    budget: &mut RoundBudget,
) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let der = |error| StoreError::der(place, error);
    let mut parameters = reader.enter(SEQUENCE).map_err(der)?;
    let derivation = parameters.enter(SEQUENCE).map_err(der)?;
    let mut scheme = || {
        let mut scheme = parameters.enter(SEQUENCE)?;
        Ok((scheme.expect(OBJECT_IDENTIFIER)?, scheme.expect(OCTET_STRING)?))
    };
    let derivation = pbkdf2_parameters(place, derivation)?;
    let (cipher, vector) = scheme().map_err(der)?;
    let cipher = dotted(cipher);
    let key_bytes = match cipher.as_str() {
        "2.16.840.1.101.3.4.1.2" => 16,
        "2.16.840.1.101.3.4.1.22" | "1.2.840.113549.3.7" => 24,
        "2.16.840.1.101.3.4.1.42" => 32,
        other => return Err(unsupported(place, format!("cipher {other}"))),
    };
    let rounds = budget.spend(derivation.rounds, place)?;
    let mut key = Zeroizing::new(vec![0; key_bytes]);
    pbkdf2::derive(derivation.algorithm, rounds, derivation.salt, &password.utf8, &mut key);
    let plain = match cipher.as_str() {
        "2.16.840.1.101.3.4.1.2" => decrypt_cbc::<Aes128>(&key, vector, cipher_text),
        "2.16.840.1.101.3.4.1.22" => decrypt_cbc::<Aes192>(&key, vector, cipher_text),
        "1.2.840.113549.3.7" => decrypt_cbc::<TdesEde3>(&key, vector, cipher_text),
        _ => decrypt_cbc::<Aes256>(&key, vector, cipher_text),
    };
    plain.ok_or_else(|| StoreError::WrongPassword { place: place.to_owned() })
}

fn pbkdf2_parameters<'a>(place: &str, mut reader: DerReader<'a>) -> Result<Pbkdf2Parameters<'a>, StoreError> {
    let der = |error| StoreError::der(place, error);
    match dotted(reader.expect(OBJECT_IDENTIFIER).map_err(der)?).as_str() {
        "1.2.840.113549.1.5.12" => {}
        "1.3.6.1.4.1.11591.4.11" => return Err(unsupported(place, "key derivation by scrypt".to_owned())),
        other => return Err(unsupported(place, format!("key derivation {other}"))),
    }
    let mut fields = || {
        let mut reader = reader.enter(SEQUENCE)?;
        let salt = reader.expect(OCTET_STRING)?;
        let rounds = reader.number()?;
        if reader.next_is(INTEGER) {
            reader.number()?;
        }
        let function = match reader.optional(SEQUENCE)? {
            Some(function) => Some(DerReader::new(function).expect(OBJECT_IDENTIFIER)?),
            None => None,
        };
        Ok::<_, DerError>((salt, rounds, function))
    };
    let (salt, rounds, function) = fields().map_err(der)?;
    let algorithm = match function.map(dotted).as_deref() {
        None | Some("1.2.840.113549.2.7") => pbkdf2::PBKDF2_HMAC_SHA1,
        Some("1.2.840.113549.2.9") => pbkdf2::PBKDF2_HMAC_SHA256,
        Some("1.2.840.113549.2.10") => pbkdf2::PBKDF2_HMAC_SHA384,
        Some("1.2.840.113549.2.11") => pbkdf2::PBKDF2_HMAC_SHA512,
        Some(other) => return Err(unsupported(place, format!("PBKDF2 with function {other}"))),
    };
    Ok(Pbkdf2Parameters { salt, rounds, algorithm })
}

fn decrypt_cbc<C>(key: &[u8], vector: &[u8], cipher_text: &[u8]) -> Option<Zeroizing<Vec<u8>>>
where
    C: cbc::cipher::BlockCipher + cbc::cipher::BlockDecryptMut + cbc::cipher::KeyInit,
{
    let decryptor = cbc::Decryptor::<C>::new_from_slices(key, vector).ok()?;
    decryptor.decrypt_padded_vec_mut::<Pkcs7>(cipher_text).ok().map(Zeroizing::new)
}

fn unsupported(place: &str, feature: String) -> StoreError {
    StoreError::Unsupported {
        place: place.to_owned(),
        feature,
        remedy: "convert a key with `openssl pkcs8 -in OLD -topk8 -v2 aes-256-cbc -out NEW`, \
                 a PKCS12 store with `openssl pkcs12`"
            .to_owned(),
    }
}

/// The purpose of derived bytes, with its number in RFC 7292.
#[derive(Clone, Copy)]
pub(super) enum Pkcs12Purpose {
    Key = 1,
    Vector = 2,
    Mac = 3,
}

/// The key derivation of RFC 7292, appendix B.
pub(super) fn pkcs12_derive(
    algorithm: &'static digest::Algorithm,
    purpose: Pkcs12Purpose,
    password: &[u8],
    salt: &[u8],
    rounds: NonZeroU32,
    length: usize,
) -> Zeroizing<Vec<u8>> {
    let block = algorithm.block_len();
    let repeated_size = |bytes: &[u8]| bytes.len().div_ceil(block) * block;
    // The whole capacity at once: a buffer that grows would leave copies behind.
    let mut input = Zeroizing::new(Vec::with_capacity(repeated_size(salt) + repeated_size(password)));
    for bytes in [salt, password] {
        input.extend(bytes.iter().copied().cycle().take(repeated_size(bytes)));
    }
    let mut derived = Zeroizing::new(Vec::with_capacity(length));
    loop {
        let mut context = digest::Context::new(algorithm);
        context.update(&vec![purpose as u8; block]);
        context.update(&input);
        let mut hash = context.finish();
        for _ in 1..rounds.get() {
            hash = digest::digest(algorithm, hash.as_ref());
        }
        let missing = length - derived.len();
        derived.extend_from_slice(&hash.as_ref()[..missing.min(algorithm.output_len())]);
        if derived.len() == length {
            return derived;
        }
        let mut addend = Zeroizing::new(Vec::with_capacity(block));
        addend.extend(hash.as_ref().iter().copied().cycle().take(block));
        for chunk in input.chunks_mut(block) {
            add_with_one(chunk, &addend);
        }
    }
}

/// Adds a number and one, modulo the width.
fn add_with_one(number: &mut [u8], addend: &[u8]) {
    let mut carry = 1;
    for (digit, add) in number.iter_mut().zip(addend).rev() {
        let sum = u16::from(*digit) + u16::from(*add) + carry;
        *digit = sum as u8;
        carry = sum >> 8;
    }
}
