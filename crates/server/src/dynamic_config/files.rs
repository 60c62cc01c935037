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
use zebu_zab::membership::HostPort;

use super::static_file::{Moved, Place, edit};

/// The files of one server.
#[derive(Clone, Debug)]
pub(crate) struct MemberFiles {
    me: ServerId,
    static_file: PathBuf,
    /// Where clients connect, as the last list or the start said it.
    client: Option<HostPort>,
}

impl MemberFiles {
    pub(crate) fn new(static_file: &Path, me: ServerId, client: Option<HostPort>) -> MemberFiles {
        MemberFiles { me, static_file: static_file.to_owned(), client }
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
    pub(crate) fn activate(&mut self, configuration: &Configuration) {
        if let Some(client) = configuration.members.get(&self.me).and_then(|own| own.client.as_ref()) {
            self.client = Some(client.clone());
        }
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
        replace(&self.static_file, &edit(&text, &list.to_string_lossy(), moved, self.client.as_ref()))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn list(version: &str, client: &str) -> Configuration {
        let text = format!(
            "server.2=b:1:2:observer{client}\nserver.10=c:1:2\nserver.1=a:1:2{client}\nversion={version}"
        );
        Configuration::parse(&text).unwrap()
    }

    #[test]
    fn a_list_from_its_proposal_to_its_end() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("zoo.cfg");
        let beside = |suffix: &str| home.path().join(format!("zoo.cfg{suffix}"));
        fs::write(&file, "# mine\nclientPort=2181\nserver.1=a:1:2\n").unwrap();
        let mut files = MemberFiles::new(&file, ServerId(1), None);
        assert_eq!(files.read_next(), None);
        files.back_up();
        assert_eq!(fs::read_to_string(beside(".bak")).unwrap(), "# mine\nclientPort=2181\nserver.1=a:1:2\n");

        files.remember(&list("100000005", ""));
        let next = "server.10=c:1:2:participant\nserver.1=a:1:2:participant\nserver.2=b:1:2:observer\n\
                    version=100000005";
        assert_eq!(fs::read_to_string(beside(".dynamic.next")).unwrap(), next, "sorted as texts");
        assert_eq!(files.read_next(), Some(list("100000005", "")));

        // An older one takes effect: what is proposed stays.
        files.activate(&list("100000004", ""));
        assert!(beside(".dynamic.next").exists());
        files.activate(&list("100000005", ""));
        assert!(!beside(".dynamic.next").exists());
        let lines = "server.10=c:1:2:participant\nserver.1=a:1:2:participant\nserver.2=b:1:2:observer";
        assert_eq!(fs::read_to_string(beside(".dynamic.100000005")).unwrap(), lines);
        let pointer = beside(".dynamic.100000005").canonicalize().unwrap();
        let text = format!("# mine\nclientPort=2181\ndynamicConfigFile={}\n", pointer.display());
        assert_eq!(fs::read_to_string(&file).unwrap(), text);

        files.activate(&list("100000006", ";2182"));
        let pointer = beside(".dynamic.100000006").canonicalize().unwrap();
        let text = format!("# mine\ndynamicConfigFile={}\n", pointer.display());
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "the list says where clients connect");

        files.activate(&list("100000007", ""));
        let pointer = beside(".dynamic.100000007").canonicalize().unwrap();
        let text = format!(
            "# mine\nclientPort=2182\nclientPortAddress=0.0.0.0\ndynamicConfigFile={}\n",
            pointer.display()
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "the list says it no more");
        let left = fs::read_dir(home.path()).unwrap().flatten();
        assert!(!left.into_iter().any(|file| file.file_name().to_string_lossy().ends_with(".tmp")));
    }

    #[test]
    fn a_directory_that_is_gone_is_no_reason_to_stop() {
        let mut files = MemberFiles::new(Path::new("/no/such/directory/zoo.cfg"), ServerId(1), None);
        files.back_up();
        files.remember(&list("5", ""));
        files.activate(&list("5", ""));
        assert_eq!(files.read_next(), None);
    }
}
