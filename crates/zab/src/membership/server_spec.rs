//! The grammar of one `server.N` value: `host:quorumPort:electionPort[:role][|…][;[client][;[secure]]]`. The
//! module does not check lines against each other.

use super::{HostPort, PeerAddress, Role, ServerSpec};

/// Whether a server may have more than one address (`multiAddress.enabled`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultiAddress {
    /// Exactly one address.
    Disabled,
    /// One or more addresses, separated by `|`.
    Enabled,
}

/// Parses one value.
///
/// # Errors
/// A sentence with the mistake and the correct form.
pub fn parse_server_spec(value: &str, addresses: MultiAddress) -> Result<ServerSpec, String> {
    let mut parts = value.split(';').map(str::trim);
    let peers = parts.next().unwrap_or_default();
    let client = parts.next().filter(|part| !part.is_empty()).map(parse_client_address).transpose()?;
    let secure_client = parts.next().filter(|part| !part.is_empty()).map(parse_client_address).transpose()?;
    if parts.any(|part| !part.is_empty()) {
        return Err(syntax_error("it has more than three parts separated by ;"));
    }
    let parsed =
        peers.split('|').map(|peer| parse_peer_address(peer.trim())).collect::<Result<Vec<_>, _>>()?;
    if parsed.len() > 1 && addresses == MultiAddress::Disabled {
        return Err("it has several addresses; set multiAddress.enabled=true to allow that".to_owned());
    }
    let mut role = None;
    for said in parsed.iter().filter_map(|(_, role)| *role) {
        if role.is_some_and(|earlier| earlier != said) {
            return Err("its addresses name different roles".to_owned());
        }
        role = Some(said);
    }
    Ok(ServerSpec {
        addresses: parsed.into_iter().map(|(address, _)| address).collect(),
        role: role.unwrap_or(Role::Participant),
        client,
        secure_client,
    })
}

/// Parses a role, in any case.
pub fn parse_role(text: &str) -> Option<Role> {
    match text.trim().to_ascii_lowercase().as_str() {
        "participant" => Some(Role::Participant),
        "observer" => Some(Role::Observer),
        _ => None,
    }
}

fn parse_peer_address(text: &str) -> Result<(PeerAddress, Option<Role>), String> {
    let (host, rest) = split_host(text)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (quorum, election, role) = match parts[..] {
        [quorum, election] => (quorum, election, None),
        [quorum, election, role] => (quorum, election, Some(role)),
        _ => return Err(syntax_error(&format!("\"{text}\" does not have 3 or 4 parts"))),
    };
    let role =
        match role {
            None => None,
            Some(text) => Some(parse_role(text).ok_or_else(|| {
                format!("\"{}\" is not a role; allowed: participant, observer", text.trim())
            })?),
        };
    let (quorum_port, election_port) = (parse_port(quorum)?, parse_port(election)?);
    if quorum_port == election_port {
        return Err(format!("its quorum port and its election port are both {quorum_port}"));
    }
    Ok((PeerAddress { host, quorum_port, election_port }, role))
}

/// Parses a client address. A bare port means all interfaces.
fn parse_client_address(text: &str) -> Result<HostPort, String> {
    if text.chars().all(|c| c.is_ascii_digit()) {
        return Ok(HostPort { host: "0.0.0.0".to_owned(), port: parse_port(text)? });
    }
    let (host, port) = split_host(text)?;
    Ok(HostPort { host, port: parse_port(port)? })
}

/// Splits the host, without its brackets, from the text after its colon.
fn split_host(text: &str) -> Result<(String, &str), String> {
    let split = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) =
                inner.split_once(']').ok_or_else(|| syntax_error(&format!("\"{text}\" lacks a ]")))?;
            rest.strip_prefix(':').map(|rest| (host, rest))
        }
        None => text.split_once(':'),
    };
    match split {
        Some((host, rest)) if !host.trim().is_empty() && !rest.is_empty() => {
            Ok((host.trim().to_owned(), rest))
        }
        Some(_) | None => Err(syntax_error(&format!("\"{text}\" lacks a host or a port"))),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let text = text.trim();
    match text.parse::<u16>() {
        Ok(port) if port > 0 && text.starts_with(|c: char| c.is_ascii_digit()) => Ok(port),
        _ => Err(format!("\"{text}\" is not a port; allowed: 1 to 65535")),
    }
}

