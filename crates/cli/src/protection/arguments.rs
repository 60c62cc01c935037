//! The arguments of TLS and SASL, the same for each command that connects. The shell reads its own words and
//! passes these on.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser};

/// A property of the command line. Its value may be a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PropertyArgument {
    pub(crate) key: String,
    pub(crate) value: String,
}

impl fmt::Debug for PropertyArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PropertyArgument({}=..)", self.key)
    }
}

impl FromStr for PropertyArgument {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<PropertyArgument, Self::Err> {
        // As for java: a property without = is set and empty.
        let (key, value) = text.split_once('=').unwrap_or((text, ""));
        Ok(PropertyArgument { key: key.to_owned(), value: value.to_owned() })
    }
}

/// How to protect connections.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "TLS and SASL")]
pub(crate) struct ProtectionArguments {
    /// Connect by TLS, to the secureClientPort of servers; each other --tls option implies it
    #[arg(long)]
    pub(crate) tls: bool,
    /// Trusted authorities: PEM, PKCS12 or JKS
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The password of a PKCS12 or JKS --tls-ca is in this file
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_ca_password_file: Option<PathBuf>,
    /// Own certificate with its chain: PEM, or PKCS12 or JKS with the key inside
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key in PEM, if --tls-cert does not hold it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// The password of the private key, or of the store that holds it, is in this file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key_password_file: Option<PathBuf>,
    /// Accept the certificate of any trusted authority, whatever host it names
    #[arg(long)]
    pub(crate) tls_skip_hostname_check: bool,
    /// Authenticate as this user (DIGEST-MD5)
    #[arg(long, value_name = "USER")]
    pub(crate) sasl_user: Option<String>,
    /// The password of --sasl-user is in this file; without it in the variable ZEBU_SASL_PASSWORD
    #[arg(long, value_name = "FILE", requires = "sasl_user")]
    pub(crate) sasl_password_file: Option<PathBuf>,
    /// Authenticate with the Kerberos ticket of the cache (GSSAPI); each other --kerberos option implies it
    #[arg(long, conflicts_with = "sasl_user")]
    pub(crate) kerberos: bool,
    /// Get Kerberos tickets with the keys of this keytab
    #[arg(long, value_name = "FILE", conflicts_with = "sasl_user")]
    pub(crate) kerberos_keytab: Option<PathBuf>,
    /// The own Kerberos principal, if the cache or the keytab has several
    #[arg(long, value_name = "NAME", conflicts_with = "sasl_user")]
    pub(crate) kerberos_principal: Option<String>,
    /// A property of the Java client: -Dzookeeper.client.secure=true (others can see it in the process list)
    #[arg(short = 'D', value_name = "NAME=VALUE")]
    pub(crate) properties: Vec<PropertyArgument>,
    /// Properties of the Java client, one per line, as for zkCli.sh
    #[arg(long, value_name = "FILE")]
    pub(crate) client_configuration: Option<PathBuf>,
}

/// For the words of the shell.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct ShellWords {
    #[command(flatten)]
    arguments: ProtectionArguments,
}

/// zkCli.sh writes this option with one dash.
pub(crate) const ZKCLI_CONFIGURATION: &str = "-client-configuration";

impl ProtectionArguments {
    /// Whether a word of the shell is one of these options.
    pub(crate) fn is_option(word: &str) -> bool {
        word == ZKCLI_CONFIGURATION || word.starts_with("-D") || Self::long_option(word).is_some()
    }

    /// Whether the value of this option is the next word.
    pub(crate) fn takes_next_word(word: &str) -> bool {
        match word {
            ZKCLI_CONFIGURATION | "-D" => true,
            _ => !word.contains('=') && Self::long_option(word) == Some(true),
        }
    }

    /// Whether the option takes a value, if it is one of these.
    fn long_option(word: &str) -> Option<bool> {
        let name = word.strip_prefix("--")?.split('=').next()?;
        let command = Self::augment_args(clap::Command::new("shell"));
        let found = command.get_arguments().find(|argument| argument.get_long() == Some(name));
        found.map(|argument| argument.get_action().takes_values())
    }

    /// Reads words of the shell that [`ProtectionArguments::is_option`] has accepted, with their values.
    pub(crate) fn from_shell_words(words: &[String]) -> Result<ProtectionArguments, String> {
        let words = words.iter().map(|word| double_dashed(word));
        match ShellWords::try_parse_from(words) {
            Ok(read) => Ok(read.arguments),
            Err(error) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
        }
    }
}

/// zkCli's spelling in the form that the parser knows.
pub(crate) fn double_dashed(word: &str) -> String {
    match word {
        ZKCLI_CONFIGURATION => "--client-configuration".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<ProtectionArguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ProtectionArguments::from_shell_words(&words)
    }

    #[test]
    fn words_of_the_shell() {
        for (word, takes_value) in [
            ("--tls", Some(false)),
            ("--tls-ca", Some(true)),
            ("--tls-ca=x", Some(false)),
            ("--sasl-user", Some(true)),
            ("-client-configuration", Some(true)),
            ("-D", Some(true)),
            ("-Da=b", Some(false)),
            ("--tls-none", None),
            ("-server", None),
        ] {
            assert_eq!(ProtectionArguments::is_option(word), takes_value.is_some(), "{word}");
            assert_eq!(ProtectionArguments::takes_next_word(word), takes_value == Some(true), "{word}");
        }
        let all = read("--tls-ca ca.pem -Da=b=c -D d -client-configuration f --sasl-user=bob").unwrap();
        assert_eq!(all.tls_ca.as_deref(), Some("ca.pem".as_ref()));
        assert_eq!(all.properties[0].value, "b=c");
        assert_eq!((all.properties[1].key.as_str(), all.properties[1].value.as_str()), ("d", ""));
        assert_eq!(all.client_configuration.as_deref(), Some("f".as_ref()));
        assert!(!format!("{all:?}").contains("b=c"));
        let error = read("--tls-key k").unwrap_err();
        assert!(error.contains("required"), "{error}");
    }
}
