//! The file that holds the process id of a background server, and the questions one asks about that process.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use zebu_server::config::Environment;

/// A process id and where it was read.
#[derive(Debug)]
pub(crate) struct PidFile {
    /// `ZOOPIDFILE`, or `zookeeper_server.pid` in the data directory.
    pub(crate) path: PathBuf,
}

impl PidFile {
    /// The file of the server with this data directory.
    pub(crate) fn of(data_dir: &Path, environment: &Environment) -> PidFile {
        let path = match environment.get("ZOOPIDFILE").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => data_dir.join("zookeeper_server.pid"),
        };
        PidFile { path }
    }

    /// The number in the file; `None` without a file or a number.
    pub(crate) fn read(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        Pid::from_raw(text.trim().parse().ok().filter(|&number: &i32| number > 0)?)
    }

    /// Writes the number without a newline, as scripts expect it.
    pub(crate) fn write(&self, pid: u32) -> io::Result<()> {
        std::fs::write(&self.path, pid.to_string())
    }

    /// Removes the file; it may be gone already.
    pub(crate) fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether a process lives and is a server, not a stranger that got the number of one that ended.
pub(crate) fn is_running_server(pid: Pid) -> bool {
    is_alive(pid) && may_be_server(pid)
}

/// Whether a process lives, whoever it belongs to. One that ended and waits for its parent does not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let exists = !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    exists && !is_zombie(pid)
}

/// Asks a process to end.
pub(crate) fn terminate(pid: Pid) -> io::Result<()> {
    kill_process(pid, Signal::TERM).map_err(io::Error::from)
}

/// Zebu, or the Java server that it takes over from. Where /proc does not exist everything may be.
fn may_be_server(pid: Pid) -> bool {
    let Ok(name) = std::fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero())) else {
        return true;
    };
    let own = std::env::current_exe().ok();
    let own = own.as_deref().and_then(Path::file_name).map(|own| own.to_string_lossy().into_owned());
    // The kernel keeps 15 bytes of a name.
    let own: String = own.unwrap_or_default().chars().take(15).collect();
    let name = name.trim_end();
    name == own || name == "java"
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name stands in parentheses and may contain anything; the state follows the last one.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let home = tempfile::tempdir().unwrap();
        let file = PidFile::of(home.path(), &Environment::default());
        assert_eq!(file.path, home.path().join("zookeeper_server.pid"));
        assert_eq!(file.read(), None);
        file.write(4711).unwrap();
        assert_eq!(std::fs::read(&file.path).unwrap(), b"4711");
        assert_eq!(file.read(), Pid::from_raw(4711));
        for nonsense in ["", "x", "0", "-1", "99999999999"] {
            std::fs::write(&file.path, nonsense).unwrap();
            assert_eq!(file.read(), None, "{nonsense:?}");
        }
        file.remove();
        file.remove();
    }

    #[test]
    fn variable_names_the_file() {
        let variables = Environment([("ZOOPIDFILE".to_owned(), "/run/zk.pid".to_owned())].into());
        assert_eq!(PidFile::of(Path::new("/data"), &variables).path, Path::new("/run/zk.pid"));
    }

    #[test]
    fn this_process_lives() {
        let own = Pid::from_raw(std::process::id() as i32).unwrap();
        assert!(is_alive(own) && is_running_server(own));
    }
}
