//! Finds the configuration file as zkServer.sh does, and peeks into it for what `stop` and `status` need.
//! A file with mistakes in other places must not keep anyone from stopping a server, so nothing is checked.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zebu_server::config::path_reading::choose_directory;
use zebu_server::config::{Environment, properties};

const DEFAULT_NAME: &str = "zoo.cfg";

/// The file that is meant: a path as it is; a bare name, or none, in the configuration directory.
pub(crate) fn locate(named: Option<&str>, environment: &Environment, binary: Option<&Path>) -> PathBuf {
    let variable = environment.get("ZOOCFG").filter(|name| !name.is_empty());
    let name = named.or(variable).unwrap_or(DEFAULT_NAME);
    if Path::new(name).components().count() > 1 || name.starts_with('.') {
        return PathBuf::from(name);
    }
    if let Some(directory) = environment.get("ZOOCFGDIR").filter(|directory| !directory.is_empty()) {
        return Path::new(directory).join(name);
    }
    let beside = binary.and_then(Path::parent).map(|directory| directory.join("..").join("conf"));
    let in_conf = [beside, Some(PathBuf::from("conf"))]
        .into_iter()
        .flatten()
        .map(|directory| directory.join(name))
        .find(|path| path.is_file());
    match (in_conf, named) {
        (Some(path), _) => path,
        (None, Some(named)) => PathBuf::from(named),
        (None, None) => Path::new("conf").join(name),
    }
}

/// The last value of each key of a file.
#[derive(Debug)]
pub(crate) struct Peek {
    values: BTreeMap<String, String>,
}

/// Where `status` asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClientPort {
    /// Plain text.
    Plain { host: String, port: String },
    /// Only TLS.
    Secure { host: String, port: String },
}

impl Peek {
    /// Reads a file.
    ///
    /// # Errors
    /// Says why it cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Peek, String> {
        let bytes =
            std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let entries = properties::parse_properties(&properties::decode_latin1(&bytes))
            .map_err(|error| format!("{}:{}: {error}", path.display(), error.line))?;
        Ok(Peek { values: entries.into_iter().map(|entry| (entry.key, entry.value)).collect() })
    }

    /// The value of a key that has one.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// `dataDir`.
    pub(crate) fn data_dir(&self) -> Option<PathBuf> {
        self.get("dataDir").map(|value| choose_directory(value, Path::is_dir))
    }

    /// `dataLogDir`.
    pub(crate) fn data_log_dir(&self) -> Option<PathBuf> {
        self.get("dataLogDir").map(|value| choose_directory(value, Path::is_dir))
    }

    /// `clientPort`, else the port behind the `;` of this server's member line, here or in the dynamic file,
    /// else `secureClientPort`.
    pub(crate) fn client_port(&self) -> Option<ClientPort> {
        if let Some(port) = self.get("clientPort") {
            let host = reachable(self.get("clientPortAddress"));
            return Some(ClientPort::Plain { host, port: port.to_owned() });
        }
        if let Some((host, port)) = self.port_of_member_line() {
            return Some(ClientPort::Plain { host, port });
        }
        let port = self.get("secureClientPort")?.to_owned();
        Some(ClientPort::Secure { host: reachable(self.get("secureClientPortAddress")), port })
    }

    fn port_of_member_line(&self) -> Option<(String, String)> {
        let id = std::fs::read_to_string(self.data_dir()?.join("myid")).ok()?;
        let key = format!("server.{}", id.lines().next()?.trim());
        let dynamic = self.get("dynamicConfigFile").and_then(|path| Peek::read(Path::new(path)).ok());
        let line =
            self.get(&key).or_else(|| dynamic.as_ref().and_then(|dynamic| dynamic.get(&key)))?.to_owned();
        let client = line.split(';').nth(1)?.trim();
        match client.rsplit_once(':') {
            Some((host, port)) => Some((reachable(Some(host)), port.to_owned())),
            None if client.is_empty() => None,
            None => Some((reachable(None), client.to_owned())),
        }
    }
}

/// An address to connect to: a wildcard is reached through localhost.
fn reachable(host: Option<&str>) -> String {
    match host.map(|host| host.trim_start_matches('[').trim_end_matches(']')) {
        None | Some("" | "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0") => "localhost".to_owned(),
        Some(host) => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Environment {
        Environment(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn the_file_that_is_meant() {
        let none = variables(&[]);
        let directory = variables(&[("ZOOCFGDIR", "/etc/zk"), ("ZOOCFG", "one.cfg")]);
        assert_eq!(locate(None, &none, None), Path::new("conf/zoo.cfg"));
        assert_eq!(locate(None, &directory, None), Path::new("/etc/zk/one.cfg"));
        assert_eq!(locate(Some("two.cfg"), &directory, None), Path::new("/etc/zk/two.cfg"));
        assert_eq!(locate(Some("/x/two.cfg"), &directory, None), Path::new("/x/two.cfg"));
        assert_eq!(locate(Some("./two.cfg"), &directory, None), Path::new("./two.cfg"));
        assert_eq!(locate(Some("nowhere-else.cfg"), &none, None), Path::new("nowhere-else.cfg"));
    }

    #[test]
    fn conf_beside_the_binary() {
        let home = tempfile::tempdir().unwrap();
        for directory in ["bin", "conf"] {
            std::fs::create_dir(home.path().join(directory)).unwrap();
        }
        let binary = home.path().join("bin/zebu");
        std::fs::write(home.path().join("conf/zoo.cfg"), "").unwrap();
        let found = locate(None, &variables(&[]), Some(&binary));
        assert_eq!(found, home.path().join("bin/../conf/zoo.cfg"));
    }

    #[test]
    fn client_ports() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().display().to_string();
        let port = |text: &str| {
            let path = home.path().join("zoo.cfg");
            std::fs::write(&path, format!("dataDir={data}\n{text}\n")).unwrap();
            Peek::read(&path).unwrap().client_port()
        };
        let plain =
            |host: &str, port: &str| Some(ClientPort::Plain { host: host.to_owned(), port: port.to_owned() });
        assert_eq!(port("clientPort=2181"), plain("localhost", "2181"));
        assert_eq!(port("clientPort=2181\nclientPortAddress=0.0.0.0"), plain("localhost", "2181"));
        assert_eq!(port("clientPort=2181\nclientPortAddress=10.0.0.1"), plain("10.0.0.1", "2181"));
        assert_eq!(port("server.1=a:1:2;2191"), None);
        std::fs::write(home.path().join("myid"), "1\n").unwrap();
        assert_eq!(port("server.1=a:1:2;2191"), plain("localhost", "2191"));
        assert_eq!(port("server.1=a:1:2;[::1]:2191"), plain("::1", "2191"));
        let dynamic = home.path().join("dynamic");
        std::fs::write(&dynamic, "server.1=a:1:2:participant;10.0.0.2:5\n").unwrap();
        assert_eq!(port(&format!("dynamicConfigFile={}", dynamic.display())), plain("10.0.0.2", "5"));
        let secure = ClientPort::Secure { host: "localhost".to_owned(), port: "2281".to_owned() };
        assert_eq!(port("secureClientPort=2281"), Some(secure));
    }
}
