//! Versions as they are typed.

use zebu_client::Version;

use super::failure::Failure;

/// A version that a write is meant for; `-1`, or none, is any.
pub(crate) fn read_version(text: Option<&str>) -> Result<Version, Failure> {
    match text.map(str::parse::<i32>) {
        None | Some(Ok(-1)) => Ok(Version::Any),
        Some(Ok(version)) => Ok(Version::Exactly(version)),
        Some(Err(_)) => {
            let text = text.unwrap_or_default();
            Err(Failure::text(format!("a version is a number, not {text:?}; nothing was changed")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_never_ignored() {
        assert_eq!(read_version(None), Ok(Version::Any));
        assert_eq!(read_version(Some("-1")), Ok(Version::Any));
        assert_eq!(read_version(Some("7")), Ok(Version::Exactly(7)));
        for text in ["x", "", "99999999999", "1.0"] {
            assert!(read_version(Some(text)).is_err(), "{text}");
        }
    }
}
