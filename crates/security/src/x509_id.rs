//! The id of scheme `x509`: the subject of a certificate as Java writes it in RFC 2253 form.

use crate::der::{self, DerElement, DerError, DerReader};

/// The subject of a certificate cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the subject of the certificate cannot be read: {problem}")]
pub struct SubjectError {
    problem: String,
}

impl From<DerError> for SubjectError {
    fn from(error: DerError) -> SubjectError {
        SubjectError { problem: error.to_string() }
    }
}

/// Attribute types that have a name in RFC 2253; all others are written as numbers.
const NAMED_TYPES: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// UTF8String, PrintableString, T61String, IA5String, GeneralString and BMPString.
const TEXT_TAGS: [u8; 6] = [0x0c, 0x13, 0x14, 0x16, 0x1b, 0x1e];

const ESCAPED: &str = ",=+<>#;\"\\";

/// The id of a certificate.
pub fn x509_id(certificate: &[u8]) -> Result<String, SubjectError> {
    match x509_parser::parse_x509_certificate(certificate) {
        Ok((_, parsed)) => x509_id_of_subject(parsed.tbs_certificate.subject.as_raw()),
        Err(error) => Err(SubjectError { problem: error.to_string() }),
    }
}

/// The id of a subject, which is a Name in DER. The empty subject has the empty id.
pub fn x509_id_of_subject(subject: &[u8]) -> Result<String, SubjectError> {
    let mut reader = DerReader::new(subject);
    let mut names = reader.enter(der::SEQUENCE)?;
    reader.finish()?;
    let mut relative_names = Vec::new();
    while !names.is_empty() {
        let mut attributes = names.enter(der::SET)?;
        let mut texts = Vec::new();
        while !attributes.is_empty() {
            let mut attribute = attributes.enter(der::SEQUENCE)?;
            let kind = der::dotted(attribute.expect(der::OBJECT_IDENTIFIER)?);
            texts.push(attribute_text(&kind, &attribute.element()?));
        }
        relative_names.push(texts.join("+"));
    }
    relative_names.reverse();
    Ok(relative_names.join(","))
}

fn attribute_text(kind: &str, value: &DerElement<'_>) -> String {
    let name = NAMED_TYPES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name);
    match name {
        Some(name) if TEXT_TAGS.contains(&value.tag) => format!("{name}={}", escaped(value.content)),
        _ => {
            let hex: String = value.whole.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{}=#{hex}", name.unwrap_or(kind))
        }
    }
}

/// Java decodes each string type as UTF-8.
fn escaped(content: &[u8]) -> String {
    let text = String::from_utf8_lossy(content);
    let is_blank = |character: char| matches!(character, ' ' | '\r');
    let inner = text.trim_matches(is_blank);
    let leading = text.len() - text.trim_start_matches(is_blank).len();
    let mut out = String::with_capacity(text.len() + 8);
    let push_blanks = |out: &mut String, blanks: &str| {
        for blank in blanks.chars() {
            out.push('\\');
            out.push(blank);
        }
    };
    push_blanks(&mut out, &text[..leading]);
    for character in inner.chars() {
        match character {
            '\0' => out.push_str("\\00"),
            _ if ESCAPED.contains(character) => out.extend(['\\', character]),
            _ => out.push(character),
        }
    }
    push_blanks(&mut out, &text[leading + inner.len()..]);
    out
}
