//! The calls of a build without the library. No credential and no context can exist in it.

use std::convert::Infallible;

use zebu_security::sasl::gssapi::{GssContext, GssError, GssFault, GssMessage, GssProgress};

use crate::name::ServiceName;

fn not_built() -> GssError {
    GssError { text: GssFault::NotBuilt.to_string(), fault: GssFault::NotBuilt }
}

/// The key of an accepting side.
#[derive(Clone, Debug)]
pub struct AcceptorCredential(Infallible);

impl AcceptorCredential {
    /// Finds the keys of a service principal.
    ///
    /// # Errors
    /// This build has no Kerberos.
    pub fn acquire(_principal: &str) -> Result<AcceptorCredential, GssError> {
        Err(not_built())
    }

    /// A context for one exchange.
    pub fn context(&self) -> AcceptorContext {
        match self.0 {}
    }
}

/// The context of an accepting side.
#[derive(Debug)]
pub struct AcceptorContext(Infallible);

/// The context of a dialling side.
#[derive(Debug)]
pub struct InitiatorContext(Infallible);

/// Begins an exchange with a service.
///
/// # Errors
/// This build has no Kerberos.
pub fn initiate(_own_principal: Option<&str>, _service: &ServiceName) -> Result<InitiatorContext, GssError> {
    Err(not_built())
}

impl GssContext for AcceptorContext {
    fn step(&mut self, _token: &[u8]) -> Result<GssProgress, GssError> {
        match self.0 {}
    }

    fn wrap(&mut self, _message: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.0 {}
    }

    fn unwrap(&mut self, _token: &[u8]) -> Result<GssMessage, GssError> {
        match self.0 {}
    }

    fn source_name(&self) -> Result<String, GssError> {
        match self.0 {}
    }
}

impl GssContext for InitiatorContext {
    fn step(&mut self, _token: &[u8]) -> Result<GssProgress, GssError> {
        match self.0 {}
    }

    fn wrap(&mut self, _message: &[u8]) -> Result<Vec<u8>, GssError> {
        match self.0 {}
    }

    fn unwrap(&mut self, _token: &[u8]) -> Result<GssMessage, GssError> {
        match self.0 {}
    }

    fn source_name(&self) -> Result<String, GssError> {
        match self.0 {}
    }
}
