//! The grammar of one `server.N` value: `host:quorumPort:electionPort[:role][|…][;[client][;[secure]]]`.
//! Knows the form of a line, not how lines belong together.

use super::{HostPort, Member, MemberRole as Role, PeerAddress};

/// Whether a member may have more than one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    /// One.
    One,
    /// One or more, separated by `|`.
    Many,
}

/// Reads one value.
///
/// # Errors
/// A sentence that says what is wrong and what the form is.
pub fn parse_member(value: &str, addresses: Addresses) -> Result<Member, String> {
    let mut parts = value.split(';').map(str::trim);
    let peers = parts.next().unwrap_or_default();
    let client = parts.next().filter(|part| !part.is_empty()).map(parse_client).transpose()?;
    let secure_client = parts.next().filter(|part| !part.is_empty()).map(parse_client).transpose()?;
    if parts.any(|part| !part.is_empty()) {
        return Err(wrong_form("it has more than three parts separated by ;"));
    }
    let parsed = peers.split('|').map(|peer| parse_peer(peer.trim())).collect::<Result<Vec<_>, _>>()?;
    if parsed.len() > 1 && addresses == Addresses::One {
        return Err("it has several addresses; set multiAddress.enabled=true to allow that".to_owned());
    }
    let mut role = None;
    for said in parsed.iter().filter_map(|(_, role)| *role) {
        if role.is_some_and(|earlier| earlier != said) {
            return Err("its addresses name different roles".to_owned());
        }
        role = Some(said);
    }
    Ok(Member {
        addresses: parsed.into_iter().map(|(address, _)| address).collect(),
        role: role.unwrap_or(Role::Participant),
        client,
        secure_client,
    })
}

/// Reads a role in any case.
pub fn parse_role(text: &str) -> Option<Role> {
    match text.trim().to_ascii_lowercase().as_str() {
        "participant" => Some(Role::Participant),
        "observer" => Some(Role::Observer),
        _ => None,
    }
}

fn parse_peer(text: &str) -> Result<(PeerAddress, Option<Role>), String> {
    let (host, rest) = split_host(text)?;
    let parts: Vec<&str> = rest.split(':').collect();
    let (quorum, election, role) = match parts[..] {
        [quorum, election] => (quorum, election, None),
        [quorum, election, role] => (quorum, election, Some(role)),
        _ => return Err(wrong_form(&format!("\"{text}\" does not have 3 or 4 parts"))),
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

/// A bare port stands for every interface.
fn parse_client(text: &str) -> Result<HostPort, String> {
    if text.chars().all(|c| c.is_ascii_digit()) {
        return Ok(HostPort { host: "0.0.0.0".to_owned(), port: parse_port(text)? });
    }
    let (host, port) = split_host(text)?;
    Ok(HostPort { host, port: parse_port(port)? })
}

/// The host without its brackets, and what follows its colon.
fn split_host(text: &str) -> Result<(String, &str), String> {
    let split = match text.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) =
                inner.split_once(']').ok_or_else(|| wrong_form(&format!("\"{text}\" lacks a ]")))?;
            rest.strip_prefix(':').map(|rest| (host, rest))
        }
        None => text.split_once(':'),
    };
    match split {
        Some((host, rest)) if !host.trim().is_empty() && !rest.is_empty() => {
            Ok((host.trim().to_owned(), rest))
        }
        Some(_) | None => Err(wrong_form(&format!("\"{text}\" lacks a host or a port"))),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let text = text.trim();
    match text.parse::<u16>() {
        Ok(port) if port > 0 && text.starts_with(|c: char| c.is_ascii_digit()) => Ok(port),
        _ => Err(format!("\"{text}\" is not a port; allowed: 1 to 65535")),
    }
}

fn wrong_form(what: &str) -> String {
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
        let plain = parse_member("zk1:2888:3888", Addresses::One).unwrap();
        let expected = Member {
            addresses: vec![peer("zk1", 2888, 3888)],
            role: Role::Participant,
            client: None,
            secure_client: None,
        };
        assert_eq!(plain, expected);
        let full =
            parse_member("10.0.0.1:2888:3888:Observer ; 127.0.0.1:2181 ; 2281", Addresses::One).unwrap();
        assert_eq!((full.role, full.client), (Role::Observer, client("127.0.0.1", 2181)));
        assert_eq!(full.secure_client, client("0.0.0.0", 2281));
        let secure_only = parse_member("a:1:2;;2281", Addresses::One).unwrap();
        assert_eq!((secure_only.client, secure_only.secure_client), (None, client("0.0.0.0", 2281)));
        let version_6 = parse_member("[2001:db8::1]:2888:3888;[::]:2181", Addresses::One).unwrap();
        assert_eq!(version_6.addresses, [peer("2001:db8::1", 2888, 3888)]);
        assert_eq!(version_6.client, client("::", 2181));
        let many = parse_member("a:1:2|b:3:4:observer", Addresses::Many).unwrap();
        assert_eq!(many.addresses, [peer("a", 1, 2), peer("b", 3, 4)]);
        assert_eq!(many.role, Role::Observer);
        assert_eq!(parse_member("a:1:2;", Addresses::One).unwrap().client, None);
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
            assert_eq!(parse_member(text, Addresses::One), Err(message), "{text:?}");
        }
        assert_eq!(
            parse_member("a:1:2:observer|b:1:2:participant", Addresses::Many),
            Err("its addresses name different roles".to_owned())
        );
    }
}
