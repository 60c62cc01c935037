//! `zebu status`: asks a server how it is, with the word `srvr`.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::config_arguments::environment;
use crate::config_file::{ClientPort, Peek, locate};
use crate::console::{complain, say};

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// No answer of `srvr` is longer.
const ANSWER_LIMIT: u64 = 64 * 1024;

/// Ask a server whether it serves, and as what
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu status
  zebu status /etc/zebu/zoo.cfg

Exit status: 0 it serves, 1 it does not answer.")]
pub(crate) struct Status {
    /// zoo.cfg; a bare name is looked for in the configuration directory
    #[arg(value_name = "CONFIG")]
    config: Option<String>,
}

impl Status {
    /// Asks.
    pub(crate) fn run(self) -> ExitCode {
        let environment = environment();
        let config = locate(self.config.as_deref(), &environment, std::env::current_exe().ok().as_deref());
        complain(format!("Using config: {}", config.display()));
        let found = match Peek::read(&config) {
            Ok(peek) => peek.client_port(),
            Err(why) => {
                complain(why);
                None
            }
        };
        let Some(port) = found else {
            say("Unable to find either secure or unsecure client port in any configs. Terminating.");
            return ExitCode::FAILURE;
        };
        let mode = match &port {
            ClientPort::Plain { host, port } => {
                say(format!("Client port found: {port}. Client address: {host}. Client SSL: false."));
                ask(host, port).ok().and_then(|answer| mode_line(&answer))
            }
            ClientPort::Secure { host, port } => {
                say(format!("Client port found: {port}. Client address: {host}. Client SSL: true."));
                complain("this version cannot ask over TLS");
                None
            }
        };
        match mode {
            Some(mode) => {
                say(mode);
                ExitCode::SUCCESS
            }
            None => {
                say("Error contacting service. It is probably not running.");
                ExitCode::FAILURE
            }
        }
    }
}

/// Sends `srvr` and returns the whole answer. A name may have several addresses; the first that answers
/// counts.
fn ask(host: &str, port: &str) -> io::Result<String> {
    let port: u16 = port.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in (host, port).to_socket_addrs()? {
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
    answer.lines().find(|line| line.starts_with("Mode: ")).map(str::to_owned)
}
