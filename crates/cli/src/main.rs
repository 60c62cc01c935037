//! The one binary. Reads the command line, hands over to one file per command, and is the only place that
//! turns an outcome into an exit status.

mod admin_request;
mod commands;
mod config_arguments;
mod config_file;
mod console;
mod container;
mod kerberos_environment;
mod log_lines;
mod logging;
mod monitor;
mod offline;
mod pid_file;
mod protection;
mod server_process;
mod shell;
mod systemd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The allocator of musl takes one lock for every allocation, which network threads would wait for.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A coordination service that takes the place of Apache ZooKeeper: the same clients, the same files, the
/// same zoo.cfg
#[derive(Debug, Parser)]
#[command(name = "zebu", version, after_help = EXAMPLES)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  zebu serve                          try it: 127.0.0.1:2181, data in ./zebu-data
  zebu serve conf/zoo.cfg             serve with a ZooKeeper configuration
  zebu check conf/zoo.cfg             what would happen, without starting
  zebu start conf/zoo.cfg             in the background, as zkServer.sh does it
  zebu status conf/zoo.cfg
  zebu shell -server zk1:2181 ls /    as zkCli.sh; the word shell may be left out
  zebu ls /                           the same with localhost:2181
  zebu stat zk1:2181,zk2:2181         how servers are, refreshed
  zebu rebalance zk1:2181,zk2:2181    after a rolling restart: every server gets its share of the clients
  zebu rolling-restart zk1:2181,zk2:2181,zk3:2181 --restart-command 'ssh {host} systemctl restart zebu'
  zebu verify zk1:2181,zk2:2181       whether the trees of servers are equal
  zebu dev                            three servers on this machine, for trying things out
  zebu cert server                    a test CA and a certificate for TLS on this machine
  zebu log verify data/version-2/log.1
  zebu snapshot summary data/version-2/snapshot.0
  zebu backup run --servers zk1:2181,zk2:2181 --to /backup
  zebu backup restore /backup --to-time 2026-11-18T12:00:00Z --out data";

#[derive(Debug, Subcommand)]
enum Command {
    Serve(commands::serve::Serve),
    Start(commands::start::Start),
    Stop(commands::stop::Stop),
    Restart(commands::restart::Restart),
    Status(commands::status::Status),
    Check(commands::check::Check),
    Log(commands::log::Log),
    Snapshot(commands::snapshot::Snapshot),
    Backup(Box<commands::backup::Backup>),
    Bench(Box<commands::bench::Bench>),
    Shell(commands::shell::Shell),
    Stat(commands::stat::Stat),
    Top(commands::top::Top),
    Console(commands::console::Console),
    Rebalance(commands::rebalance::Rebalance),
    Drain(commands::drain::Drain),
    RollingRestart(Box<commands::rolling_restart::RollingRestart>),
    Verify(Box<commands::verify::Verify>),
    Dev(commands::dev::Dev),
    Cert(commands::cert::Cert),
    Container(commands::container::Container),
    Completions(commands::completions::Completions),
    Man(commands::man::Man),
    Version(commands::version::Version),
}

fn main() -> ExitCode {
    // `zebu -server host get /path`, `zebu ls /`: the words of the shell, without a command of ours.
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let is_own = |word: &str| {
        use clap::CommandFactory;
        word == "help" || CommandLine::command().get_subcommands().any(|own| own.get_name() == word)
    };
    if words.first().is_some_and(|word| !is_own(word) && shell::is_meant(word)) {
        return shell::run(&words);
    }
    // Tools take zkCli's `-client-configuration` too, which clap would read as `-c`.
    let name = std::env::args_os().take(1);
    let words = name.chain(std::env::args_os().skip(1).map(|word| match word.to_str() {
        Some(text) => protection::double_dashed(text).into(),
        None => word,
    }));
    match CommandLine::parse_from(words).command {
        Command::Serve(command) => command.run(),
        Command::Start(command) => command.run(),
        Command::Stop(command) => command.run(),
        Command::Restart(command) => command.run(),
        Command::Status(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Log(command) => command.run(),
        Command::Snapshot(command) => command.run(),
        Command::Backup(command) => command.run(),
        Command::Bench(command) => command.run(),
        Command::Shell(command) => command.run(),
        Command::Stat(command) => command.run(),
        Command::Top(command) => command.run(),
        Command::Console(command) => command.run(),
        Command::Rebalance(command) => command.run(),
        Command::Drain(command) => command.run(),
        Command::RollingRestart(command) => command.run(),
        Command::Verify(command) => command.run(),
        Command::Dev(command) => command.run(),
        Command::Cert(command) => command.run(),
        Command::Container(command) => command.run(),
        Command::Completions(command) => command.run(),
        Command::Man(command) => command.run(),
        Command::Version(command) => command.run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.starts_with("Example"), "{}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&CommandLine::command());
    }
}
