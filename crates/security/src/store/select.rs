//! The choice of one key with its chain, and of the trust anchors, from the contents of a store.

use rustls::pki_types::CertificateDer;

use super::pbe::{EncodedPassword, RoundBudget};
use super::private_key::{self, UsableKey};
use super::{KeyEntry, StoreContents, StoreError, StoreInput, StoredKey, TrustedEntry, pkcs12};
use crate::secret::SecretBytes;

pub(super) struct SelectedKey {
    pub(super) key: SecretBytes,
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) place: String,
}

/// Takes the first key. In a PEM file, the first key that fits a certificate.
pub(super) fn select_key(
    contents: &mut StoreContents,
    input: &StoreInput<'_>,
) -> Result<SelectedKey, StoreError> {
    let keys = std::mem::take(&mut contents.keys);
    let count = keys.len();
    let mut budget = RoundBudget::new(&input.limits);
    let mut first_error = None;
    for entry in keys {
        let is_pem = entry.chain.is_empty() && contents.unassigned.is_empty();
        match try_key(entry, contents, input, &mut budget) {
            Ok(selected) => {
                if count > 1 {
                    let note = format!("the store has {count} private keys; {} is used", selected.place);
                    contents.notes.push(note);
                }
                return Ok(selected);
            }
            // The keys of a file share its rounds, so that no further key can be tried.
            Err(error @ StoreError::Limit { .. }) => return Err(error),
            // Only PEM files have keys and certificates without assignment.
            Err(error) if is_pem => _ = first_error.get_or_insert(error),
            Err(error) => return Err(error),
        }
    }
    Err(first_error.unwrap_or(StoreError::NoPrivateKey))
}

fn try_key(
    entry: KeyEntry,
    contents: &mut StoreContents,
    input: &StoreInput<'_>,
    budget: &mut RoundBudget,
) -> Result<SelectedKey, StoreError> {
    let place = entry.place;
    let is_assigned = !entry.chain.is_empty();
    let candidates: Vec<CertificateDer<'static>> = if is_assigned {
        entry.chain
    } else {
        let loose = contents.unassigned.iter().chain(&contents.trusted);
        loose.map(|entry| entry.certificate.clone()).collect()
    };
    if candidates.is_empty() {
        return Err(StoreError::NoCertificate { place });
    }
    let pkcs8 = match entry.key {
        StoredKey::Pkcs8(key) => key,
        StoredKey::Pkcs1(key) => private_key::from_pkcs1(key.reveal()),
        StoredKey::Sec1(key) => private_key::from_sec1(&place, key.reveal())?,
        StoredKey::Encrypted(_) if input.password.is_empty() => {
            return Err(StoreError::PasswordMissing { place });
        }
        StoredKey::Encrypted(encrypted) => {
            let password = EncodedPassword::new(input.password);
            pkcs12::decrypt_key(&place, &encrypted, &password, budget)?
        }
    };
    let key = UsableKey::load(&place, pkcs8, &candidates)?;
    let Some(leaf) = candidates.iter().position(|certificate| key.fits(certificate)) else {
        return Err(StoreError::KeyDoesNotFit { place });
    };
    if leaf != 0 && contents.unassigned.is_empty() {
        contents.notes.push(format!("the certificate of {place} is not the first one; it is sent first"));
    }
    let chain = if contents.unassigned.is_empty() || is_assigned {
        leaf_first(candidates, leaf)
    } else {
        chain_by_issuer(&candidates, leaf, input.limits.chain)
    };
    if chain.len() > input.limits.chain {
        let (found, limit) = (chain.len() as u64, input.limits.chain as u64);
        return Err(StoreError::Limit { place, what: "certificates in its chain", found, limit });
    }
    Ok(SelectedKey { key: key.pkcs8, chain, place })
}

fn leaf_first(mut certificates: Vec<CertificateDer<'static>>, leaf: usize) -> Vec<CertificateDer<'static>> {
    let first = certificates.remove(leaf);
    certificates.insert(0, first);
    certificates
}

/// The bags of a PKCS12 store have no order: follows issuer names from the leaf upwards.
fn chain_by_issuer(
    certificates: &[CertificateDer<'static>],
    leaf: usize,
    limit: usize,
) -> Vec<CertificateDer<'static>> {
    let names: Vec<(Vec<u8>, Vec<u8>)> = certificates.iter().map(|der| issuer_and_subject(der)).collect();
    let mut order = vec![leaf];
    while order.len() < limit {
        let last = order[order.len() - 1];
        let next = (0..names.len()).find(|index| !order.contains(index) && names[*index].1 == names[last].0);
        match next {
            Some(next) => order.push(next),
            None => break,
        }
    }
    order.into_iter().map(|index| certificates[index].clone()).collect()
}

fn issuer_and_subject(certificate: &CertificateDer<'_>) -> (Vec<u8>, Vec<u8>) {
    match x509_parser::parse_x509_certificate(certificate) {
        Ok((_, parsed)) => {
            let fields = &parsed.tbs_certificate;
            (fields.issuer.as_raw().to_vec(), fields.subject.as_raw().to_vec())
        }
        Err(_) => Default::default(),
    }
}

/// Leaves the trust anchors in `trusted`.
pub(super) fn select_trusted(contents: &mut StoreContents) -> Result<(), StoreError> {
    if !contents.keys.is_empty() && !contents.trusted.is_empty() {
        contents.notes.push("the trust store holds a private key; it is ignored".to_owned());
    }
    if contents.trusted.is_empty() && contents.keys.is_empty() && !contents.unassigned.is_empty() {
        let note = "no certificate of the PKCS12 store is marked as trusted, Java would see an empty store; \
                    all of its certificates are trusted";
        contents.notes.push(note.to_owned());
        contents.trusted = std::mem::take(&mut contents.unassigned);
    }
    if contents.trusted.is_empty() {
        return Err(StoreError::NoTrustedCertificate);
    }
    remove_duplicates(&mut contents.trusted);
    Ok(())
}

fn remove_duplicates(entries: &mut Vec<TrustedEntry>) {
    let mut kept: Vec<TrustedEntry> = Vec::with_capacity(entries.len());
    for entry in entries.drain(..) {
        if kept.iter().all(|other| other.certificate != entry.certificate) {
            kept.push(entry);
        }
    }
    *entries = kept;
}
