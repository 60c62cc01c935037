//! `zebu container`: the entry point of a container. Writes the files that the variables ask for and becomes
//! the server. `container/` decides what is written.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::serve::BAD_CONFIG;
use crate::config_arguments::environment;
use crate::config_file::{ClientPort, Peek};
use crate::console::{print_error, print_line};
use crate::container::{self, ConfigLine, ContainerPlan, ContainerSystem, JAAS_FILE};
use crate::logging::LogFormat;
use crate::protection::{self, WordLimits};

/// The largest file that a variable may name.
const SECRET_BYTES_MAX: u64 = 64 * 1024;
/// Files with settings are for the server only: lines may hold passwords.
const FILE_MODE: u32 = 0o600;
const CONFIG_FILE: &str = "zoo.cfg";
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// Serve in a container: the settings are in variables, as in ZooKeeper's images
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  zebu container                           write zoo.cfg and myid, then serve
  zebu container --print                   show what would be written
  zebu container --healthcheck ready       for health checks and probes
  ZOO_MY_ID=1 ZOO_SERVERS='server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181' zebu container
  ALLOW_EMPTY_PASSWORD=yes ZOO_SERVER_ID=1 ZOO_SERVERS=zk1:2888:3888,zk2:2888:3888 zebu container

Variables of the official image are understood, and those of bitnami/zookeeper (each also as NAME_FILE) and of \
cp-zookeeper. The names tell which image is meant; ZEBU_CONTAINER_STYLE=official|bitnami|confluent chooses. A zoo.cfg or \
myid that exists is kept. ZEBU_FIRST_ID=1 takes the id from the host name of a StatefulSet: zebu-0 is server 1.

Exit status: that of zebu serve; 2 if variables are wrong. Health checks: 0 healthy, 1 not.")]
pub(crate) struct Container {
    /// Print what would be written, and write nothing
    #[arg(long, conflicts_with = "healthcheck")]
    print: bool,

    /// Ask the server of this container: live if its port answers, ready if it serves clients
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, default_missing_value = "ready")]
    healthcheck: Option<Health>,

    /// Seconds that a health check waits for an answer
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// How log lines look
    #[arg(long, value_enum)]
    log_format: Option<LogFormat>,
}

/// The question of a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Health {
    /// The process answers; it may still wait for a leader.
    Live,
    /// The server serves clients.
    Ready,
}

struct LocalContainer;

impl ContainerSystem for LocalContainer {
    fn read(&self, path: &str) -> Result<String, String> {
        let length = std::fs::metadata(path).map_err(|error| error.to_string())?.len();
        if length > SECRET_BYTES_MAX {
            return Err(format!("the file has {length} bytes; at most {SECRET_BYTES_MAX} are read"));
        }
        std::fs::read_to_string(path).map_err(|error| error.to_string())
    }

    fn host_name(&self) -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }
}

impl Container {
    /// Prepares the files and becomes the server.
    pub(crate) fn run(self) -> ExitCode {
        let plan = match container::plan(&environment(), &LocalContainer) {
            Ok(plan) => plan,
            Err(errors) => {
                errors.iter().for_each(|error| print_error(format!("zebu container: {error}")));
                return ExitCode::from(BAD_CONFIG);
            }
        };
        if let Some(health) = self.healthcheck {
            return check_health(&plan, health, Duration::from_secs(self.timeout));
        }
        plan.warnings.iter().for_each(|warning| print_error(format!("zebu container: warning: {warning}")));
        if self.print {
            print_plan(&plan);
            return ExitCode::SUCCESS;
        }
        match write_files(&plan) {
            Ok(()) => serve(&plan, self.log_format),
            Err(why) => {
                print_error(format!("zebu container: {why}"));
                ExitCode::from(BAD_CONFIG)
            }
        }
    }
}

fn config_path(plan: &ContainerPlan) -> PathBuf {
    plan.conf_dir.join(CONFIG_FILE)
}

fn print_plan(plan: &ContainerPlan) {
    print_line(format!("# {} ({} image)", config_path(plan).display(), plan.style.name()));
    plan.lines.iter().for_each(|line| print_line(line.shown()));
    if let Some(id) = &plan.my_id {
        print_line(format!("# {}", plan.data_dir.join("myid").display()));
        print_line(id);
    }
    if plan.jaas.is_some() {
        print_line(format!("# {}: users and passwords", plan.conf_dir.join(JAAS_FILE).display()));
    }
    plan.properties.iter().for_each(|property| print_line(format!("# -D{property}")));
}

