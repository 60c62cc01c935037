//! The `ensemble` scheme: a client names the ensemble that it expects. It proves no identity and takes no
//! part in ACLs.

/// Settings of the `ensemble` scheme.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EnsembleScheme {
    /// The names of this ensemble (`ensembleAuthName`); `None` accepts every name.
    pub names: Option<Vec<Box<str>>>,
}

/// The answer to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnsembleMatch {
    /// The client expects this ensemble.
    Expected,
    /// No name was sent, or none is configured.
    Skipped,
    /// The client expects another ensemble. It gets no reply, so that it tries another server.
    Other,
}

impl EnsembleScheme {
    /// Compares the name that a client sent. Empty data is no name.
    pub fn check(&self, data: Option<&[u8]>) -> EnsembleMatch {
        let (Some(names), Some(name)) = (&self.names, data.filter(|data| !data.is_empty())) else {
            return EnsembleMatch::Skipped;
        };
        match names.iter().any(|known| known.as_bytes() == name) {
            true => EnsembleMatch::Expected,
            false => EnsembleMatch::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let scheme = EnsembleScheme { names: Some(vec!["east".into(), "west".into()]) };
        assert_eq!(scheme.check(Some(b"west")), EnsembleMatch::Expected);
        assert_eq!(scheme.check(Some(b"")), EnsembleMatch::Skipped);
        assert_eq!(scheme.check(None), EnsembleMatch::Skipped);
        for other in [&b"West"[..], b" west", b"north", &[0xff]] {
            assert_eq!(scheme.check(Some(other)), EnsembleMatch::Other, "{other:?}");
        }
        assert_eq!(EnsembleScheme::default().check(Some(b"north")), EnsembleMatch::Skipped);
    }
}
