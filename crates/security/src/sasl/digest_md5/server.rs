//! The accepting side of DIGEST-MD5.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::super::{SaslFailure, SaslIdentity, SaslServer, SaslServerStep, TOKEN_MAX, check_token};
use super::directives::Directives;
use super::hash::{DigestInput, digest_pair};
use super::{AuthorizationRule, DigestProfile, DigestUsers, NONCE_BYTES};

/// Bytes of a response, as in Java.
const RESPONSE_MAX: usize = 4096;

/// Directives that must not be repeated, even those without effect.
const KNOWN: [&str; 13] = [
    "username",
    "realm",
    "nonce",
    "cnonce",
    "nonce-count",
    "qop",
    "digest-uri",
    "response",
    "maxbuf",
    "charset",
    "cipher",
    "authzid",
    "auth-param",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DigestServerState {
    AwaitingStart,
    AwaitingResponse,
    Finished,
}

/// One exchange. Its nonce is valid for one response.
#[derive(Debug)]
pub struct DigestServer {
    profile: DigestProfile,
    users: Arc<DigestUsers>,
    nonce: String,
    state: DigestServerState,
}

impl DigestServer {
    /// `nonce` must be random and used for this exchange only.
    pub fn new(profile: DigestProfile, users: Arc<DigestUsers>, nonce: [u8; NONCE_BYTES]) -> DigestServer {
        let nonce = STANDARD.encode(nonce);
        DigestServer { profile, users, nonce, state: DigestServerState::AwaitingStart }
    }

    fn check_response(&self, token: Option<&[u8]>) -> Result<(Vec<u8>, SaslIdentity), SaslFailure> {
        let directives = Directives::parse(check_token(token, RESPONSE_MAX)?)?;
        let fields = ResponseFields::read(&directives, &self.profile, &self.nonce)?;
        let stored = self.users.password(&fields.user);
        // An unknown user costs the same hashes as a known one.
        let password = stored.map_or("", |password| password.reveal());
        let input = DigestInput {
            user: &fields.user,
            realm: self.profile.realm,
            nonce: self.nonce.as_bytes(),
            client_nonce: fields.client_nonce,
            uri: fields.uri,
            authorization_id: fields.authorization_id,
        };
        let pair = digest_pair(&input, password);
        let is_proved = bool::from(pair.response.as_bytes().ct_eq(fields.response));
        if !is_proved || stored.is_none() {
            return Err(SaslFailure::BadCredentials);
        }
        let authorization_id = fields.authorization_id.map(|id| String::from_utf8_lossy(id).into_owned());
        let is_foreign = authorization_id.as_ref().is_some_and(|id| *id != fields.user);
        if is_foreign && self.profile.authorization == AuthorizationRule::EqualsUser {
            return Err(SaslFailure::ForeignAuthorizationId);
        }
        let token = format!("rspauth={}", pair.response_auth).into_bytes();
        Ok((token, SaslIdentity { authentication_id: fields.user, authorization_id }))
    }
}

impl SaslServer for DigestServer {
    fn step(&mut self, token: Option<&[u8]>) -> SaslServerStep {
        match self.state {
            DigestServerState::AwaitingStart => match check_token(token, TOKEN_MAX) {
                Ok(_) => {
                    self.state = DigestServerState::AwaitingResponse;
                    let (realm, nonce) = (self.profile.realm, &self.nonce);
                    let challenge =
                        format!("realm=\"{realm}\",nonce=\"{nonce}\",charset=utf-8,algorithm=md5-sess");
                    SaslServerStep::Continue(challenge.into_bytes())
                }
                Err(failure) => {
                    self.state = DigestServerState::Finished;
                    SaslServerStep::Failed(failure)
                }
            },
            DigestServerState::AwaitingResponse => {
                self.state = DigestServerState::Finished;
                match self.check_response(token) {
                    Ok((token, identity)) => SaslServerStep::Complete { token: Some(token), identity },
                    Err(failure) => SaslServerStep::Failed(failure),
                }
            }
            DigestServerState::Finished => SaslServerStep::Failed(SaslFailure::Finished),
        }
    }
}

struct ResponseFields<'a> {
    user: String,
    client_nonce: &'a [u8],
    response: &'a [u8],
    uri: &'a [u8],
    authorization_id: Option<&'a [u8]>,
}

impl<'a> ResponseFields<'a> {
    fn read(
        directives: &'a Directives,
        profile: &DigestProfile,
        nonce: &str,
    ) -> Result<ResponseFields<'a>, SaslFailure> {
        for key in KNOWN {
            directives.single(key)?;
        }
        expect(directives, "charset", |value| value.is_none_or(|charset| charset == b"utf-8"))?;
        expect(directives, "maxbuf", |value| value.is_none_or(is_number))?;
        let user = String::from_utf8(directives.required("username")?.to_vec())
            .map_err(|_| SaslFailure::Directive("username"))?;
        expect(directives, "realm", |value| value == Some(profile.realm.as_bytes()))?;
        expect(directives, "nonce", |value| value == Some(nonce.as_bytes()))?;
        let client_nonce = directives.required("cnonce")?;
        // Java looks for this name; the nc of RFC 2831 has no effect.
        expect(directives, "nonce-count", |value| value.is_none_or(is_one))?;
        expect(directives, "qop", |value| value.is_none_or(|qop| qop == b"auth"))?;
        let uri = directives.required("digest-uri")?;
        expect(directives, "digest-uri", |_| uri.eq_ignore_ascii_case(profile.uri.as_bytes()))?;
        let response = directives.required("response")?;
        let authorization_id = directives.single("authzid")?;
        Ok(ResponseFields { user, client_nonce, response, uri, authorization_id })
    }
}

fn expect(
    directives: &Directives,
    key: &'static str,
    is_valid: impl Fn(Option<&[u8]>) -> bool,
) -> Result<(), SaslFailure> {
    if is_valid(directives.single(key)?) { Ok(()) } else { Err(SaslFailure::Directive(key)) }
}

fn is_number(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| text.parse::<i32>().is_ok())
}

fn is_one(value: &[u8]) -> bool {
    std::str::from_utf8(value).is_ok_and(|text| i32::from_str_radix(text, 16) == Ok(1))
}