fn write_files(plan: &ContainerPlan) -> Result<(), String> {
    for directory in [&plan.conf_dir, &plan.data_dir].into_iter().chain(&plan.directories) {
        std::fs::create_dir_all(directory).map_err(|error| {
            format!(
                "{} cannot be made: {error}; mount a directory that this user can write",
                directory.display()
            )
        })?;
    }
    let config = config_path(plan);
    if config.exists() {
        print_error(format!(
            "zebu container: {} exists; its lines count, not the variables",
            config.display()
        ));
    } else {
        let text: String = plan.lines.iter().map(|line| format!("{}\n", line.text)).collect();
        write_file(&config, &text)?;
        let shown: Vec<String> = plan.lines.iter().map(ConfigLine::shown).collect();
        print_error(format!("zebu container: wrote {}:\n{}", config.display(), shown.join("\n")));
    }
    if let Some(jaas) = &plan.jaas {
        write_file(&plan.conf_dir.join(JAAS_FILE), jaas)?;
    }
    match &plan.my_id {
        Some(id) => write_id(&plan.data_dir.join("myid"), id),
        None => Ok(()),
    }
}

/// An id that exists counts: the data belongs to the server that has it.
fn write_id(path: &Path, id: &str) -> Result<(), String> {
    match std::fs::read_to_string(path) {
        Ok(known) if known.trim() == id => Ok(()),
        Ok(known) => {
            print_error(format!(
                "zebu container: warning: {} says {}, the variables say {id}; the file counts",
                path.display(),
                known.trim()
            ));
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => write_file(path, &format!("{id}\n")),
        Err(error) => Err(format!("{} cannot be read: {error}", path.display())),
    }
}

/// Writes a whole file or none: a container that is killed here must not leave a part of a configuration.
fn write_file(path: &Path, text: &str) -> Result<(), String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(FILE_MODE).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    write().map_err(|error| {
        format!("{} cannot be written: {error}; mount a directory that this user can write", path.display())
    })
}

/// Replaces this process, so that the server is process 1 and its arguments name its configuration.
fn serve(plan: &ContainerPlan, format: Option<LogFormat>) -> ExitCode {
    let binary = match std::env::current_exe() {
        Ok(binary) => binary,
        Err(error) => {
            print_error(format!("zebu container: the path of this program is not known: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let mut command = Command::new(&binary);
    command.arg("serve");
    if let Some(format) = format {
        command.args(["--log-format", format.name()]);
    }
    command.args(plan.properties.iter().map(|property| format!("-D{property}"))).arg(config_path(plan));
    if let Some(filter) = plan.log_filter.as_ref().filter(|_| std::env::var_os("ZEBU_LOG").is_none()) {
        command.env("ZEBU_LOG", filter);
    }
    let error = command.exec();
    print_error(format!("zebu container: {} cannot be started: {error}", binary.display()));
    ExitCode::FAILURE
}

fn check_health(plan: &ContainerPlan, health: Health, time: Duration) -> ExitCode {
    match ask(&config_path(plan), health, time) {
        Ok(answer) => {
            print_line(answer);
            ExitCode::SUCCESS
        }
        Err(why) => {
            print_error(format!("zebu container: {why}"));
            ExitCode::FAILURE
        }
    }
}

/// The port answers `srvr` also if the word is not in the whitelist; then only `live` can be told.
fn ask(config: &Path, health: Health, time: Duration) -> Result<String, String> {
    let port = Peek::read(config)?.client_port();
    let (host, number, is_secure) = match port {
        Some(ClientPort::Plain { host, port }) => (host, port, false),
        Some(ClientPort::Secure { host, port }) => (host, port, true),
        None => return Err(format!("{} names no client port", config.display())),
    };
    let address = if host.contains(':') { format!("[{host}]:{number}") } else { format!("{host}:{number}") };
    if is_secure {
        // The words of a port for TLS need a certificate, which a probe does not have.
        return connect(&address, time).map(|()| format!("{address} accepts connections"));
    }
    let answer = protection::ask(&address, "srvr", None, WordLimits { time, answer_bytes: ANSWER_BYTES_MAX })
        .map_err(|error| format!("{address}: {error}"))?;
    let mode = answer.lines().find(|line| line.starts_with("Mode: "));
    match (health, mode) {
        (_, Some(mode)) => Ok(mode.to_owned()),
        (Health::Live, None) if !answer.is_empty() => {
            Ok(answer.lines().next().unwrap_or_default().to_owned())
        }
        (Health::Ready, None) if answer.contains("not executed because") => {
            Err(format!("{address}: srvr is not in 4lw.commands.whitelist, so that readiness is not known"))
        }
        (Health::Live | Health::Ready, None) => {
            Err(format!("{address}: {}", answer.lines().next().unwrap_or("no answer")))
        }
    }
}

fn connect(address: &str, time: Duration) -> Result<(), String> {
    use std::net::{TcpStream, ToSocketAddrs};
    let found = address.to_socket_addrs().map_err(|error| format!("{address}: {error}"))?;
    let mut last = format!("{address} has no address");
    for target in found {
        match TcpStream::connect_timeout(&target, time) {
            Ok(_) => return Ok(()),
            Err(error) => last = format!("{target}: {error}"),
        }
    }
    Err(last)
}
