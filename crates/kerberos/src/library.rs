//! Errors, names and messages of the library in the types of `security`.

use libgssapi::context::SecurityContext;
use libgssapi::error::{Error, MajorFlags};
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_KRB5_PRINCIPAL, OidSet};
use zebu_security::sasl::gssapi::{GssError, GssFault, GssMessage};

/// The first number of the error table of Kerberos.
const KERBEROS_TABLE: i32 = -1_765_328_384;

/// The longest text of an error, in characters. The library repeats names that a peer has sent.
const ERROR_CHARACTERS_MAX: usize = 500;

/// The flag of a wrapped message (RFC 4121, 4.2.2) that says that it is encrypted.
const SEALED: u8 = 2;

pub(crate) fn error_of(error: Error) -> GssError {
    let text: String = error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect();
    GssError { text, fault: fault_of(error) }
}

fn fault_of(error: Error) -> GssFault {
    // The minor status is a number of the table that com_err calls krb5.
    let by_number = match error.minor.cast_signed().wrapping_sub(KERBEROS_TABLE) {
        6 => GssFault::UnknownPrincipal,
        7 => GssFault::UnknownService,
        24 | 31 | 44 => GssFault::WrongKey,
        32 => GssFault::Expired,
        37 => GssFault::ClockSkew,
        141 | 181 | 195 => GssFault::NoCredentials,
        154 | 156 | 220 => GssFault::Unreachable,
        _ => GssFault::Other,
    };
    let routine = error.major.bits() & MajorFlags::all().bits() & 0xffff_0000;
    match by_number {
        GssFault::Other if routine == MajorFlags::GSS_S_NO_CRED.bits() => GssFault::NoCredentials,
        GssFault::Other if routine == MajorFlags::GSS_S_CREDENTIALS_EXPIRED.bits() => GssFault::Expired,
        other => other,
    }
}

/// A principal as the library knows it.
pub(crate) fn principal(text: &str) -> Result<Name, GssError> {
    Name::new(text.as_bytes(), Some(GSS_NT_KRB5_PRINCIPAL)).map_err(error_of)
}

/// No other mechanism of the library is used.
pub(crate) fn kerberos_only() -> Result<OidSet, GssError> {
    OidSet::singleton(GSS_MECH_KRB5).map_err(error_of)
}

/// The text of a name. The library writes `\/` and `\@` for such characters inside of a component. No rule of
/// `auth_to_local` could tell them from separators.
pub(crate) fn text_of(name: &Name) -> Result<String, GssError> {
    let text = name.display_name().map_err(error_of)?;
    let text = std::str::from_utf8(&text).map_err(|_| GssError::new("the principal is not UTF-8"))?;
    match text.contains(['\\', '\0']) {
        true => Err(GssError::new("the principal has a component with a special character")),
        false => Ok(text.to_owned()),
    }
}

pub(crate) fn wrap(context: &mut impl SecurityContext, message: &[u8]) -> Result<Vec<u8>, GssError> {
    Ok(context.wrap(false, message).map_err(error_of)?.to_vec())
}

pub(crate) fn unwrap(context: &mut impl SecurityContext, token: &[u8]) -> Result<GssMessage, GssError> {
    // MIT's library uses the buffer of the token for its work, so that it gets one of its own.
    let scratch = token.to_vec();
    let content = context.unwrap(&scratch).map_err(error_of)?.to_vec();
    Ok(GssMessage { content, is_encrypted: is_sealed(token) })
}

/// Whether a verified token is encrypted. Tokens of the older form (RFC 1964) name an algorithm instead.
fn is_sealed(token: &[u8]) -> bool {
    match token {
        [5, 4, flags, ..] => flags & SEALED != 0,
        // The header of GSSAPI, then 02 01, the signing algorithm and the sealing algorithm; ffff is none.
        _ => !token.windows(6).take(32).any(|window| matches!(window, [2, 1, _, _, 0xff, 0xff])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_tokens() {
        assert!(!is_sealed(&[5, 4, 0, 0xff]) && !is_sealed(&[5, 4, 5, 0xff]));
        assert!(is_sealed(&[5, 4, 2, 0xff]) && is_sealed(&[5, 4, 7, 0xff]));
        assert!(
            !is_sealed(&[0x60, 3, 2, 1, 0x11, 0, 0xff, 0xff])
                && is_sealed(&[0x60, 3, 2, 1, 0x11, 0, 0x10, 0])
        );
        assert!(is_sealed(&[]));
    }

    #[test]
    fn faults() {
        let fault = |major: MajorFlags, number: i32| {
            fault_of(Error { major, minor: KERBEROS_TABLE.wrapping_add(number).cast_unsigned() })
        };
        assert_eq!(fault(MajorFlags::GSS_S_FAILURE, 156), GssFault::Unreachable);
        assert_eq!(fault(MajorFlags::GSS_S_FAILURE, 37), GssFault::ClockSkew);
        assert_eq!(fault(MajorFlags::GSS_S_NO_CRED, 1000), GssFault::NoCredentials);
        assert_eq!(fault(MajorFlags::GSS_S_CREDENTIALS_EXPIRED, 1000), GssFault::Expired);
        assert_eq!(fault(MajorFlags::GSS_S_FAILURE, 1000), GssFault::Other);
    }
}
