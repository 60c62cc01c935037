//! Reads the files behind the settings: passwords, stores and login configurations.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use zebu_client::{HostNames, SaslLogin, Tls};
use zebu_security::jaas::{JAAS_BYTES_MAX, JaasFile, JaasLogin};
use zebu_security::secret::SecretText;

use super::Protection;
use super::arguments::ProtectionArguments;
use super::error::ProtectionError;
use super::kerberos::{TicketSource, open_kerberos};
use super::properties::{ClientProperties, FLAGS_VARIABLE};
use super::settings::{PASSWORD_VARIABLE, PasswordSource, ProtectionSettings, SaslUser, TlsSettings, decide};

/// More bytes are no password.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

impl ProtectionArguments {
    /// Reads all files that the arguments and properties name.
    pub(crate) fn open(&self) -> Result<Protection, ProtectionError> {
        self.open_for(false)
    }

    /// Like [`ProtectionArguments::open`], for a port that is known to speak TLS.
    pub(crate) fn open_for_tls(&self) -> Result<Protection, ProtectionError> {
        self.open_for(true)
    }

    fn open_for(&self, must_use_tls: bool) -> Result<Protection, ProtectionError> {
        let mut properties = ClientProperties::default();
        if let Ok(flags) = std::env::var(FLAGS_VARIABLE) {
            properties.add_flags(FLAGS_VARIABLE, &flags);
        }
        properties.add_arguments(&self.properties);
        if let Some(file) = &self.client_configuration {
            properties.add_file(file)?;
        }
        let settings = decide(self, &properties, std::env::var(PASSWORD_VARIABLE).ok(), must_use_tls)?;
        let mut protection = Protection { notes: properties.unknown_keys(), ..Protection::default() };
        open_settings(&settings, &properties, &mut protection)?;
        Ok(protection)
    }
}

fn open_settings(
    settings: &ProtectionSettings,
    properties: &ClientProperties,
    protection: &mut Protection,
) -> Result<(), ProtectionError> {
    protection.largest_answer = settings.largest_answer;
    if let Some(tls) = &settings.tls {
        let opened = open_tls(tls, &mut protection.notes)?;
        protection.notes.extend(opened.notes().iter().cloned());
        protection.tls = Some(opened.connector()?);
    }
    let notes = &mut protection.notes;
    let login = match &settings.sasl {
        None => None,
        Some(SaslUser::Given { user, password }) => {
            let password = read_password(password, notes)?;
            Some(CommandLogin::Digest(SaslLogin::digest_md5(user, password.reveal())))
        }
        Some(SaslUser::Ticket(source)) => Some(CommandLogin::Kerberos(source.clone())),
        Some(SaslUser::Login { file, section, is_section_required }) => {
            read_login(file, section, *is_section_required, properties, notes)?
        }
    };
    protection.sasl = match login {
        None => None,
        Some(CommandLogin::Digest(_)) if settings.is_fips => {
            let problem =
                "zookeeper.fips-mode=true forbids DIGEST-MD5; remove it, or authenticate by certificate";
            return Err(ProtectionError::Arguments(problem.to_owned()));
        }
        Some(CommandLogin::Digest(login)) => Some(login),
        Some(CommandLogin::Kerberos(source)) => Some(open_kerberos(&source, properties)?),
    };
    Ok(())
}

/// The login of a command before its files are opened.
enum CommandLogin {
    Digest(SaslLogin),
    Kerberos(TicketSource),
}

fn open_tls(settings: &TlsSettings, notes: &mut Vec<String>) -> Result<Tls, ProtectionError> {
    let mut tls = Tls::new();
    if let Some((file, password)) = &settings.trusted {
        tls = tls.trust_store(file, read_password(password, notes)?.reveal())?;
    }
    if let Some(identity) = &settings.identity {
        let password = read_password(&identity.password, notes)?;
        tls = match &identity.key {
            Some(key) => tls.identity_files_with_password(&identity.certificate, key, password.reveal())?,
            None => tls.key_store(&identity.certificate, password.reveal())?,
        };
    }
    if let Some(list) = &settings.protocols {
        tls = tls.protocols(list)?;
    }
    if let Some(list) = &settings.suites {
        tls = tls.cipher_suites(list)?;
    }
    if settings.checks_revocation {
        tls = tls.check_revocation();
    }
    Ok(tls.host_names(if settings.verifies_names { HostNames::Verify } else { HostNames::Ignore }))
}

fn read_password(source: &PasswordSource, notes: &mut Vec<String>) -> Result<SecretText, ProtectionError> {
    let file = match source {
        PasswordSource::None => return Ok(SecretText::default()),
        PasswordSource::Text(text) => return Ok(text.clone()),
        PasswordSource::File(file) => file,
    };
    let unreadable = |problem: String| ProtectionError::PasswordFile { path: file.clone(), problem };
    let content = read_limited(file, PASSWORD_BYTES_MAX, notes).map_err(unreadable)?;
    let text =
        SecretText::from_file_content(&content).map_err(|_| unreadable("it is not UTF-8".to_owned()))?;
    // An editor on Windows leaves both.
    Ok(SecretText::new(text.reveal().strip_suffix('\r').unwrap_or(text.reveal())))
}

/// Reads a file that only its owner should be able to read.
fn read_limited(file: &Path, limit: u64, notes: &mut Vec<String>) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.len() > limit {
        return Err(format!("it has {} bytes, the limit is {limit}", metadata.len()));
    }
    if metadata.permissions().mode() & 0o077 != 0 {
        let shown = file.display();
        notes.push(format!("{shown} holds a password and others can read it; chmod 600 {shown}"));
    }
    std::fs::read(file).map_err(|error| error.to_string())
}

fn read_login(
    file: &Path,
    section: &str,
    is_section_required: bool,
    properties: &ClientProperties,
    notes: &mut Vec<String>,
) -> Result<Option<CommandLogin>, ProtectionError> {
    let failed = |problem: String| ProtectionError::LoginFile { path: file.to_owned(), problem };
    let content = read_limited(file, JAAS_BYTES_MAX as u64, notes).map_err(failed)?;
    let property = |name: &str| properties.get(name).map(str::to_owned);
    let logins = JaasFile::parse(&content, &property).map_err(|error| failed(error.to_string()))?;
    let Some(found) = logins.section(section) else {
        let names: Vec<&str> = logins.section_names().collect();
        let problem = format!("there is no section {section}; the file has {names:?}");
        if is_section_required {
            return Err(failed(problem));
        }
        notes.push(format!("{}: {problem}; connecting without SASL, as zkCli does", file.display()));
        return Ok(None);
    };
    match found.login().map_err(|error| failed(error.to_string()))? {
        JaasLogin::Digest(login) => {
            let missing = || failed(format!("section {section} has no option username"));
            let user = login.username.ok_or_else(missing)?;
            Ok(Some(CommandLogin::Digest(SaslLogin::digest_md5(user, login.password.reveal()))))
        }
        JaasLogin::Kerberos(login) => {
            let source = TicketSource::from_login(&login);
            let source = source.map_err(|problem| failed(format!("section {section}: {problem}")))?;
            Ok(Some(CommandLogin::Kerberos(source)))
        }
    }
}
