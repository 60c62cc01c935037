//! `zebu dev`: a whole ensemble on this machine, for trying things out. The servers are processes of this
//! same binary; they end with it.

mod protection;
mod sasl;
mod tls;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::console::{print_error, print_line};
use crate::protection::{WordLimits, ask};
use protection::DevProtection;

/// How often the servers are looked at.
const POLL: Duration = Duration::from_millis(100);

/// Patience with a server on the same machine.
const ANSWER_LIMITS: WordLimits = WordLimits { time: Duration::from_millis(500), answer_bytes: 64 << 10 };

/// Start a local ensemble for development; Ctrl-C ends it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu dev                              three servers on 127.0.0.1:2181, 2182 and 2183, data in ./zebu-dev
  zebu dev --servers 5 --port 12181
  zebu dev --directory /tmp/try         start again there, and the data is still there
  zebu -server 127.0.0.1:2181,127.0.0.1:2182,127.0.0.1:2183 ls /
  zebu dev --tls                        TLS with certificates, which are in ./zebu-dev/certs
  zebu dev --sasl                       users with passwords, which are in ./zebu-dev/jaas.conf
  zebu dev --tls --sasl                 both

Kill one of the processes that it names, and the others go on. It is for one machine: everything listens on
127.0.0.1. Without --tls and --sasl there is no other protection, and each server has a console, whose address
is printed. With them, zebu console shows the servers.
--tls and --sasl protect the connections between the servers too. The first lines of the output are commands that
connect a shell: with --sasl one for the user dev, and one for the super user. Java clients can use the same files.

Exit status: 0 ended by Ctrl-C or SIGTERM, 1 otherwise.")]
pub(crate) struct Dev {
    /// How many servers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    servers: u16,
    /// The client port of the first; the others follow
    #[arg(long, default_value_t = 2181, value_parser = clap::value_parser!(u16).range(1..=60_000))]
    port: u16,
    /// Where configurations, data and logs go
    #[arg(long, value_name = "PATH", default_value = "zebu-dev")]
    directory: PathBuf,
    /// All ports speak TLS only and demand a certificate of a CA that is made for it
    #[arg(long)]
    tls: bool,
    /// Clients and servers must authenticate with DIGEST-MD5; users and passwords are made for it
    #[arg(long)]
    sasl: bool,
}

/// One of the servers.
struct Member {
    number: u16,
    client: SocketAddr,
    console: Option<SocketAddr>,
    child: Child,
    seen: Seen,
}

/// The state of a server.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// What it said that it is.
    Mode(String),
    Ended,
}

