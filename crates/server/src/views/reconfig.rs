//! What a reconfig would make of the config, without sending it.

use zebu_zab::Configuration;
use zebu_zab::membership::{ConfigChange, ConfigChangeError, ConfigChangeRules};

use super::ServerViews;

/// A change of the config, as a reconfig request names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfigChangeView<'a> {
    /// `server.N=…` lines, comma separated.
    pub joining: Option<&'a str>,
    /// Ids, comma separated.
    pub leaving: Option<&'a str>,
    /// A complete config instead of the two above.
    pub members: Option<&'a str>,
}

/// Why there is no new config.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigPreviewError {
    /// The server is not a member of an ensemble.
    #[error("a standalone server has no config that could change")]
    Standalone,
    /// `reconfigEnabled` is false.
    #[error("reconfig is off; reconfigEnabled=true on all servers turns it on")]
    Disabled,
    /// The change is malformed or breaks a rule.
    #[error(transparent)]
    Refused(#[from] ConfigChangeError),
}

impl ServerViews {
    /// The active config, and the config after a change. The version of the new one is the next zxid at the
    /// earliest, so it is left as it is.
    ///
    /// # Errors
    /// See [`ConfigPreviewError`].
    pub fn preview_config(
        &self,
        change: ConfigChangeView<'_>,
    ) -> Result<(Configuration, Configuration), ConfigPreviewError> {
        let current = self.ensemble_config().ok_or(ConfigPreviewError::Standalone)?;
        if !self.config().reconfig_enabled {
            return Err(ConfigPreviewError::Disabled);
        }
        let membership = &self.config().membership;
        let rules = ConfigChangeRules {
            voters_min: if membership.standalone_enabled { 2 } else { 1 },
            addresses: membership.peers.address_support,
        };
        let change = match change {
            ConfigChangeView { members: Some(members), .. } => ConfigChange::Complete(members),
            ConfigChangeView { joining, leaving, members: None } => {
                ConfigChange::Incremental { joining, leaving }
            }
        };
        let next = current.with_change(change, current.zxid(), rules)?;
        Ok((current, next))
    }
}
