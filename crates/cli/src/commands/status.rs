//! `zebu status`: asks the server of a configuration how it is, in the words of zkServer.sh, or any servers
//! of an ensemble what they are.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zebu_client::{ServerList, TlsConnector};

use crate::config_arguments::environment;
use crate::config_file::{ClientPort, Peek, locate};
use crate::console::{print_error, print_line, printable};
use crate::monitor::{self, Form};
use crate::protection::{self, Protection, ProtectionArguments, WordLimits};

/// How long a server may take to answer, and the longest answer of `srvr`.
const LIMITS: WordLimits = WordLimits { time: Duration::from_secs(5), answer_bytes: 64 * 1024 };

/// Ask servers whether they serve, and as what
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu status                                     the server of conf/zoo.cfg
  zebu status /etc/zebu/zoo.cfg
  zebu status zk1                                 a server; port 2181 if nothing else is said
  zebu status zk1:2181,zk2:2181,zk3:2181          an ensemble: role, zxid, epoch, followers, observers
  zebu status --json zk1:2181,zk2:2181,zk3:2181
  zebu status --tls-ca ca.pem --tls-cert me.pem zk1:2281

Followers and observers are those that are up to date; the leader tells them with the word mntr, which must be in \
4lw.commands.whitelist. Both Zebu and Apache ZooKeeper servers can be asked.
Exit status: 0 all serve and one of several leads, 1 not so, 2 wrong arguments.")]
pub(crate) struct Status {
    /// zoo.cfg (a bare name is looked for in the configuration directory), or servers:
    /// host:port,host:port,... (2181 if no port is given)
    #[arg(value_name = "CONFIG|SERVERS")]
    subject: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    protection: ProtectionArguments,
}

/// Endings by which a name is known as that of a file.
const FILE_ENDINGS: [&str; 4] = ["cfg", "conf", "config", "properties"];

/// Whether this is a connection string: it names no file, neither by itself nor in the configuration
/// directory, and does not look like the name of one.
fn names_servers(subject: &str, config: &Path) -> bool {
    if Path::new(subject).exists() || config.exists() {
        return false;
    }
    if subject.contains([':', ',']) {
        return true;
    }
    let ending = Path::new(subject).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    !subject.contains('/') && !FILE_ENDINGS.contains(&ending)
}

impl Status {
    /// Asks.
    pub(crate) fn run(self) -> ExitCode {
        let form = if self.json { Form::Json } else { Form::Table };
        let environment = environment();
        let config = locate(self.subject.as_deref(), &environment, std::env::current_exe().ok().as_deref());
        if let Some(servers) = self.subject.as_deref().filter(|subject| names_servers(subject, &config)) {
            return match self.protection.open() {
                Ok(protection) => show_servers(servers, &protection, form),
                Err(error) => {
                    print_error(error.to_string());
                    ExitCode::from(2)
                }
            };
        }
        print_error(format!("Using config: {}", config.display()));
        let found = match Peek::read(&config) {
            Ok(peek) => peek.client_port(),
            Err(why) => {
                print_error(why);
                None
            }
        };
        let Some(port) = found else {
            print_line("Unable to find either secure or unsecure client port in any configs. Terminating.");
            return ExitCode::FAILURE;
        };
        // The configuration decides whether the port speaks TLS.
        let (host, number, protection) = match &port {
            ClientPort::Plain { host, port } => (host, port, Protection::default()),
            ClientPort::Secure { host, port } => match self.protection.open_for_tls() {
                Ok(protection) => (host, port, protection),
                Err(error) => {
                    print_error(error.to_string());
                    return ExitCode::from(2);
                }
            },
        };
        let address =
            if host.contains(':') { format!("[{host}]:{number}") } else { format!("{host}:{number}") };
        if self.json {
            return show_servers(&address, &protection, form);
        }
        protection.notes.iter().for_each(print_error);
        let is_secure = protection.tls.is_some();
        print_line(format!("Client port found: {number}. Client address: {host}. Client SSL: {is_secure}."));
        let mode = match ask(&address, protection.tls.as_ref()) {
            Ok(answer) => mode_line(&answer),
            Err(error) => {
                print_error(format!("{address}: {error}"));
                None
            }
        };
        match mode {
            Some(mode) => {
                print_line(mode);
                ExitCode::SUCCESS
            }
            None => {
                print_line("Error contacting service. It is probably not running.");
                ExitCode::FAILURE
            }
        }
    }
}

/// One line per server.
fn show_servers(servers: &str, protection: &Protection, form: Form) -> ExitCode {
    let list: ServerList = match servers.parse() {
        Ok(list) => list,
        Err(error) => {
            print_error(format!("{error}"));
            return ExitCode::from(2);
        }
    };
    protection.notes.iter().for_each(print_error);
    let addresses: Vec<String> = list.servers().iter().map(ToString::to_string).collect();
    if monitor::show_roles(&addresses, protection.tls.as_ref(), form) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Sends `srvr` and returns the whole answer.
fn ask(address: &str, tls: Option<&TlsConnector>) -> std::io::Result<String> {
    protection::ask(address, "srvr", tls, LIMITS)
}

fn mode_line(answer: &str) -> Option<String> {
    answer.lines().find(|line| line.starts_with("Mode: ")).map(printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_servers() {
        let home = tempfile::tempdir().unwrap();
        let there = home.path().join("zk1");
        std::fs::write(&there, "").unwrap();
        let nowhere = Path::new("conf/none");
        for (subject, is) in [
            ("zk1", true),
            ("127.0.0.1", true),
            ("zk1.example.com", true),
            ("zk1:2181", true),
            ("zk1,zk2", true),
            ("[::1]:2181", true),
            ("zoo.cfg", false),
            ("./zk1", false),
            ("/etc/zk", false),
        ] {
            assert_eq!(names_servers(subject, nowhere), is, "{subject}");
        }
        assert!(!names_servers("zk1", &there));
    }
}
