//! A session that outlives its process: its credentials are in a file, and the next process resumes it.
//!
//! The file is private to its user, replaced as a whole, and locked while a process uses it: two clients of
//! one session would take its connection from each other.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zebu_client::{Client, ClientBuilder, ConnectError, SessionCredentials, SessionId, SessionState};

/// A file for the credentials of one session.
///
/// A process that is started again within the session timeout continues its session: its ephemeral nodes
/// stay, and other clients see no change. After a crash nothing has to be done. A planned restart calls
/// [`leave`](SavedSession::leave).
///
/// ```
/// # zebu_testing::with_server(async |server| {
/// # let servers = server.connect_string();
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("worker.session");
/// use zebu_client::Client;
/// use zebu_recipes::{SessionFile, SessionOrigin};
///
/// let worker = SessionFile::new(&path).connect(Client::builder(&servers)?).await?;
/// worker.client().create("/worker-7").ephemeral().await?;
/// worker.leave().await?; // the process is restarted
///
/// let worker = SessionFile::new(&path).connect(Client::builder(&servers)?).await?;
/// assert_eq!(worker.origin(), SessionOrigin::Resumed);
/// assert!(worker.client().exists("/worker-7").await?.is_some());
/// worker.close().await?;
/// # Ok(()) });
/// ```
#[derive(Clone, Debug)]
pub struct SessionFile {
    path: PathBuf,
}

/// Whether the session of the file was still alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrigin {
    /// The session of the former process. Its ephemeral nodes and locks are still there.
    Resumed,
    /// A new session: there was no file, or the session of the file had expired.
    New,
}

/// Whether the file has the current session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFileState {
    /// The file has this session.
    Saved(SessionId),
    /// The file could not be written; it has an earlier session or none.
    Failed(String),
}

/// The reason why a session could not be resumed or saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionFileError {
    /// The file cannot be read or written.
    #[error("cannot use the session file {path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another process uses the file.
    #[error("another process uses the session file {path}; one session has one client")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Other users can read the password of the session.
    #[error("the session file {path} is open to other users; run chmod 600 on it")]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file has no session.
    #[error("{path} is no session file; delete it to begin with a new session")]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// No server could be reached, or it refused the client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A call failed.
    #[error(transparent)]
    Client(#[from] zebu_client::Error),
}

impl SessionFile {
    /// A file that is written when a session begins. Its directory must exist.
    pub fn new(path: impl Into<PathBuf>) -> SessionFile {
        SessionFile { path: path.into() }
    }

    /// Connects with the session of the file if it is alive, otherwise with a new one, which is saved.
    /// Later sessions of the client are saved too.
    ///
    /// # Errors
    /// The file is damaged, open to other users, or used by another process, or no server answers.
    pub async fn connect(self, builder: ClientBuilder) -> Result<SavedSession, SessionFileError> {
        let SessionFile { path } = self;
        let place = path.clone();
        let (lock, saved) = run_blocking(&path, move || Ok((lock(&place)?, read(&place)?))).await?;
        let builder = match saved {
            Some(credentials) => builder.resume(credentials),
            None => builder,
        };
        let client = builder.connect().await?;
        let id = client.session().id;
        let origin = match saved {
            Some(credentials) if credentials.id == id => SessionOrigin::Resumed,
            Some(_) | None => SessionOrigin::New,
        };
        if let Some(credentials) = client.credentials().await {
            save(&path, credentials).await?;
        }
        let (states, state) = watch::channel(SessionFileState::Saved(id));
        let keeper = tokio::spawn(keep(client.clone(), path.clone(), states));
        Ok(SavedSession { client: Some(client), origin, path, state, keeper, _lock: lock })
    }
}

/// A connected client whose session is in a file. Keep it as long as the client is used: without it, later
/// sessions are not saved, and another process may use the file. As with every client, the session is closed
/// when the last clone is dropped.
#[derive(Debug)]
pub struct SavedSession {
    /// `None` only while it is consumed.
    client: Option<Client>,
    origin: SessionOrigin,
    path: PathBuf,
    state: watch::Receiver<SessionFileState>,
    keeper: JoinHandle<()>,
    _lock: File,
}

impl SavedSession {
    /// The client.
    pub fn client(&self) -> &Client {
        match &self.client {
            Some(client) => client,
            None => unreachable!("the client is taken only when this is consumed"),
        }
    }

    /// Whether the session is the one of the former process.
    pub fn origin(&self) -> SessionOrigin {
        self.origin
    }

    /// Whether the file has the current session, and each change of that.
    pub fn states(&self) -> watch::Receiver<SessionFileState> {
        self.state.clone()
    }

    /// Ends the client and leaves its session to the next process, which must connect within the session
    /// timeout. Earlier calls are answered first.
    ///
    /// # Errors
    /// There is no session, or the file cannot be written. The session then expires.
    pub async fn leave(mut self) -> Result<(), SessionFileError> {
        self.keeper.abort();
        let Some(client) = self.client.take() else { return Ok(()) };
        let credentials = client.hand_over().await?;
        save(&self.path, credentials).await
    }

