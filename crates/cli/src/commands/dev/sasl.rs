//! SASL of a local ensemble, for clients and between servers: one JAAS file with users, of which servers,
//! `zebu` and zkCli read their sections.

use std::path::{Path, PathBuf};

use crate::commands::cert::write_secret;

/// The file below the directory of the ensemble.
const FILE: &str = "jaas.conf";

/// Random bytes of a password.
const PASSWORD_BYTES: usize = 16;

/// The section of the super user; `Client` is that of the usual one.
const SUPER_SECTION: &str = "Super";

/// The JAAS file.
#[derive(Debug)]
pub(super) struct DevSasl {
    file: PathBuf,
}

impl DevSasl {
    /// Makes the file with new passwords, or takes that of an earlier start with its changes.
    pub(super) fn open(directory: &Path) -> Result<DevSasl, String> {
        let file = directory.join(FILE);
        if !file.exists() {
            let text = jaas(&[password()?, password()?, password()?]);
            write_secret(&file, &text).map_err(|error| error.to_string())?;
        }
        Ok(DevSasl { file })
    }

    /// The lines of a server's configuration for its clients: each must be one of the users.
    pub(super) fn client_lines(&self) -> String {
        format!(
            "java.security.auth.login.config={}\nfips-mode=false\n\
             authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n\
             sessionRequireClientSASLAuth=true\nsuperUser=super\n",
            self.file.display()
        )
    }

    /// The lines for the connections between servers.
    pub(super) fn quorum_lines(&self) -> &'static str {
        "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n"
    }

    /// The options of a client.
    pub(super) fn options(&self) -> String {
        format!("-Djava.security.auth.login.config={}", self.file.display())
    }

    /// The options of the super user.
    pub(super) fn super_options(&self) -> String {
        format!("{} -Dzookeeper.sasl.clientconfig={SUPER_SECTION}", self.options())
    }
}

fn password() -> Result<String, String> {
    let mut bytes = [0; PASSWORD_BYTES];
    getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes for a password: {error}"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The users `dev`, `super` and `quorum` with these passwords.
fn jaas([dev, super_user, quorum]: &[String; 3]) -> String {
    let section = |name: &str, options: &str| {
        format!(
            "{name} {{\n    org.apache.zookeeper.server.auth.DigestLoginModule required\n    {options};\n}};\n"
        )
    };
    let login = |user: &str, password: &str| format!("username=\"{user}\"\n    password=\"{password}\"");
    [
        section("Server", &format!("user_super=\"{super_user}\"\n    user_dev=\"{dev}\"")),
        section("Client", &login("dev", dev)),
        section(SUPER_SECTION, &login("super", super_user)),
        section("QuorumServer", &format!("user_quorum=\"{quorum}\"")),
        section("QuorumLearner", &login("quorum", quorum)),
    ]
    .concat()
}