fn syntax_error(what: &str) -> String {
    format!("{what}; the form is host:quorumPort:electionPort[:role][;[host:]clientPort]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(host: &str, quorum_port: u16, election_port: u16) -> PeerAddress {
        PeerAddress { host: host.to_owned(), quorum_port, election_port }
    }

    fn client(host: &str, port: u16) -> Option<HostPort> {
        Some(HostPort { host: host.to_owned(), port })
    }

    #[test]
    fn forms() {
        let plain = parse_server_spec("zk1:2888:3888", MultiAddress::Disabled).unwrap();
        let expected = ServerSpec {
            addresses: vec![peer("zk1", 2888, 3888)],
            role: Role::Participant,
            client: None,
            secure_client: None,
        };
        assert_eq!(plain, expected);
        let full =
            parse_server_spec("10.0.0.1:2888:3888:Observer ; 127.0.0.1:2181 ; 2281", MultiAddress::Disabled)
                .unwrap();
        assert_eq!((full.role, full.client), (Role::Observer, client("127.0.0.1", 2181)));
        assert_eq!(full.secure_client, client("0.0.0.0", 2281));
        let secure_only = parse_server_spec("a:1:2;;2281", MultiAddress::Disabled).unwrap();
        assert_eq!((secure_only.client, secure_only.secure_client), (None, client("0.0.0.0", 2281)));
        let version_6 =
            parse_server_spec("[2001:db8::1]:2888:3888;[::]:2181", MultiAddress::Disabled).unwrap();
        assert_eq!(version_6.addresses, [peer("2001:db8::1", 2888, 3888)]);
        assert_eq!(version_6.client, client("::", 2181));
        let many = parse_server_spec("a:1:2|b:3:4:observer", MultiAddress::Enabled).unwrap();
        assert_eq!(many.addresses, [peer("a", 1, 2), peer("b", 3, 4)]);
        assert_eq!(many.role, Role::Observer);
        assert_eq!(parse_server_spec("a:1:2;", MultiAddress::Disabled).unwrap().client, None);
    }

    #[test]
    fn mistakes() {
        const FORM: &str = "; the form is host:quorumPort:electionPort[:role][;[host:]clientPort]";
        for (text, message) in [
            ("", format!("\"\" lacks a host or a port{FORM}")),
            ("zk1:2888", format!("\"zk1:2888\" does not have 3 or 4 parts{FORM}")),
            ("a:1:2:participant:5", format!("\"a:1:2:participant:5\" does not have 3 or 4 parts{FORM}")),
            ("a:1:1", "its quorum port and its election port are both 1".to_owned()),
            ("a:1:x", "\"x\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:1:+2", "\"+2\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:0:70000", "\"0\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:1:2:leader", "\"leader\" is not a role; allowed: participant, observer".to_owned()),
            ("[::1:1:2", format!("\"[::1:1:2\" lacks a ]{FORM}")),
            ("[::1]:", format!("\"[::1]:\" lacks a host or a port{FORM}")),
            ("a:1:2;70000", "\"70000\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:1:2;b", format!("\"b\" lacks a host or a port{FORM}")),
            ("a:1:2;b:0", "\"0\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:1:2;;70000", "\"70000\" is not a port; allowed: 1 to 65535".to_owned()),
            ("a:1:2;;;4", format!("it has more than three parts separated by ;{FORM}")),
            (
                "a:1:2|b:1:2",
                "it has several addresses; set multiAddress.enabled=true to allow that".to_owned(),
            ),
        ] {
            assert_eq!(parse_server_spec(text, MultiAddress::Disabled), Err(message), "{text:?}");
        }
        assert_eq!(
            parse_server_spec("a:1:2:observer|b:1:2:participant", MultiAddress::Enabled),
            Err("its addresses name different roles".to_owned())
        );
    }
}
