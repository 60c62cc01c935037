//! The files that keep the members beside the configuration file: the list in effect, the one that is proposed,
//! and the pointer in the configuration file. Each is replaced as a whole; a crash between two of them leaves an
//! older list, which a member can start with.

use std::io;
use std::path::{Path, PathBuf};

use tracing::{info, warn};
use zebu_proto::ServerId;
use zebu_storage::FileDisk;
use zebu_storage::disk::replace_file;
use zebu_zab::Configuration;

use super::static_file::{Moved, Place, edit};

/// The files of one server.
#[derive(Clone, Debug)]
pub(crate) struct MemberFiles {
    me: ServerId,
    static_file: PathBuf,
}

impl MemberFiles {
    pub(crate) fn new(static_file: &Path, me: ServerId) -> MemberFiles {
        MemberFiles { me, static_file: static_file.to_owned() }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.static_file.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    fn next(&self) -> PathBuf {
        self.beside(".dynamic.next")
    }

    /// Keeps what the file was before members moved out of it.
    pub(crate) fn back_up(&self) {
        let backup = self.beside(".bak");
        let result = std::fs::read(&self.static_file).and_then(|bytes| replace(&backup, &bytes));
        if let Err(error) = result {
            warn!(file = %backup.display(), %error, "the configuration file cannot be copied");
        }
    }

    /// The list that was proposed before this start.
    pub(crate) fn read_next(&self) -> Option<Configuration> {
        let text = std::fs::read_to_string(self.next()).ok()?;
        Configuration::parse(&text).ok()
    }

    /// Keeps a list that is proposed.
    pub(crate) fn remember(&self, configuration: &Configuration) {
        let mut lines = configuration.sorted_lines();
        lines.push(format!("version={:x}", configuration.version));
        lines.sort();
        self.report(replace(&self.next(), lines.join("\n").as_bytes()));
    }

    /// Keeps a list that has taken effect, and points to it.
    pub(crate) fn activate(&self, configuration: &Configuration) {
        let result = self.try_to_activate(configuration);
        if result.is_ok() {
            info!(version = format_args!("{:x}", configuration.version), "the new members are in the files");
        }
        self.report(result);
    }

    fn try_to_activate(&self, configuration: &Configuration) -> io::Result<()> {
        let list = self.beside(&format!(".dynamic.{:x}", configuration.version));
        replace(&list, configuration.sorted_lines().join("\n").as_bytes())?;
        let list = std::fs::canonicalize(&list)?;
        let own = configuration.members.get(&self.me);
        let place = |said: bool| if said { Place::MemberList } else { Place::StaticFile };
        let moved = Moved {
            client: place(own.is_some_and(|own| own.client.is_some())),
            secure_client: place(own.is_some_and(|own| own.secure_client.is_some())),
        };
        let text = std::fs::read(&self.static_file)?;
        replace(&self.static_file, &edit(&text, &list.to_string_lossy(), moved))?;
        if self.read_next().is_some_and(|next| next.version <= configuration.version) {
            std::fs::remove_file(self.next())?;
        }
        Ok(())
    }

    /// A directory that cannot be written changes nothing in the ensemble: this server would learn the members
    /// from the others.
    fn report(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let file = self.static_file.display();
            warn!(%file, %error, "the members cannot be written beside the configuration file; make its directory writable");
        }
    }
}

/// Replaces a file, keeping what may be done with it.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no name"))?;
    let before = std::fs::metadata(path).map(|file| file.permissions());
    replace_file(&FileDisk, directory, name, &format!("{name}.tmp"), bytes)?;
    match before {
        Ok(permissions) => std::fs::set_permissions(path, permissions),
        Err(_) => Ok(()),
    }
}
