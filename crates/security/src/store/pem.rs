//! PEM stores: certificates, private keys and CRLs in one file, with any text between the blocks.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rustls::pki_types::CertificateRevocationListDer;
use zeroize::Zeroizing;

use super::{KeyEntry, StoreContents, StoreError, StoreInput, StoredKey, TrustedEntry};
use super::{check_certificate, check_entries};
use crate::der::DerReader;
use crate::secret::SecretBytes;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const DASHES: &str = "-----";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether the bytes have the beginning of a block.
pub(super) fn has_block(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window.eq_ignore_ascii_case(BEGIN.as_bytes()))
}

struct PemBlock<'a> {
    /// Upper-case text between BEGIN and the dashes.
    label: String,
    /// Line of BEGIN, from 1.
    line: usize,
    body: &'a str,
}

pub(super) fn read(input: &StoreInput<'_>) -> Result<StoreContents, StoreError> {
    let text = Zeroizing::new(String::from_utf8_lossy(input.bytes).into_owned());
    let mut contents = StoreContents::default();
    let mut position = TextPosition { rest: &text, line: 1 };
    let mut count = 0;
    while let Some(block) = next_block(&mut position)? {
        count += 1;
        check_entries(count, &input.limits)?;
        add_block(&block, &mut contents)?;
    }
    let is_encrypted = |entry: &KeyEntry| matches!(entry.key, StoredKey::Encrypted(_));
    if !input.password.is_empty() && !contents.keys.is_empty() && !contents.keys.iter().any(is_encrypted) {
        contents.notes.push("a password is set, but the private key is not encrypted".to_owned());
    }
    Ok(contents)
}

struct TextPosition<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> TextPosition<'a> {
    /// Moves behind the next occurrence of a mark and returns the text before it.
    fn pass(&mut self, mark: &str) -> Option<&'a str> {
        let found = self.rest.as_bytes().windows(mark.len());
        let at = found.into_iter().position(|window| window.eq_ignore_ascii_case(mark.as_bytes()))?;
        let (before, after) = self.rest.split_at(at);
        self.rest = &after[mark.len()..];
        self.line += before.matches('\n').count();
        Some(before)
    }
}

fn next_block<'a>(position: &mut TextPosition<'a>) -> Result<Option<PemBlock<'a>>, StoreError> {
    if position.pass(BEGIN).is_none() {
        return Ok(None);
    }
    let line = position.line;
    let place = || format!("the PEM block at line {line}");
    let label = position.pass(DASHES).filter(|label| !label.contains('\n'));
    let label =
        label.ok_or_else(|| StoreError::malformed(place(), "its first line does not end with -----"))?;
    let body = position.pass(END).ok_or_else(|| StoreError::malformed(place(), "it has no END line"))?;
    let end_label = position.pass(DASHES).filter(|end_label| end_label.eq_ignore_ascii_case(label));
    if end_label.is_none() {
        return Err(StoreError::malformed(place(), "its END line names another label"));
    }
    Ok(Some(PemBlock { label: label.trim().to_ascii_uppercase(), line, body }))
}

fn add_block(block: &PemBlock<'_>, contents: &mut StoreContents) -> Result<(), StoreError> {
    let line = block.line;
    let label = block.label.as_str();
    let place = format!("the {label} block at line {line}");
    if label.contains("CERTIFICATE") && !label.contains("REQUEST") {
        let bytes = decode(&place, block.body)?;
        // OpenSSL appends trust settings to the certificate in TRUSTED CERTIFICATE blocks.
        let element = DerReader::new(&bytes).element().map_err(|error| StoreError::der(&place, error))?;
        let certificate =
            check_certificate(&place, if label == "CERTIFICATE" { &bytes } else { element.whole })?;
        contents.trusted.push(TrustedEntry { place: format!("line {line}"), certificate });
    } else if label.ends_with("PRIVATE KEY") {
        let key = read_key(&place, block)?;
        contents.keys.push(KeyEntry { place: format!("the key at line {line}"), key, chain: Vec::new() });
    } else if label == "X509 CRL" {
        let bytes = decode(&place, block.body)?;
        if let Err(error) = webpki::BorrowedCertRevocationList::from_der(&bytes) {
            return Err(StoreError::malformed(place, format!("no usable CRL: {error}")));
        }
        contents.crls.push(CertificateRevocationListDer::from(bytes.to_vec()));
    } else {
        contents.notes.push(format!("{place} is ignored"));
    }
    Ok(())
}

fn read_key(place: &str, block: &PemBlock<'_>) -> Result<StoredKey, StoreError> {
    let unsupported = |feature: &str, remedy: &str| {
        Err(StoreError::Unsupported {
            place: place.to_owned(),
            feature: feature.to_owned(),
            remedy: remedy.to_owned(),
        })
    };
    if block.body.contains("Proc-Type:") {
        return unsupported(
            "the old PEM encryption (Proc-Type: 4,ENCRYPTED)",
            "convert it with `openssl pkcs8 -in OLD -topk8 -v2 aes-256-cbc -out NEW`",
        );
    }
    let key = || decode(place, block.body).map(|bytes| SecretBytes::new(bytes.to_vec()));
    match block.label.as_str() {
        "PRIVATE KEY" => Ok(StoredKey::Pkcs8(key()?)),
        "RSA PRIVATE KEY" => Ok(StoredKey::Pkcs1(key()?)),
        "EC PRIVATE KEY" => Ok(StoredKey::Sec1(key()?)),
        "ENCRYPTED PRIVATE KEY" => Ok(StoredKey::Encrypted(decode(place, block.body)?.to_vec())),
        _ => unsupported("this type of key", "use an RSA, EC or Ed25519 key in PKCS#8"),
    }
}

fn decode(place: &str, body: &str) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    // The whole capacity at once: a buffer that grows would leave copies of a key behind.
    let mut characters = Zeroizing::new(String::with_capacity(body.len()));
    characters.extend(body.chars().filter(|character| !character.is_ascii_whitespace()));
    match BASE64.decode(characters.as_bytes()) {
        Ok(bytes) if bytes.is_empty() => Err(StoreError::malformed(place, "it is empty")),
        Ok(bytes) => Ok(Zeroizing::new(bytes)),
        Err(error) => Err(StoreError::malformed(place, format!("no base64: {error}"))),
    }
}
