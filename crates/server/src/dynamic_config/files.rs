//! The files that store the ensemble config beside the configuration file: the committed config,
//! the proposed one, and the pointer in the configuration file. Each file is replaced as a whole. A
//! crash between two replacements leaves an older config, with which a server can start.

use std::io;
use std::path::{Path, PathBuf};

use tracing::{info, warn};
use zebu_proto::ServerId;
use zebu_storage::FileDisk;
use zebu_storage::disk::replace_file;
use zebu_zab::Configuration;
use zebu_zab::membership::HostPort;

use super::static_file::{ClientAddressSource, ClientAddressSources, rewrite_static_file};

/// The config files of one server.
#[derive(Clone, Debug)]
pub(crate) struct DynamicConfigFiles {
    me: ServerId,
    static_file: PathBuf,
    /// The client address by the last config, or by the start.
    client_address: Option<HostPort>,
}

impl DynamicConfigFiles {
    pub(crate) fn new(static_file: &Path, me: ServerId, client: Option<HostPort>) -> DynamicConfigFiles {
        DynamicConfigFiles { me, static_file: static_file.to_owned(), client_address: client }
    }

    fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut name = self.static_file.clone().into_os_string();
        name.push(suffix);
        PathBuf::from(name)
    }

    fn next_config_path(&self) -> PathBuf {
        self.sibling_path(".dynamic.next")
    }

    /// Copies the static file before its servers move to the dynamic file.
    pub(crate) fn back_up_static_file(&self) {
        let backup = self.sibling_path(".bak");
        let result =
            std::fs::read(&self.static_file).and_then(|bytes| replace_keeping_permissions(&backup, &bytes));
        if let Err(error) = result {
            warn!(file = %backup.display(), %error, "the configuration file cannot be copied");
        }
    }

    /// Reads the config that was proposed before this start.
    pub(crate) fn read_next_config(&self) -> Option<Configuration> {
        let text = std::fs::read_to_string(self.next_config_path()).ok()?;
        Configuration::parse(&text).ok()
    }

    /// Writes a proposed config.
    pub(crate) fn save_proposed(&self, configuration: &Configuration) {
        let mut lines = configuration.sorted_lines();
        lines.push(format!("version={:x}", configuration.version));
        lines.sort();
        self.log_failure(replace_keeping_permissions(&self.next_config_path(), lines.join("\n").as_bytes()));
    }

    /// Writes a committed config and points the static file to it.
    pub(crate) fn activate(&mut self, configuration: &Configuration) {
        if let Some(client) = configuration.members.get(&self.me).and_then(|own| own.client.as_ref()) {
            self.client_address = Some(client.clone());
        }
        let result = self.write_active_config(configuration);
        if result.is_ok() {
            info!(version = format_args!("{:x}", configuration.version), "the new members are in the files");
        }
        self.log_failure(result);
    }

    fn write_active_config(&self, configuration: &Configuration) -> io::Result<()> {
        let list = self.sibling_path(&format!(".dynamic.{:x}", configuration.version));
        replace_keeping_permissions(&list, configuration.sorted_lines().join("\n").as_bytes())?;
        let list = std::fs::canonicalize(&list)?;
        let own = configuration.members.get(&self.me);
        let place = |said: bool| {
            if said { ClientAddressSource::DynamicFile } else { ClientAddressSource::StaticFile }
        };
        let moved = ClientAddressSources {
            client: place(own.is_some_and(|own| own.client.is_some())),
            secure_client: place(own.is_some_and(|own| own.secure_client.is_some())),
        };
        let text = std::fs::read(&self.static_file)?;
        replace_keeping_permissions(
            &self.static_file,
            &rewrite_static_file(&text, &list.to_string_lossy(), moved, self.client_address.as_ref()),
        )?;
        if self.read_next_config().is_some_and(|next| next.version <= configuration.version) {
            std::fs::remove_file(self.next_config_path())?;
        }
        Ok(())
    }

    /// Logs a failed write. It does not affect the ensemble, because this server learns the config
    /// from its peers.
    fn log_failure(&self, result: io::Result<()>) {
        if let Err(error) = result {
            let file = self.static_file.display();
            warn!(%file, %error, "the members cannot be written beside the configuration file; make its directory writable");
        }
    }
}

/// Replaces a file and keeps its permissions.
fn replace_keeping_permissions(path: &Path, bytes: &[u8]) -> io::Result<()> {
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
        let mut files = DynamicConfigFiles::new(&file, ServerId(1), None);
        assert_eq!(files.read_next_config(), None);
        files.back_up_static_file();
        assert_eq!(fs::read_to_string(beside(".bak")).unwrap(), "# mine\nclientPort=2181\nserver.1=a:1:2\n");

        files.save_proposed(&list("100000005", ""));
        let next = "server.10=c:1:2:participant\nserver.1=a:1:2:participant\nserver.2=b:1:2:observer\n\
                    version=100000005";
        assert_eq!(fs::read_to_string(beside(".dynamic.next")).unwrap(), next, "sorted as texts");
        assert_eq!(files.read_next_config(), Some(list("100000005", "")));

        // An older config is activated: the proposed one stays.
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
        let mut files = DynamicConfigFiles::new(Path::new("/no/such/directory/zoo.cfg"), ServerId(1), None);
        files.back_up_static_file();
        files.save_proposed(&list("5", ""));
        files.activate(&list("5", ""));
        assert_eq!(files.read_next_config(), None);
    }
}
