//! A server process for a test: a free port, a directory of its own, gone when the test is over.
//! It owns the process and the directory. It ends only its own process, by id.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{four_letter, port};

/// How long a server may take to answer after its start, and to go after SIGTERM.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Pause between two looks at a server that starts or stops.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Directory, configuration or process could not be made.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The process ended before it answered.
    #[error("{program} ended with {status} before it served; its output ends with:\n{output}")]
    Ended {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The last lines that it wrote.
        output: String,
    },
    /// The process runs and does not do what it should in time.
    #[error("{program} (process {id}) did not {what} within {limit:?}; its output ends with:\n{output}")]
    Slow {
        /// The program.
        program: String,
        /// Its process id.
        id: u32,
        /// The condition that was not met.
        what: &'static str,
        /// For how long.
        limit: Duration,
        /// The last lines that it wrote.
        output: String,
    },
}

/// The command line of a server: `program before… -Dname=value… after… zoo.cfg`.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Words before the properties.
    pub before: Vec<OsString>,
    /// Words between the properties and the configuration file.
    pub after: Vec<OsString>,
}

impl Launch {
    /// `zebu serve -Dname=value… zoo.cfg`.
    pub fn zebu(binary: impl Into<PathBuf>) -> Launch {
        Launch { program: binary.into(), before: vec!["serve".into()], after: Vec::new() }
    }
}

/// What a server is to be started with.
#[derive(Clone, Debug)]
pub struct ServerProcessBuilder {
    launch: Launch,
    properties: Vec<(String, String)>,
    lines: Vec<String>,
}

impl ServerProcessBuilder {
    /// A property, given as `-Dname=value`.
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> ServerProcessBuilder {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// A line of zoo.cfg after those that every server gets.
    pub fn line(mut self, line: impl Into<String>) -> ServerProcessBuilder {
        self.lines.push(line.into());
        self
    }

    /// Starts the server and waits until it serves.
    pub fn start(self) -> Result<ServerProcess, ServerError> {
        let directory = TempDir::new().map_err(|source| failed("make a directory for a server", source))?;
        let address = port::free_address().map_err(|source| failed("find a free port", source))?;
        let data = directory.path().join("data");
        fs::create_dir(&data).map_err(|source| failed("make a data directory", source))?;
        let mut text = format!(
            "tickTime=2000\ndataDir={}\nclientPort={}\nclientPortAddress={}\nmaxClientCnxns=0\n\
             admin.enableServer=false\n",
            data.display(),
            address.port(),
            address.ip()
        );
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        let config = directory.path().join("zoo.cfg");
        fs::write(&config, text).map_err(|source| failed("write zoo.cfg", source))?;
        let mut server = ServerProcess { settings: self, address, directory, child: None };
        server.start()?;
        Ok(server)
    }
}

/// A running (or stopped) server of a test. It blocks, and it ends its process when it is dropped.
///
/// ```no_run
/// use zebu_testing::ServerProcess;
///
/// let mut server = ServerProcess::builder("target/release/zebu").line("tickTime=500").start()?;
/// println!("serves at {}", server.address());
/// server.kill()?; // SIGKILL
/// server.start()?; // the same port and files
/// assert!(server.is_running());
/// # Ok::<(), zebu_testing::server_process::ServerError>(())
/// ```
#[derive(Debug)]
pub struct ServerProcess {
    settings: ServerProcessBuilder,
    address: SocketAddr,
    directory: TempDir,
    child: Option<Child>,
}

impl ServerProcess {
    /// Prepares a Zebu server; `binary` is the path of the `zebu` program.
    pub fn builder(binary: impl Into<PathBuf>) -> ServerProcessBuilder {
        ServerProcess::launch(Launch::zebu(binary))
    }

    /// Prepares any server that takes a zoo.cfg.
    pub fn launch(launch: Launch) -> ServerProcessBuilder {
        ServerProcessBuilder { launch, properties: Vec::new(), lines: Vec::new() }
    }

    /// Where it listens for clients.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The directory that holds everything of this server; relative paths of zoo.cfg start here.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Its zoo.cfg.
    pub fn config_path(&self) -> PathBuf {
        self.directory.path().join("zoo.cfg")
    }

