//! `zebu status`: asks the server of a configuration how it is, in the words of zkServer.sh, or any servers
//! of an ensemble what they are.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use zebu_client::ServerList;

use crate::config_arguments::environment;
use crate::config_file::{ClientPort, Peek, locate};
use crate::console::{print_error, print_line, printable};
use crate::monitor::{self, Form};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// No answer of `srvr` is longer.
const ANSWER_LIMIT: u64 = 64 * 1024;

/// Ask servers whether they serve, and as what
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu status                                     the server of conf/zoo.cfg
  zebu status /etc/zebu/zoo.cfg
  zebu status zk1                                 a server; port 2181 if nothing else is said
  zebu status zk1:2181,zk2:2181,zk3:2181          an ensemble: role, zxid, epoch, followers, observers
  zebu status --json zk1:2181,zk2:2181,zk3:2181

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
            return show_servers(servers, form);
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
        let mode = match &port {
            ClientPort::Plain { host, port } if self.json => {
                return show_servers(&format!("{host}:{port}"), form);
            }
            ClientPort::Plain { host, port } => {
                print_line(format!("Client port found: {port}. Client address: {host}. Client SSL: false."));
                ask(host, port).ok().and_then(|answer| mode_line(&answer))
            }
            ClientPort::Secure { host, port } => {
                print_line(format!("Client port found: {port}. Client address: {host}. Client SSL: true."));
                print_error("this version cannot ask over TLS");
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
fn show_servers(servers: &str, form: Form) -> ExitCode {
    let list: ServerList = match servers.parse() {
        Ok(list) => list,
        Err(error) => {
            print_error(format!("{error}"));
            return ExitCode::from(2);
        }
    };
    let addresses: Vec<String> = list.servers().iter().map(ToString::to_string).collect();
    if monitor::show_roles(&addresses, form) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Sends `srvr` and returns the whole answer. A name may have several addresses; the first that answers
/// counts.
fn ask(host: &str, port: &str) -> io::Result<String> {
    let port: u16 = port.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in zebu_server::host_address::resolve(host, port)? {
        match TcpStream::connect_timeout(&address, TIMEOUT).and_then(converse) {
            Ok(answer) => return Ok(answer),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn converse(mut stream: TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(b"srvr")?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LIMIT).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
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
