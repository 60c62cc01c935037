//! Decides whether a process is the server of a configuration. The lock on the data directory counts first:
//! its holder is the server. Without a lock, the command line must say so. It signals no process that it
//! cannot identify.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The lock file that a running Zebu holds in its data directory.
const LOCK: &str = "zebu.lock";
/// The lock file holds one short line; no more of it is read.
const LOCK_TEXT_MAX: u64 = 256;
/// Main classes of Apache ZooKeeper.
const APACHE_MAIN_CLASSES: [&str; 2] =
    ["org.apache.zookeeper.server.quorum.QuorumPeerMain", "org.apache.zookeeper.server.ZooKeeperServerMain"];
/// Words of a command line that a message shows.
const SHOWN_WORDS: usize = 3;

/// The files by which the server of a configuration is recognised.
#[derive(Debug, Clone)]
pub(crate) struct ServerFiles {
    pub(crate) config: PathBuf,
    pub(crate) data_dir: PathBuf,
    /// `None`: logs are in `data_dir`.
    pub(crate) data_log_dir: Option<PathBuf>,
}

/// What a process is, as far as this one can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// No such process.
    Ended,
    /// The server of this configuration.
    Server,
    /// Another program; its command line.
    Stranger(String),
    /// Alive, and perhaps a server; why that cannot be decided.
    Unknown(String),
}

/// Whether a server holds the lock of the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockHolder {
    Nobody,
    /// The holder, as the lock file names it.
    Process(Pid),
    /// The lock is held, but no process of this machine is named as its holder.
    Unnamed,
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Identity::Ended => f.write_str("has ended"),
            Identity::Server => f.write_str("is the server"),
            Identity::Stranger(command) => write!(f, "is not a running server but {command}"),
            Identity::Unknown(why) => write!(f, "cannot be identified: {why}"),
        }
    }
}

impl ServerFiles {
    /// The process that holds the lock of the data directory. It takes the lock for a moment only to ask; a
    /// server that starts in that moment tries again.
    pub(crate) fn lock_holder(&self) -> LockHolder {
        let Ok(file) = File::open(self.data_dir.join(LOCK)) else { return LockHolder::Nobody };
        // Two commands that ask at the same time do not see each other.
        if file.try_lock_shared().is_ok() {
            let _ = file.unlock();
            return LockHolder::Nobody;
        }
        match self.named_holder().filter(|&pid| is_alive(pid)) {
            Some(pid) => LockHolder::Process(pid),
            None => LockHolder::Unnamed,
        }
    }

    /// The process that the lock file names, without a look at the lock. The name stays when a server ends.
    pub(crate) fn named_holder(&self) -> Option<Pid> {
        let file = File::open(self.data_dir.join(LOCK)).ok()?;
        let mut text = String::new();
        file.take(LOCK_TEXT_MAX).read_to_string(&mut text).ok()?;
        let number = text.rsplit("process ").next().and_then(|number| number.trim().parse::<i32>().ok());
        number.filter(|&number| number > 0).and_then(Pid::from_raw)
    }

    /// What the process of a pid file is.
    pub(crate) fn identify(&self, pid: Pid) -> Identity {
        if !is_alive(pid) {
            return Identity::Ended;
        }
        let holds_lock = self.lock_holder() == LockHolder::Process(pid);
        let process = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
        let words = match command_line(&process) {
            Ok(words) if !words.is_empty() => words,
            // Not every system shows command lines.
            Ok(_) | Err(_) if holds_lock => return Identity::Server,
            Ok(_) => return Identity::Unknown("it has no command line".to_owned()),
            Err(error) => return Identity::Unknown(format!("its command line cannot be read ({error})")),
        };
        if holds_lock {
            return match is_zebu_server(&words) {
                true => Identity::Server,
                // The text of the lock may be older than the lock, and its number may belong to another
                // process.
                false => Identity::Unknown(format!("the lock names it, but it is {}", shown(&words))),
            };
        }
        let is_named = self.is_named_in(&words, &process);
        if is_zebu_server(&words) {
            return match is_named {
                true => Identity::Server,
                false => {
                    Identity::Stranger(format!("the server of another configuration: {}", shown(&words)))
                }
            };
        }
        if words.iter().any(|word| APACHE_MAIN_CLASSES.contains(&word.as_str())) {
            return match is_named || self.is_used_by(&process) {
                true => Identity::Server,
                false => Identity::Unknown(
                    "it is an Apache ZooKeeper that names another configuration and has no file of this data \
                     directory open"
                        .to_owned(),
                ),
            };
        }
        Identity::Stranger(shown(&words))
    }

