//! The dialling side of DIGEST-MD5.

use std::fmt::Write;

use subtle::ConstantTimeEq;

use super::super::{SaslClient, SaslClientStep, SaslFailure, check_token};
use super::DigestProfile;
use super::directives::Directives;
use super::hash::{DigestInput, digest_pair};
use crate::secret::SecretText;

/// Bytes of a challenge, as in Java.
const CHALLENGE_MAX: usize = 2048;

#[derive(Debug)]
enum DigestClientState {
    AwaitingChallenge,
    AwaitingProof { expected: String },
    Finished,
}

/// One exchange of a user.
#[derive(Debug)]
pub struct DigestClient {
    profile: DigestProfile,
    user: String,
    password: SecretText,
    client_nonce: String,
    state: DigestClientState,
}

impl DigestClient {
    /// `client_nonce` must be random and used for this exchange only. The user is also the authorization id.
    pub fn new(
        profile: DigestProfile,
        user: impl Into<String>,
        password: SecretText,
        client_nonce: impl Into<String>,
    ) -> DigestClient {
        DigestClient {
            profile,
            user: user.into(),
            password,
            client_nonce: client_nonce.into(),
            state: DigestClientState::AwaitingChallenge,
        }
    }

    /// The response to a challenge, and the proof that the server must give.
    fn respond(&self, token: Option<&[u8]>) -> Result<(Vec<u8>, String), SaslFailure> {
        let directives = Directives::parse(check_token(token, CHALLENGE_MAX)?)?;
        let text =
            |value: &[u8], key| String::from_utf8(value.to_vec()).map_err(|_| SaslFailure::Directive(key));
        let nonce = text(directives.required("nonce")?, "nonce")?;
        if directives.required("algorithm")? != b"md5-sess" {
            return Err(SaslFailure::Directive("algorithm"));
        }
        let offers_auth = |list: &[u8]| {
            list.split(|byte| matches!(byte, b',' | b' ')).any(|qop| qop.eq_ignore_ascii_case(b"auth"))
        };
        if directives.single("qop")?.is_some_and(|list| !offers_auth(list)) {
            return Err(SaslFailure::Directive("qop"));
        }
        let charset = directives.single("charset")?;
        if charset.is_some_and(|charset| charset != b"utf-8") {
            return Err(SaslFailure::Directive("charset"));
        }
        let realm = text(directives.all("realm").next().unwrap_or_default(), "realm")?;
        let input = DigestInput {
            user: &self.user,
            realm: &realm,
            nonce: nonce.as_bytes(),
            client_nonce: self.client_nonce.as_bytes(),
            uri: self.profile.uri.as_bytes(),
            authorization_id: Some(self.user.as_bytes()),
        };
        let pair = digest_pair(&input, self.password.reveal());
        let mut response = String::new();
        if charset.is_some() {
            response.push_str("charset=utf-8,");
        }
        let (user, realm, nonce) = (quoted(&self.user), quoted(&realm), quoted(&nonce));
        let (client_nonce, uri) = (quoted(&self.client_nonce), quoted(self.profile.uri));
        let written = write!(
            response,
            "username={user},realm={realm},nonce={nonce},nc=00000001,cnonce={client_nonce},digest-uri={uri},\
             maxbuf=65536,response={},qop=auth,authzid={user}",
            pair.response
        );
        written.map_err(|_| SaslFailure::Malformed("the response cannot be written"))?;
        Ok((response.into_bytes(), pair.response_auth))
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

fn check_proof(token: Option<&[u8]>, expected: &str) -> Result<(), SaslFailure> {
    let directives = Directives::parse(check_token(token, CHALLENGE_MAX)?)?;
    let proof = directives.single("rspauth")?.ok_or(SaslFailure::ServerNotProved)?;
    match bool::from(proof.ct_eq(expected.as_bytes())) {
        true => Ok(()),
        false => Err(SaslFailure::ServerNotProved),
    }
}

impl SaslClient for DigestClient {
    fn start(&mut self) -> Result<Vec<u8>, SaslFailure> {
        Ok(Vec::new())
    }

    fn step(&mut self, token: Option<&[u8]>) -> SaslClientStep {
        match std::mem::replace(&mut self.state, DigestClientState::Finished) {
            DigestClientState::AwaitingChallenge => match self.respond(token) {
                Ok((response, expected)) => {
                    self.state = DigestClientState::AwaitingProof { expected };
                    SaslClientStep::Respond(response)
                }
                Err(failure) => SaslClientStep::Failed(failure),
            },
            DigestClientState::AwaitingProof { expected } => match check_proof(token, &expected) {
                Ok(()) => SaslClientStep::Complete,
                Err(failure) => SaslClientStep::Failed(failure),
            },
            DigestClientState::Finished => SaslClientStep::Failed(SaslFailure::Finished),
        }
    }
}
