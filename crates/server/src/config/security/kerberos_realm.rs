//! The default realm of Kerberos, which the rule `DEFAULT` of `security.auth_to_local` compares with.

use std::path::Path;

use super::super::load::SystemAccess;
use super::super::setting_reader::SettingReader;

const SYSTEM_FILE: &str = "/etc/krb5.conf";

/// The keys of krb5.conf and of the realm.
pub(super) const CONFIG_KEY: &str = "java.security.krb5.conf";
const REALM_KEY: &str = "java.security.krb5.realm";
const REQUIRED_KEY: &str = "requireKerberosConfig";

fn text<'a>(reader: &'a SettingReader<'_>, key: &str) -> Option<&'a str> {
    reader.get(key).map(|setting| setting.value.as_str()).filter(|text| !text.is_empty())
}

/// The realm of `java.security.krb5.realm`, of the files that `java.security.krb5.conf` or the variable
/// `KRB5_CONFIG` names, or of the system's file.
pub(super) fn default_realm(reader: &SettingReader<'_>, system: &dyn SystemAccess) -> Option<String> {
    let files = text(reader, CONFIG_KEY).unwrap_or(SYSTEM_FILE);
    text(reader, REALM_KEY).map(str::to_owned).or_else(|| {
        let mut contents = files.split(':').filter_map(|file| system.read(Path::new(file)).ok());
        contents.find_map(|content| realm_of(&String::from_utf8_lossy(&content)))
    })
}

/// `requireKerberosConfig` makes a missing realm an error. Only the word true counts, as in ZooKeeper.
pub(super) fn check_required_realm(reader: &mut SettingReader<'_>, realm: Option<&str>) {
    if realm.is_none() && text(reader, REQUIRED_KEY) == Some("true") {
        let file = text(reader, CONFIG_KEY).unwrap_or(SYSTEM_FILE);
        let text =
            format!("requireKerberosConfig is true, but {file} names no default_realm in [libdefaults]");
        reader.diagnostics.error(&reader.origin(REQUIRED_KEY), text);
    }
}

/// `default_realm` of the section `[libdefaults]`.
fn realm_of(content: &str) -> Option<String> {
    let mut is_inside = false;
    for line in content.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if line.starts_with('[') {
            is_inside = line.eq_ignore_ascii_case("[libdefaults]");
        } else if is_inside
            && let Some((key, value)) = line.split_once('=')
            && key.trim() == "default_realm"
        {
            return Some(value.trim().to_owned()).filter(|realm| !realm.is_empty());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms() {
        let text = "[logging]\n default_realm = NO\n[libdefaults]\n # default_realm = NO\n \
                    dns_lookup_kdc = false\n default_realm = ZEBU.TEST \n[realms]\n";
        assert_eq!(realm_of(text).as_deref(), Some("ZEBU.TEST"));
        assert_eq!(realm_of("[libdefaults]\ndefault_realm =\n"), None);
        assert_eq!(realm_of(""), None);
    }
}