    /// Ends the session and removes the file.
    ///
    /// # Errors
    /// The file cannot be removed, or the client was closed before.
    pub async fn close(mut self) -> Result<(), SessionFileError> {
        self.keeper.abort();
        let path = self.path.clone();
        let place = path.clone();
        run_blocking(&path, move || match fs::remove_file(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(&place, error)),
            Ok(()) | Err(_) => Ok(()),
        })
        .await?;
        let Some(client) = self.client.take() else { return Ok(()) };
        client.close().await?;
        Ok(())
    }
}

impl Drop for SavedSession {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Saves each further session of the client.
async fn keep(client: Client, path: PathBuf, states: watch::Sender<SessionFileState>) {
    let mut statuses = client.states();
    loop {
        let status = statuses.borrow_and_update().clone();
        if matches!(status.state, SessionState::Closed | SessionState::AuthFailed) {
            return;
        }
        let is_saved = *states.borrow() == SessionFileState::Saved(status.session.id);
        if status.state.takes_writes() && !is_saved {
            let Some(credentials) = client.credentials().await else { continue };
            let state = match save(&path, credentials).await {
                Ok(()) => SessionFileState::Saved(credentials.id),
                Err(error) => SessionFileState::Failed(error.to_string()),
            };
            states.send_replace(state);
        }
        if statuses.changed().await.is_err() {
            return;
        }
    }
}

async fn save(path: &Path, credentials: SessionCredentials) -> Result<(), SessionFileError> {
    let place = path.to_owned();
    run_blocking(path, move || write(&place, credentials)).await
}

/// Runs work on files on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> Result<T, SessionFileError> + Send + 'static,
) -> Result<T, SessionFileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io_error(path, io::Error::other(error))),
    }
}

fn io_error(path: &Path, source: io::Error) -> SessionFileError {
    SessionFileError::Io { path: path.to_owned(), source }
}

/// The path with an ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Locks a file beside the session file, which itself is replaced. The lock ends with the process.
fn lock(path: &Path) -> Result<File, SessionFileError> {
    let place = beside(path, ".lock");
    let file = private().truncate(false).open(&place).map_err(|error| io_error(&place, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SessionFileError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(error)) => Err(io_error(&place, error)),
    }
}

/// A file that is written, and is made for its user only.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Reads the session, if there is a file.
fn read(path: &Path) -> Result<Option<SessionCredentials>, SessionFileError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(SessionFileError::Damaged { path: path.to_owned() });
        }
        Err(error) => return Err(io_error(path, error)),
    };
    if is_exposed(path).map_err(|error| io_error(path, error))? {
        return Err(SessionFileError::Exposed { path: path.to_owned() });
    }
    match parse(&text) {
        Some(credentials) => Ok(Some(credentials)),
        None => Err(SessionFileError::Damaged { path: path.to_owned() }),
    }
}

#[cfg(unix)]
fn is_exposed(path: &Path) -> io::Result<bool> {
    Ok(std::os::unix::fs::MetadataExt::mode(&fs::metadata(path)?) & 0o077 != 0)
}

#[cfg(not(unix))]
fn is_exposed(_: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Replaces the file. After a crash it has the old or the new session.
fn write(path: &Path, credentials: SessionCredentials) -> Result<(), SessionFileError> {
    let temporary = beside(path, ".new");
    let replace = || {
        // A file of an earlier process may have other rights.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = private().create_new(true).open(&temporary)?;
        file.write_all(format(credentials).as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    replace().map_err(|error| io_error(path, error))
}

fn format(credentials: SessionCredentials) -> String {
    let password: String = credentials.password.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("session={}\npassword={password}\n", credentials.id)
}

fn parse(text: &str) -> Option<SessionCredentials> {
    let mut lines = text.lines();
    let id = lines.next()?.strip_prefix("session=0x")?;
    let id = u64::from_str_radix(id, 16).ok()?.cast_signed();
    let digits = lines.next()?.strip_prefix("password=")?;
    if digits.len() != 32 || !digits.is_ascii() || lines.next().is_some() {
        return None;
    }
    let mut password = [0; 16];
    for (index, byte) in password.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(SessionCredentials { id: SessionId(id), password })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_they_were_written() {
        for id in [1, i64::MAX, -2] {
            let credentials = SessionCredentials { id: SessionId(id), password: *b"\x00\xff0123456789abcd" };
            assert_eq!(parse(&format(credentials)), Some(credentials));
        }
        let good = format(SessionCredentials { id: SessionId(7), password: [9; 16] });
        for length in 0..good.len() - 1 {
            assert_eq!(parse(&good[..length]), None, "{length} bytes");
        }
        for bad in ["", "session=7\n", "session=0x7\npassword=é23456789012345678901234567890é\n"] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        assert_eq!(parse(&(good + "more\n")), None);
    }
}
