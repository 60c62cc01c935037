//! The accepting side: the keys of a service principal, and one context per exchange.

use std::fmt;

use libgssapi::context::{SecurityContext, ServerCtx};
use libgssapi::credential::{Cred, CredUsage};
use zebu_security::sasl::gssapi::{GssContext, GssError, GssMessage, GssProgress};

use crate::library::{error_of, kerberos_only, principal, text_of, unwrap, wrap};

/// The keys of a service principal. The library reads the keytab again for each exchange, so that a new key
/// needs no restart.
#[derive(Clone)]
pub struct AcceptorCredential {
    credential: Cred,
    principal: String,
}

impl fmt::Debug for AcceptorCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AcceptorCredential({})", self.principal)
    }
}

impl AcceptorCredential {
    /// Finds the keys of a service principal in the keytab of the environment.
    ///
    /// # Errors
    /// The keytab cannot be read, or has no key of this principal.
    pub fn acquire(name: &str) -> Result<AcceptorCredential, GssError> {
        let (service, mechanisms) = (principal(name)?, kerberos_only()?);
        let credential = Cred::acquire(Some(&service), None, CredUsage::Accept, Some(&mechanisms));
        Ok(AcceptorCredential { credential: credential.map_err(error_of)?, principal: name.to_owned() })
    }

    /// A context for one exchange.
    pub fn context(&self) -> AcceptorContext {
        AcceptorContext(ServerCtx::new(Some(self.credential.clone())))
    }
}

/// The context of an accepting side.
#[derive(Debug)]
pub struct AcceptorContext(ServerCtx);

impl GssContext for AcceptorContext {
    fn step(&mut self, token: &[u8]) -> Result<GssProgress, GssError> {
        let token = self.0.step(token, None).map_err(error_of)?.map(|token| token.to_vec());
        // A forwarded ticket of the client is not used.
        drop(self.0.take_delegated_cred());
        Ok(GssProgress { token, is_complete: self.0.is_complete() })
    }

    fn wrap(&mut self, message: &[u8]) -> Result<Vec<u8>, GssError> {
        wrap(&mut self.0, message)
    }

    fn unwrap(&mut self, token: &[u8]) -> Result<GssMessage, GssError> {
        unwrap(&mut self.0, token)
    }

    fn source_name(&self) -> Result<String, GssError> {
        text_of(&self.0.source_name().map_err(error_of)?)
    }
}
