//! The text of an event: ZooKeeper's line, or a JSON object. Values of clients are escaped, so that no client
//! can forge a line.

use std::fmt::Write;

use zebu_proto::client::create::CreateMode;
use zebu_proto::{Acl, Id, Permissions};

use super::event::{AuditEvent, AuditResult, AuditUser};

/// The level of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditLevel {
    /// Successes.
    Info,
    /// Failures.
    Error,
}

impl AuditLevel {
    /// The word in the line.
    pub fn name(self) -> &'static str {
        match self {
            AuditLevel::Info => "INFO",
            AuditLevel::Error => "ERROR",
        }
    }
}

impl AuditEvent {
    /// The level of the line.
    pub fn level(&self) -> AuditLevel {
        match self.result {
            AuditResult::Failure => AuditLevel::Error,
            AuditResult::Success | AuditResult::Invoked => AuditLevel::Info,
        }
    }

    /// The message of ZooKeeper's line: `key=value` pairs between tabs. `server_user` is the user of the
    /// server's own events.
    pub fn text(&self, server_user: &str) -> String {
        let mut line = TextLine(String::with_capacity(160));
        if let Some(session) = self.session {
            line.push("session", format_args!("{:#x}", session.0));
        }
        line.push("user", escape(&self.users(server_user).join(",")));
        if let Some(address) = self.address() {
            line.push("ip", escape(address));
        }
        line.push("operation", self.operation.name());
        if let Some(path) = &self.path {
            line.push("znode", escape(path));
        }
        if let Some(node_type) = self.node_type {
            line.push("znode_type", type_name(node_type));
        }
        if let Some(acl) = &self.acl {
            line.push("acl", escape(&acl_text(acl)));
        }
        line.push("result", self.result.name());
        line.0
    }

    /// One JSON object without line breaks. `time` is its first value.
    pub fn json(&self, server_user: &str, time: &str) -> String {
        let mut line = JsonLine(String::with_capacity(240));
        line.push("time", time);
        line.push("level", self.level().name());
        if let Some(session) = self.session {
            line.push("session", &format!("{:#x}", session.0));
        }
        line.push_list("user", &self.users(server_user));
        if let Some(address) = self.address() {
            line.push("ip", address);
        }
        line.push("operation", self.operation.name());
        if let Some(path) = &self.path {
            line.push("znode", path);
        }
        if let Some(node_type) = self.node_type {
            line.push("znode_type", type_name(node_type));
        }
        if let Some(acl) = &self.acl {
            let entries: Vec<String> = acl.iter().map(entry_text).collect();
            line.push_list("acl", &entries.iter().map(String::as_str).collect::<Vec<_>>());
        }
        line.push("result", self.result.name());
        line.0.push('}');
        line.0
    }

    fn users<'a>(&'a self, server_user: &'a str) -> Vec<&'a str> {
        match &self.user {
            AuditUser::Server => vec![server_user],
            AuditUser::Client(credentials) => credentials.iter().filter_map(user_name).collect(),
        }
    }

    fn address(&self) -> Option<&str> {
        let AuditUser::Client(credentials) = &self.user else { return None };
        let is_address = |id: &&Id| id.scheme.as_deref() == Some("ip");
        credentials.iter().find(is_address).and_then(|id| id.id.as_deref())
    }
}

/// The name of an id whose scheme has a provider. The hash of a digest id stays secret.
fn user_name(id: &Id) -> Option<&str> {
    let name = id.id.as_deref()?;
    match id.scheme.as_deref()? {
        "digest" => Some(name.split(':').next().unwrap_or(name)),
        "ip" | "sasl" | "x509" | "ensemble" => Some(name),
        _ => None,
    }
}

fn type_name(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::Persistent => "persistent",
        CreateMode::Ephemeral => "ephemeral",
        CreateMode::PersistentSequential => "persistent_sequential",
        CreateMode::EphemeralSequential => "ephemeral_sequential",
        CreateMode::Container => "container",
        CreateMode::PersistentWithTtl => "persistent_with_ttl",
        CreateMode::PersistentSequentialWithTtl => "persistent_sequential_with_ttl",
    }
}

/// ZooKeeper puts nothing between the entries.
fn acl_text(acl: &[Acl]) -> String {
    acl.iter().map(entry_text).collect()
}

fn entry_text(entry: &Acl) -> String {
    let part = |text: &Option<Box<str>>| text.as_deref().unwrap_or("null").to_owned();
    let mut text = part(&entry.id.scheme) + ":" + &part(&entry.id.id) + ":";
    for (bit, letter) in [
        (Permissions::CREATE, 'c'),
        (Permissions::DELETE, 'd'),
        (Permissions::READ, 'r'),
        (Permissions::WRITE, 'w'),
        (Permissions::ADMIN, 'a'),
    ] {
        if entry.perms & bit != 0 {
            text.push(letter);
        }
    }
    text
}