impl Dev {
    /// Runs until it is told to end.
    pub(crate) fn run(self) -> ExitCode {
        let (mut members, protection) = match self.start() {
            Ok(started) => started,
            Err(error) => {
                print_error(format!(
                    "the ensemble cannot be started in {}: {error}",
                    self.directory.display()
                ));
                return ExitCode::FAILURE;
            }
        };
        let addresses: Vec<String> = members.iter().map(|member| member.client.to_string()).collect();
        protection.connect_lines(&addresses.join(",")).iter().for_each(print_line);
        for console in members.iter().filter_map(|member| member.console) {
            print_line(format!("console: http://{console}/console/"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let ended = match runtime {
            Ok(runtime) => runtime.block_on(watch(&mut members, &protection)),
            Err(error) => Err(error),
        };
        stop(&mut members);
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_error(format!("{error}; the logs are in {}", self.directory.display()));
                ExitCode::FAILURE
            }
        }
    }

    fn start(&self) -> io::Result<(Vec<Member>, DevProtection)> {
        fs::create_dir_all(&self.directory)?;
        let directory = self.directory.canonicalize()?;
        let program = std::env::current_exe()?;
        let protection = DevProtection::open(&directory, self.tls, self.sasl).map_err(io::Error::other)?;
        let mut members = Vec::new();
        for number in 1..=self.servers {
            let config = self.configure(&directory, number, &protection)?;
            let log = File::create(directory.join(format!("server-{number}.log")))?;
            let started = Command::new(&program)
                .arg("serve")
                .arg(config)
                .stdin(Stdio::null())
                .stdout(log.try_clone()?)
                .stderr(log)
                .spawn();
            match started {
                Ok(child) => {
                    let client = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port + number - 1));
                    let console = self.console_port(number).map(|port| (Ipv4Addr::LOCALHOST, port).into());
                    members.push(Member { number, client, console, child, seen: Seen::Nothing });
                }
                Err(error) => {
                    stop(&mut members);
                    return Err(error);
                }
            }
        }
        Ok((members, protection))
    }

    /// The port of a server's console. Protected servers have none: it would let each user of the machine in
    /// without a certificate or password.
    fn console_port(&self, number: u16) -> Option<u16> {
        (!self.tls && !self.sasl).then_some(self.port + 2700 + number)
    }

    fn configure(&self, directory: &Path, number: u16, protection: &DevProtection) -> io::Result<PathBuf> {
        let data = directory.join(format!("server-{number}"));
        fs::create_dir_all(&data)?;
        fs::write(data.join("myid"), format!("{number}\n"))?;
        let mut text = format!(
            "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir={}\n4lw.commands.whitelist=*\n",
            data.display()
        );
        text.push_str(&match self.console_port(number) {
            Some(port) => format!("admin.serverAddress=127.0.0.1\nadmin.serverPort={port}\n"),
            None => "admin.enableServer=false\n".to_owned(),
        });
        let port = self.port + number - 1;
        text.push_str(&protection.client_lines(port));
        if self.servers > 1 {
            text.push_str(&protection.quorum_lines());
            for other in 1..=self.servers {
                let (quorum, election) = (self.port + 700 + other, self.port + 1700 + other);
                text.push_str(&format!("server.{other}=127.0.0.1:{quorum}:{election}\n"));
            }
        }
        let path = directory.join(format!("server-{number}.cfg"));
        fs::write(&path, text)?;
        Ok(path)
    }
}

/// Tells every change of a role until the program is told to end.
async fn watch(members: &mut [Member], protection: &DevProtection) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    loop {
        for member in &mut *members {
            if let Some(status) = member.child.try_wait()? {
                if member.seen != Seen::Ended {
                    print_line(format!("server {} has ended: {status}", member.number));
                    member.seen = Seen::Ended;
                }
                continue;
            }
            let Some(seen) = mode(member.client, protection).await.map(Seen::Mode) else { continue };
            if let Seen::Mode(mode) = &seen
                && seen != member.seen
            {
                print_line(format!(
                    "server {} at {} (process {}): {mode}",
                    member.number,
                    member.client,
                    member.child.id()
                ));
                member.seen = seen;
            }
        }
        if members.iter().all(|member| member.seen == Seen::Ended) {
            return Err(io::Error::other("all servers have ended"));
        }
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            () = sleep(POLL) => {}
        }
    }
}

/// What a server says that it is.
async fn mode(address: SocketAddr, protection: &DevProtection) -> Option<String> {
    let connector = protection.connector();
    // The question may wait, and has a runtime of its own.
    let asked = tokio::task::spawn_blocking(move || {
        ask(&address.to_string(), "srvr", connector.as_ref(), ANSWER_LIMITS)
    });
    let text = asked.await.ok()?.ok()?;
    text.lines().find_map(|line| line.strip_prefix("Mode: ").map(str::to_owned))
}

/// Ends all servers that still run, and waits for them.
fn stop(members: &mut [Member]) {
    for member in &mut *members {
        if let (Ok(None), Some(id)) = (member.child.try_wait(), pid(&member.child)) {
            // It may end by itself in this moment. All end together, so no server drains.
            let _ = kill_process(id, Signal::INT);
        }
    }
    for member in members {
        let _ = member.child.wait();
    }
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}
