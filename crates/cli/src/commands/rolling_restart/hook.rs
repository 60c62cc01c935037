//! The operator's command that restarts one server.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

const POLL: Duration = Duration::from_millis(50);

/// Puts host, port and address of a server into a command of the shell. A host has no character that means
/// something to the shell.
pub(super) fn command_text(template: &str, host: &str, port: u16, address: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-_[]%".contains(&byte);
    if !address.bytes().all(is_plain) {
        return Err(format!("{address} cannot be put into a command"));
    }
    Ok(template.replace("{host}", host).replace("{port}", &port.to_string()).replace("{server}", address))
}

/// Runs a command by the shell, and waits for its end. Its output goes to standard error, so that the own
/// output stays readable for programs.
pub(super) fn run(command: &str, limit: Duration) -> Result<(), String> {
    let mut child = start(command).map_err(|error| format!("the shell cannot be started: {error}"))?;
    match await_end(&mut child, limit) {
        Ok(Some(status)) if status.success() => Ok(()),
        Ok(Some(status)) => Err(format!("the command failed: {status}")),
        Ok(None) => {
            // Its children must end too: a command that goes on would restart the server later.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("the command has not ended within {} seconds and was killed", limit.as_secs()))
        }
        Err(error) => Err(format!("the command cannot be waited for: {error}")),
    }
}

fn start(command: &str) -> io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(io::stderr()).process_group(0).spawn()
}

fn await_end(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait()? {
            Some(status) => return Ok(Some(status)),
            None if Instant::now() >= deadline => return Ok(None),
            None => std::thread::sleep(POLL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_put_into_the_command() {
        let text = command_text("ssh {host} restart {port} {server}", "zk1", 2181, "zk1:2181");
        assert_eq!(text, Ok("ssh zk1 restart 2181 zk1:2181".to_owned()));
        assert!(command_text("echo {host}", "a;b", 1, "a;b:1").is_err());
    }

    #[test]
    fn the_end_of_a_command_is_its_status() {
        let limit = Duration::from_secs(60);
        assert_eq!(run("true", limit), Ok(()));
        assert!(run("exit 3", limit).unwrap_err().contains('3'));
        assert!(run("sleep 600", Duration::ZERO).unwrap_err().contains("was killed"));
    }

    #[test]
    fn the_children_of_a_killed_command_end() {
        let home = tempfile::tempdir().unwrap();
        let (pid, late) = (home.path().join("pid"), home.path().join("late"));
        let child = format!("(echo started; sleep 600; echo late) >{}", late.display());
        let command = format!("{child} & echo $! >{}; wait", pid.display());
        let killed = std::thread::spawn(move || run(&command, Duration::from_secs(2)));
        assert!(killed.join().unwrap().unwrap_err().contains("was killed"));
        let child = std::fs::read_to_string(&pid).unwrap();
        let status = std::path::PathBuf::from(format!("/proc/{}/stat", child.trim()));
        let is_over = || std::fs::read_to_string(&status).map_or(true, |text| text.contains(") Z "));
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_over() {
            assert!(Instant::now() < deadline, "the child goes on");
            std::thread::sleep(POLL);
        }
    }
}