/// Replaces everything that could end a line or a value, or that a terminal obeys.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        // Writing to a string cannot fail.
        let _ = match character {
            '\t' => out.write_str("\\t"),
            '\n' => out.write_str("\\n"),
            '\\' => out.write_str("\\\\"),
            '\u{2028}' | '\u{2029}' => write!(out, "\\u{:04x}", u32::from(character)),
            _ if character.is_control() => write!(out, "\\x{:02x}", u32::from(character)),
            _ => out.write_char(character),
        };
    }
    out
}

struct TextLine(String);

impl TextLine {
    fn push(&mut self, name: &str, value: impl std::fmt::Display) {
        let separator = if self.0.is_empty() { "" } else { "\t" };
        let _ = write!(self.0, "{separator}{name}={value}");
    }
}

struct JsonLine(String);

impl JsonLine {
    fn name(&mut self, name: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.string(name);
        self.0.push(':');
    }

    fn push(&mut self, name: &str, value: &str) {
        self.name(name);
        self.string(value);
    }

    fn push_list(&mut self, name: &str, values: &[&str]) {
        self.name(name);
        for (index, value) in values.iter().enumerate() {
            self.0.push(if index == 0 { '[' } else { ',' });
            self.string(value);
        }
        self.0.push_str(if values.is_empty() { "[]" } else { "]" });
    }

    fn string(&mut self, text: &str) {
        self.0.push('"');
        for character in text.chars() {
            let _ = match character {
                '"' | '\\' => write!(self.0, "\\{character}"),
                '\u{2028}' | '\u{2029}' => write!(self.0, "\\u{:04x}", u32::from(character)),
                _ if character.is_control() => write!(self.0, "\\u{:04x}", u32::from(character)),
                _ => self.0.write_char(character),
            };
        }
        self.0.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::AuditOperation;
    use zebu_proto::SessionId;
    use zebu_tree::Credentials;

    fn client(ids: &[(&str, &str)]) -> AuditEvent {
        let mut credentials = Credentials::of_peer([127, 0, 0, 1].into());
        ids.iter().for_each(|(scheme, id)| credentials.add(Id::new(*scheme, *id)));
        let session = Some(SessionId(0x0100_00a1_b2c3_0001));
        let (operation, result) = (AuditOperation::Create, AuditResult::Success);
        AuditEvent::of_connection(0, session, credentials, operation, result)
    }

    #[test]
    fn values_of_clients_cannot_forge_lines() {
        let path = "/a\tresult=success\nINFO user=\\root\u{1b}[0m\r\u{7f}\u{85}\u{2028}";
        let event = AuditEvent {
            path: Some(path.into()),
            acl: Some(vec![Acl::new(31, "digest", "eve\n:x")].into()),
            ..client(&[("x509", "CN=a\tb,O=c")])
        };
        assert_eq!(
            event.text("root"),
            "session=0x10000a1b2c30001\tuser=127.0.0.1,CN=a\\tb,O=c\tip=127.0.0.1\toperation=create\t\
             znode=/a\\tresult=success\\nINFO user=\\\\root\\x1b[0m\\x0d\\x7f\\x85\\u2028\t\
             acl=digest:eve\\n:x:cdrwa\tresult=success"
        );
        let json = event.json("root", "t");
        assert!(
            json.contains(r#""znode":"/a\u0009result=success\u000aINFO user=\\root\u001b[0m\u000d"#),
            "{json}"
        );
        assert!(json.contains(r#""user":["127.0.0.1","CN=a\u0009b,O=c"]"#), "{json}");
        assert!(json.contains(r#""acl":["digest:eve\u000a:x:cdrwa"]"#), "{json}");
    }

    #[test]
    fn users_are_ids_with_a_provider_and_show_no_hash() {
        let event = client(&[("digest", "eve:aGFzaA=="), ("super", "eve"), ("sasl", "bob@R"), ("own", "x")]);
        assert!(event.text("root").contains("\tuser=127.0.0.1,eve,bob@R\t"), "{}", event.text("root"));
        let start = AuditEvent::of_server(0, AuditOperation::ServerStart, AuditResult::Success);
        assert_eq!(start.text("root"), "user=root\toperation=serverStart\tresult=success");
        assert_eq!(
            start.json("root", "t"),
            r#"{"time":"t","level":"INFO","user":["root"],"operation":"serverStart","result":"success"}"#
        );
    }
}
