//! The dialling side: a ticket from the cache or from the keytab of the environment, and one context per
//! exchange. The context demands that the server proves itself.

use libgssapi::context::{ClientCtx, CtxFlags, SecurityContext};
use libgssapi::credential::{Cred, CredUsage};
use libgssapi::name::Name;
use libgssapi::oid::{GSS_MECH_KRB5, GSS_NT_HOSTBASED_SERVICE};
use zebu_security::sasl::gssapi::{GssContext, GssError, GssMessage, GssProgress};

use crate::library::{error_of, kerberos_only, principal, text_of, unwrap, wrap};
use crate::name::{ServiceName, realm_of};

/// The context of a dialling side.
#[derive(Debug)]
pub struct InitiatorContext(ClientCtx);

/// Begins an exchange with a service. The first step fetches the ticket. The library renews tickets that come
/// from a keytab.
///
/// # Errors
/// There is no ticket, none can be had, or a name is malformed.
pub fn initiate(own_principal: Option<&str>, service: &ServiceName) -> Result<InitiatorContext, GssError> {
    let own = own_principal.map(principal).transpose()?;
    let mechanisms = kerberos_only()?;
    let credential =
        Cred::acquire(own.as_ref(), None, CredUsage::Initiate, Some(&mechanisms)).map_err(error_of)?;
    let target = target(service, own_principal.and_then(realm_of))?;
    let flags = CtxFlags::GSS_C_MUTUAL_FLAG | CtxFlags::GSS_C_INTEG_FLAG | CtxFlags::GSS_C_SEQUENCE_FLAG;
    Ok(InitiatorContext(ClientCtx::new(Some(credential), target, flags, Some(GSS_MECH_KRB5))))
}

fn target(service: &ServiceName, own_realm: Option<&str>) -> Result<Name, GssError> {
    match service {
        ServiceName::Principal(text) => principal(&ServiceName::with_realm(text, own_realm)),
        ServiceName::CanonicalHost { service, host, realm } => {
            let text = format!("{service}@{host}");
            let name = Name::new(text.as_bytes(), Some(GSS_NT_HOSTBASED_SERVICE)).map_err(error_of)?;
            let Some(realm) = realm else { return Ok(name) };
            let canonical = text_of(&name.canonicalize(Some(GSS_MECH_KRB5)).map_err(error_of)?)?;
            let without_realm = canonical.split_once('@').map_or(canonical.as_str(), |(name, _)| name);
            principal(&format!("{without_realm}@{realm}"))
        }
    }
}

impl GssContext for InitiatorContext {
    fn step(&mut self, token: &[u8]) -> Result<GssProgress, GssError> {
        let token = Some(token).filter(|token| !token.is_empty());
        let token = self.0.step(token, None).map_err(error_of)?.map(|token| token.to_vec());
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
