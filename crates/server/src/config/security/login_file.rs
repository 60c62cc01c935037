//! The JAAS file (`java.security.auth.login.config`), which holds the logins for clients and between servers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use zebu_security::jaas::{JAAS_BYTES_MAX, JaasError, JaasFile, JaasSection};

use super::super::diagnostics::SettingOrigin;
use super::super::load::SystemAccess;
use super::super::setting_reader::SettingReader;
use super::tls::warn_world_readable;

/// The key of the file.
pub(super) const LOGIN_FILE_KEY: &str = "java.security.auth.login.config";

/// A parsed file.
#[derive(Debug, Clone)]
pub(super) struct LoginFile {
    pub(super) path: PathBuf,
    pub(super) content: JaasFile,
}

/// Where a section is, and how to read it again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSource {
    /// The file.
    pub path: PathBuf,
    /// The section.
    pub section: String,
    properties: JavaProperties,
}

/// Java properties, which values of the file may name.
#[derive(Clone, PartialEq, Eq)]
struct JavaProperties(BTreeMap<String, String>);

/// Shows names only: a value may be a password.
impl fmt::Debug for JavaProperties {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

impl LoginSource {
    pub(super) fn new(reader: &SettingReader<'_>, path: &Path, section: &str) -> LoginSource {
        LoginSource {
            path: path.to_owned(),
            section: section.to_owned(),
            properties: JavaProperties(reader.settings.java_properties.clone()),
        }
    }

    /// Finds the section in new content of the file.
    ///
    /// # Errors
    /// The content is ill-formed, or the section is missing.
    pub fn find_section(&self, content: &[u8]) -> Result<JaasSection, String> {
        let file = JaasFile::parse(content, &|name| self.properties.0.get(name).cloned());
        let file = file.map_err(|error| error.to_string())?;
        let section = file.section(&self.section);
        section.cloned().ok_or_else(|| format!("section {} is missing", self.section))
    }
}

/// Reads the file. `None` if no file is named, or if it is not usable, which has been reported.
pub(super) fn read_login_file(
    reader: &mut SettingReader<'_>,
    system: &dyn SystemAccess,
) -> Option<LoginFile> {
    let setting = reader.get(LOGIN_FILE_KEY).filter(|setting| !setting.value.is_empty())?;
    let path = file_path(&setting.value);
    let bytes = match system.read_bounded(&path, JAAS_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) => {
            let text = format!("{LOGIN_FILE_KEY}: {} cannot be read: {error}", path.display());
            reader.diagnostics.error(&setting.origin, text);
            return None;
        }
    };
    let properties = &reader.settings.java_properties;
    match JaasFile::parse(&bytes, &|name| properties.get(name).cloned()) {
        Ok(content) => {
            warn_world_readable(reader, system, &setting.origin, &path, "passwords");
            Some(LoginFile { path, content })
        }
        Err(error) => {
            report_login_error(reader, &path, &error);
            None
        }
    }
}

/// Reports an error at its line of the file.
pub(super) fn report_login_error(reader: &mut SettingReader<'_>, path: &Path, error: &JaasError) {
    let line = u32::try_from(error.line).unwrap_or(u32::MAX);
    let origin = SettingOrigin::Line { file: path.to_owned(), line };
    reader.diagnostics.error(&origin, error.problem.clone());
}

/// Java takes a path or a URL. A leading `=` says that no other file counts.
fn file_path(value: &str) -> PathBuf {
    let value = value.strip_prefix('=').unwrap_or(value);
    let path = match value.strip_prefix("file:") {
        Some(url) => url.strip_prefix("//").unwrap_or(url),
        None => value,
    };
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (value, path) in [
            ("/etc/jaas.conf", "/etc/jaas.conf"),
            ("=/etc/jaas.conf", "/etc/jaas.conf"),
            ("jaas.conf", "jaas.conf"),
            ("file:/etc/jaas.conf", "/etc/jaas.conf"),
            ("file:///etc/jaas.conf", "/etc/jaas.conf"),
            ("=file:jaas.conf", "jaas.conf"),
        ] {
            assert_eq!(file_path(value), Path::new(path), "{value}");
        }
    }
}
