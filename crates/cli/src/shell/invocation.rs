//! The command line of `zebu shell`: zkCli's options, some of Zebu, and optionally one command. It opens no
//! file and no connection.

use std::time::Duration;

use crate::protection::ProtectionArguments;

/// The default servers.
const DEFAULT_SERVERS: &str = "localhost:2181";
const DEFAULT_TIMEOUT_MS: u64 = 30_000;

/// The format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Text,
    Json,
}

/// The messages of the shell beside results and errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbosity {
    /// Those of zkCli.
    LikeZkCli,
    /// None.
    Quiet,
}

/// Whether the shell accepts read-only servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadOnly {
    Refuse,
    Accept,
}

/// The parsed command line of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub(crate) servers: String,
    pub(crate) timeout: Duration,
    pub(crate) read_only: ReadOnly,
    /// Whether the first command waits for a connection.
    pub(crate) waits_for_connection: bool,
    /// TLS and SASL.
    pub(crate) protection: ProtectionArguments,
    pub(crate) form: Form,
    pub(crate) verbosity: Verbosity,
    /// The command to run; empty for an interactive session.
    pub(crate) command: Vec<String>,
    /// The error in the options; the shell continues without them, as zkCli does.
    pub(crate) option_error: Option<String>,
}

impl Default for Invocation {
    fn default() -> Invocation {
        Invocation {
            servers: DEFAULT_SERVERS.to_owned(),
            timeout: Duration::from_millis(DEFAULT_TIMEOUT_MS),
            read_only: ReadOnly::Refuse,
            waits_for_connection: false,
            protection: ProtectionArguments::default(),
            form: Form::Text,
            verbosity: Verbosity::LikeZkCli,
            command: Vec::new(),
            option_error: None,
        }
    }
}

/// Whether a word in front of a command line is an option of the shell, so that no command of ours follows.
pub(crate) fn is_shell_option(word: &str) -> bool {
    matches!(
        word,
        "-server"
            | "--server"
            | "-timeout"
            | "--timeout"
            | "-r"
            | "--readonly"
            | "-waitforconnection"
            | "-q"
            | "--quiet"
            | "--json"
    ) || ProtectionArguments::is_option(word)
}

/// Reads the words. Unknown words with a dash are passed over; the first word without one begins the command.
pub(crate) fn parse(words: &[String]) -> Result<Invocation, String> {
    let mut invocation = Invocation::default();
    let mut protection_words = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-r" | "--readonly" => invocation.read_only = ReadOnly::Accept,
            "-waitforconnection" => invocation.waits_for_connection = true,
            "--json" => {
                invocation.form = Form::Json;
                invocation.verbosity = Verbosity::Quiet;
            }
            "-q" | "--quiet" => invocation.verbosity = Verbosity::Quiet,
            "-server" | "--server" | "-timeout" | "--timeout" => {
                let Some(value) = rest.next() else {
                    invocation.option_error = Some(format!("Error: no argument found for option {word}"));
                    break;
                };
                take_value(&mut invocation, word.trim_start_matches('-'), value)?;
            }
            option if ProtectionArguments::is_option(option) => {
                protection_words.push(word.clone());
                if ProtectionArguments::takes_next_word(option) {
                    let value = rest.next().ok_or_else(|| format!("option {word} needs a value"))?;
                    protection_words.push(value.clone());
                }
            }
            option if option.starts_with('-') => {}
            command => {
                invocation.command.push(command.to_owned());
                invocation.command.extend(rest.by_ref().cloned());
            }
        }
    }
    invocation.protection = ProtectionArguments::from_shell_words(&protection_words)?;
    Ok(invocation)
}

fn take_value(invocation: &mut Invocation, option: &str, value: &str) -> Result<(), String> {
    match option {
        "server" => invocation.servers = value.to_owned(),
        _ => {
            let milliseconds =
                value.parse::<u64>().ok().filter(|number| (1..=i32::MAX as u64).contains(number));
            let milliseconds = milliseconds
                .ok_or_else(|| format!("-timeout takes a number of milliseconds, not {value:?}"))?;
            invocation.timeout = Duration::from_millis(milliseconds);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Invocation {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words).unwrap()
    }

    #[test]
    fn options_then_a_command() {
        assert_eq!(read("--readonly ls /").read_only, ReadOnly::Accept);
        let read_one = read("-server a:1,b:2/x -timeout 5000 -r -waitforconnection get -s /a");
        assert_eq!(read_one.servers, "a:1,b:2/x");
        assert_eq!(read_one.timeout, Duration::from_secs(5));
        assert_eq!((read_one.read_only, read_one.waits_for_connection), (ReadOnly::Accept, true));
        assert_eq!(read_one.command, ["get", "-s", "/a"]);
        assert_eq!(read(""), Invocation::default());
    }

    #[test]
    fn unknown_options_are_passed_over_and_a_missing_value_is_said() {
        let lenient = read("-secure -server h:1 ls /");
        assert_eq!((lenient.servers.as_str(), lenient.command.len()), ("h:1", 2));
        let cut = read("-timeout");
        assert_eq!(cut.option_error.as_deref(), Some("Error: no argument found for option -timeout"));
        assert!(parse(&["-timeout".to_owned(), "soon".to_owned()]).is_err());
    }

    #[test]
    fn protection_between_other_options() {
        let read_one = read("--tls-ca ca.pem -server h:1 -Da=b -client-configuration f get /a --tls");
        assert_eq!(read_one.protection.tls_ca.as_deref(), Some("ca.pem".as_ref()));
        assert_eq!(read_one.protection.client_configuration.as_deref(), Some("f".as_ref()));
        assert_eq!((read_one.servers.as_str(), read_one.protection.properties.len()), ("h:1", 1));
        assert_eq!(read_one.command, ["get", "/a", "--tls"], "words of the command are its own");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&words("-server h:1 --tls-ca")), Err("option --tls-ca needs a value".to_owned()));
        assert!(is_shell_option("--tls-cert=x") && is_shell_option("-Da=b") && !is_shell_option("--tlsx"));
    }

    #[test]
    fn json_means_answers_only() {
        let json = read("--json ls /");
        assert_eq!((json.form, json.verbosity), (Form::Json, Verbosity::Quiet));
        assert_eq!(read("-q ls /").verbosity, Verbosity::Quiet);
    }
}
