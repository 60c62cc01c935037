//! Rewrites a zoo.cfg whose servers moved to a dynamic file: removes the moved settings, adds the
//! pointer, and keeps everything else unchanged.

use zebu_zab::membership::HostPort;

/// Which file names the client addresses of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientAddressSources {
    pub(super) client: ClientAddressSource,
    pub(super) secure_client: ClientAddressSource,
}

/// The file that names a client address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAddressSource {
    StaticFile,
    DynamicFile,
}

/// Returns the new text. Bytes that are not understood stay unchanged.
///
/// If neither file names the client address any more, `client` is written.
pub(super) fn rewrite_static_file(
    text: &[u8],
    dynamic_file: &str,
    moved: ClientAddressSources,
    client: Option<&HostPort>,
) -> Vec<u8> {
    let mut edited = Vec::with_capacity(text.len() + dynamic_file.len() + 20);
    let mut client = client.filter(|_| moved.client == ClientAddressSource::StaticFile);
    let mut lines = text.split_inclusive(|&byte| byte == b'\n');
    while let Some(first) = lines.next() {
        let mut entry = first.to_vec();
        // An entry may continue on the next lines; a comment may not.
        while !is_comment(first) && ends_with_continuation(&entry) {
            let Some(more) = lines.next() else { break };
            entry.extend_from_slice(more);
        }
        if is_comment(first) || !is_removed(key(first), moved) {
            edited.extend_from_slice(&entry);
            client = client.filter(|_| is_comment(first) || key(first) != b"clientPort");
        }
    }
    if edited.last().is_some_and(|&byte| byte != b'\n') {
        edited.push(b'\n');
    }
    if let Some(HostPort { host, port }) = client {
        edited
            .extend_from_slice(format!("clientPort={port}\nclientPortAddress={}\n", escape(host)).as_bytes());
    }
    edited.extend_from_slice(format!("dynamicConfigFile={}\n", escape(dynamic_file)).as_bytes());
    edited
}

/// Settings are recognised by their prefix alone, as in ZooKeeper.
fn is_removed(key: &[u8], moved: ClientAddressSources) -> bool {
    let begins = |word: &str| key.starts_with(word.as_bytes());
    ["server.", "group", "weight", "dynamicConfigFile", "peerType"].into_iter().any(begins)
        || (moved.client == ClientAddressSource::DynamicFile && is_client_port(key, b"clientPort"))
        || (moved.secure_client == ClientAddressSource::DynamicFile
            && is_client_port(key, b"secureClientPort"))
}

/// Matches the port and its address. Other settings with the same prefix are no addresses and stay.
fn is_client_port(key: &[u8], port: &[u8]) -> bool {
    key.strip_prefix(port).is_some_and(|rest| rest.is_empty() || rest == b"Address")
}

fn key(line: &[u8]) -> &[u8] {
    let line = line.trim_ascii();
    let end = line.iter().position(|byte| matches!(byte, b'=' | b':' | b' ' | b'\t')).unwrap_or(line.len());
    &line[..end]
}

fn is_comment(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    line.is_empty() || matches!(line[0], b'#' | b'!')
}

/// An odd number of backslashes before the end of the line.
fn ends_with_continuation(entry: &[u8]) -> bool {
    let end = entry.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
    let ended = end < entry.len();
    ended && entry[..end].iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 1
}

/// Escapes a path as a value: each backslash is doubled.
fn escape(path: &str) -> String {
    path.replace('\\', "\\\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAYS: ClientAddressSources = ClientAddressSources {
        client: ClientAddressSource::StaticFile,
        secure_client: ClientAddressSource::StaticFile,
    };
    const MOVES: ClientAddressSources = ClientAddressSources {
        client: ClientAddressSource::DynamicFile,
        secure_client: ClientAddressSource::DynamicFile,
    };

    fn edited(text: &str, moved: ClientAddressSources) -> String {
        String::from_utf8(rewrite_static_file(text.as_bytes(), "/etc/zoo.cfg.dynamic.5", moved, None))
            .unwrap()
    }

    /// A complete new config without client ports must leave a file with which a server can start.
    #[test]
    fn the_client_port_comes_back_when_the_members_say_it_no_more() {
        let client = HostPort { host: "::1".to_owned(), port: 2181 };
        let edited = |text: &str, moved| {
            let edited = rewrite_static_file(text.as_bytes(), "/etc/zoo.cfg.dynamic.5", moved, Some(&client));
            String::from_utf8(edited).unwrap()
        };
        let pointer = "dynamicConfigFile=/etc/zoo.cfg.dynamic.5\n";
        let back = format!("tickTime=5\nclientPort=2181\nclientPortAddress=::1\n{pointer}");
        assert_eq!(edited("tickTime=5\n", STAYS), back);
        assert_eq!(edited(&back, STAYS), back, "it is there");
        assert_eq!(edited("clientPort=7\n", STAYS), format!("clientPort=7\n{pointer}"));
        assert_eq!(edited("#clientPort=7\n", STAYS).lines().count(), 4);
        assert_eq!(edited("tickTime=5\n", MOVES), format!("tickTime=5\n{pointer}"));
    }

    #[test]
    fn only_members_go() {
        let text = "# ours\ntickTime=2000\n\n  server.1 = a:1:2\nserver.2=b:\\\n   1:2\n# the port\nclientPort=2181\n\
                    weight.1=1\ngroup.1=1\npeerType=observer\nsyncLimit=5";
        let expected = "# ours\ntickTime=2000\n\n# the port\nclientPort=2181\nsyncLimit=5\n\
                        dynamicConfigFile=/etc/zoo.cfg.dynamic.5\n";
        assert_eq!(edited(text, STAYS), expected);
        assert_eq!(edited(expected, STAYS), expected, "once more changes nothing");
    }

    #[test]
    fn the_client_port_goes_when_the_members_say_it() {
        let text = "clientPort=1\nclientPortAddress=::1\nclientPortListenBacklog=7\nsecureClientPort:9\n";
        let expected = "clientPortListenBacklog=7\ndynamicConfigFile=/etc/zoo.cfg.dynamic.5\n";
        assert_eq!(edited(text, MOVES), expected);
        assert!(edited(text, STAYS).starts_with(text));
    }

    #[test]
    fn odd_files() {
        assert_eq!(edited("", STAYS), "dynamicConfigFile=/etc/zoo.cfg.dynamic.5\n");
        assert_eq!(edited("server.1=a:1:2\\", STAYS), "dynamicConfigFile=/etc/zoo.cfg.dynamic.5\n");
        let comment = "# ends with \\\nserver.1=a:1:2\r\na=b\r\n";
        let expected = "# ends with \\\na=b\r\ndynamicConfigFile=/etc/zoo.cfg.dynamic.5\n";
        assert_eq!(edited(comment, STAYS), expected);
        assert_eq!(escape("C:\\zoo"), "C:\\\\zoo");
    }
}