    /// Whether an argument is the path of this configuration, seen from the directory of that process.
    fn is_named_in(&self, words: &[String], process: &Path) -> bool {
        let Ok(config) = self.config.canonicalize() else { return false };
        let directory = std::fs::read_link(process.join("cwd")).unwrap_or_default();
        words[1..].iter().any(|word| directory.join(word).canonicalize().is_ok_and(|path| path == config))
    }

    /// Whether the process has a file of the data directories open.
    fn is_used_by(&self, process: &Path) -> bool {
        let roots = [Some(&self.data_dir), self.data_log_dir.as_ref()];
        let roots: Vec<PathBuf> = roots.into_iter().flatten().flat_map(|root| root.canonicalize()).collect();
        let files = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        files
            .flat_map(|file| std::fs::read_link(file.path()))
            .any(|file| roots.iter().any(|root| file.starts_with(root)))
    }
}

/// Whether a process of any user is running. A zombie is not.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let exists = !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH));
    exists && !is_zombie(pid)
}

/// Asks a process to end.
pub(crate) fn terminate(pid: Pid) -> io::Result<()> {
    kill_process(pid, Signal::TERM).map_err(io::Error::from)
}

/// `zebu serve …` and `zebu start --foreground …`, whatever the binary is called.
fn is_zebu_server(words: &[String]) -> bool {
    match words.get(1).map(String::as_str) {
        Some("serve") => true,
        Some("start") => words.iter().any(|word| word == "--foreground"),
        _ => false,
    }
}

fn command_line(process: &Path) -> io::Result<Vec<String>> {
    let bytes = std::fs::read(process.join("cmdline"))?;
    let words = bytes.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    let mut words: Vec<String> = words.collect();
    // Every word ends with a zero.
    words.pop();
    Ok(words)
}

fn shown(words: &[String]) -> String {
    let mut text = words.iter().take(SHOWN_WORDS).cloned().collect::<Vec<_>>().join(" ");
    if words.len() > SHOWN_WORDS {
        text.push_str(" ...");
    }
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // The name stands in parentheses and may contain anything; the state follows the last one.
    let state = stat.rsplit(|&byte| byte == b')').next().unwrap_or_default();
    stat.contains(&b')') && std::ffi::OsStr::from_bytes(state).to_string_lossy().trim_start().starts_with('Z')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_pid() -> Pid {
        Pid::from_raw(std::process::id() as i32).unwrap()
    }

    fn files(home: &Path) -> ServerFiles {
        ServerFiles { config: home.join("zoo.cfg"), data_dir: home.to_owned(), data_log_dir: None }
    }

    #[test]
    fn the_holder_of_the_lock_is_the_server() {
        let home = tempfile::tempdir().unwrap();
        let files = files(home.path());
        assert_eq!(files.lock_holder(), LockHolder::Nobody);
        let lock = File::create(home.path().join(LOCK)).unwrap();
        std::fs::write(home.path().join(LOCK), format!("zebu 0.1.0, process {}", std::process::id()))
            .unwrap();
        // The text alone says nothing: it stays when a server ends.
        assert_eq!(files.lock_holder(), LockHolder::Nobody);
        assert!(matches!(files.identify(own_pid()), Identity::Stranger(_)));
        lock.lock().unwrap();
        assert_eq!(files.lock_holder(), LockHolder::Process(own_pid()));
        assert!(
            matches!(files.identify(own_pid()), Identity::Unknown(why) if why.starts_with("the lock names it"))
        );
        std::fs::write(home.path().join(LOCK), "").unwrap();
        assert_eq!(files.lock_holder(), LockHolder::Unnamed);
    }

    #[test]
    fn command_lines() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(is_zebu_server(&words("/opt/zebu-0.1.0 serve zoo.cfg --detached")));
        assert!(is_zebu_server(&words("zebu start --foreground")));
        assert!(!is_zebu_server(&words("zebu shell -server a:1")));
        assert!(!is_zebu_server(&words("java Sleep serve")));
        assert_eq!(shown(&words("java -cp a\nb Sleep")), "java -cp a?b ...");
    }

    #[test]
    fn this_process_lives_and_is_no_server() {
        let home = tempfile::tempdir().unwrap();
        assert!(is_alive(own_pid()));
        assert!(matches!(files(home.path()).identify(own_pid()), Identity::Stranger(_)));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        child.wait().unwrap();
        assert_eq!(files(home.path()).identify(pid), Identity::Ended);
    }
}
