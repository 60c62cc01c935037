//! The file that holds the process id of a background server. It reads, writes and removes that file; whether
//! the process is a server is decided in `server_process`.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;
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
    pub(crate) fn write(&self, pid: Pid) -> io::Result<()> {
        std::fs::write(&self.path, pid.as_raw_nonzero().to_string())
    }

    /// Removes the file if it still names this process, which has ended. A file that names another process
    /// stays.
    pub(crate) fn remove_of(&self, ended: Pid) {
        if self.read() == Some(ended) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn round_trip() {
        let home = tempfile::tempdir().unwrap();
        let file = PidFile::of(home.path(), &Environment::default());
        assert_eq!(file.path, home.path().join("zookeeper_server.pid"));
        assert_eq!(file.read(), None);
        file.write(pid(4711)).unwrap();
        assert_eq!(std::fs::read(&file.path).unwrap(), b"4711");
        assert_eq!(file.read(), Some(pid(4711)));
        for nonsense in ["", "x", "0", "-1", "99999999999"] {
            std::fs::write(&file.path, nonsense).unwrap();
            assert_eq!(file.read(), None, "{nonsense:?}");
        }
    }

    #[test]
    fn only_the_file_of_the_process_that_ended_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let file = PidFile::of(home.path(), &Environment::default());
        file.remove_of(pid(1));
        file.write(pid(4711)).unwrap();
        file.remove_of(pid(4712));
        assert_eq!(file.read(), Some(pid(4711)));
        file.remove_of(pid(4711));
        assert!(!file.path.exists());
    }

    #[test]
    fn variable_names_the_file() {
        let variables = Environment([("ZOOPIDFILE".to_owned(), "/run/zk.pid".to_owned())].into());
        assert_eq!(PidFile::of(Path::new("/data"), &variables).path, Path::new("/run/zk.pid"));
    }
}