    /// The process id while it runs.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Whether the process is there. A server that a test has ended, or that ended by itself, is not.
    pub fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// Everything that it wrote to standard output and standard error, over all of its starts.
    pub fn output(&self) -> String {
        fs::read(self.output_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Starts it again on the same directory and port, after [`ServerProcess::stop`] or
    /// [`ServerProcess::kill`].
    pub fn start(&mut self) -> Result<(), ServerError> {
        if self.child.is_some() {
            return Ok(());
        }
        self.child = Some(self.spawn()?);
        self.wait_until_serving()
    }

    /// Starts it and ends it (SIGKILL) after `delay`, whether it serves by then or not: a crash while its
    /// directory is being recovered.
    pub fn crash_while_starting(&mut self, delay: Duration) -> Result<(), ServerError> {
        self.kill()?;
        self.child = Some(self.spawn()?);
        thread::sleep(delay);
        self.kill()
    }

    /// The program that the next start uses: another implementation on the same directory.
    pub fn set_launch(&mut self, launch: Launch) {
        self.settings.launch = launch;
    }

    /// A property for the next start, in place of its earlier value.
    pub fn set_property(&mut self, name: &str, value: impl Into<String>) {
        self.settings.properties.retain(|(known, _)| known != name);
        self.settings.properties.push((name.to_owned(), value.into()));
    }

    /// Asks it to end (SIGTERM) and waits until it has.
    pub fn stop(&mut self) -> Result<(), ServerError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // A process that has ended by itself needs no signal; wait reports it below.
        let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
                Ok(None) => {
                    let error = self.slow(child.id(), "end after SIGTERM");
                    self.child = Some(child);
                    return Err(error);
                }
                Err(source) => return Err(failed("wait for a server to end", source)),
            }
        }
    }

    /// Ends it at once (SIGKILL), as a crash would.
    pub fn kill(&mut self) -> Result<(), ServerError> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill().and_then(|()| child.wait()).map(drop).map_err(|source| failed("kill a server", source))
    }

    /// SIGTERM, then a start on the same directory.
    pub fn restart(&mut self) -> Result<(), ServerError> {
        self.stop()?;
        self.start()
    }

    fn spawn(&self) -> Result<Child, ServerError> {
        let launch = &self.settings.launch;
        let output = File::options()
            .create(true)
            .append(true)
            .open(self.output_path())
            .map_err(|source| failed("open the output of a server", source))?;
        let errors = output.try_clone().map_err(|source| failed("open the output of a server", source))?;
        let properties = self.settings.properties.iter().map(|(name, value)| format!("-D{name}={value}"));
        Command::new(&launch.program)
            .args(&launch.before)
            .args(properties)
            .args(&launch.after)
            .arg(self.config_path())
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(|source| failed(&format!("start {}", launch.program.display()), source))
    }

    fn wait_until_serving(&mut self) -> Result<(), ServerError> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let answer = four_letter::ask(self.address, "srvr", Duration::from_secs(2));
            if answer.is_ok_and(|answer| four_letter::is_serving(&answer)) {
                return Ok(());
            }
            let program = self.program();
            let Some(child) = &mut self.child else { return Ok(()) };
            let id = child.id();
            if let Some(status) = child.try_wait().map_err(|source| failed("look at a server", source))? {
                self.child = None;
                return Err(ServerError::Ended { program, status, output: self.output_tail() });
            }
            if Instant::now() >= deadline {
                return Err(self.slow(id, "serve"));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn slow(&self, id: u32, what: &'static str) -> ServerError {
        let output = self.output_tail();
        ServerError::Slow { program: self.program(), id, what, limit: START_LIMIT, output }
    }

    fn program(&self) -> String {
        self.settings.launch.program.display().to_string()
    }

    fn output_path(&self) -> PathBuf {
        Path::new(self.directory.path()).join("output.txt")
    }

    fn output_tail(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the process may be gone already.
        let _ = self.kill();
    }
}

fn failed(what: &str, source: io::Error) -> ServerError {
    ServerError::Io { what: what.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Launch {
        Launch { program: "sh".into(), before: vec!["-c".into(), script.into()], after: Vec::new() }
    }

    #[test]
    fn a_server_that_ends_is_reported_with_its_output() {
        let launch = shell("echo this is why; exit 3");
        let error = ServerProcess::launch(launch).property("a", "b").start().unwrap_err();
        let ServerError::Ended { status, output, .. } = error else { panic!("{error}") };
        assert_eq!(status.code(), Some(3));
        assert_eq!(output, "this is why");
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let error = ServerProcess::builder("/no/such/zebu").start().unwrap_err();
        assert!(error.to_string().contains("/no/such/zebu"), "{error}");
    }

    #[test]
    fn properties_stand_before_the_configuration() {
        // With `sh -c`, what follows the script are its arguments, from zero.
        let launch = shell("echo \"$0\" \"$1\"; grep -c tickTime=2000 \"$2\"; exit 1");
        let builder = ServerProcess::launch(launch).property("a.b", "c").property("d", "e=f").line("x=y");
        let ServerError::Ended { output, .. } = builder.start().unwrap_err() else {
            panic!("it cannot serve")
        };
        assert_eq!(output, "-Da.b=c -Dd=e=f\n1");
    }
}
