//! The text of a JAAS file with DIGEST-MD5 logins.

/// A user and the password.
pub(super) struct JaasUser {
    pub(super) name: String,
    pub(super) password: String,
}

const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule required";

/// The login of a client: `Client`, or `QuorumLearner`.
pub(super) fn client_section(section: &str, user: &JaasUser) -> String {
    let (name, password) = (quoted(&user.name), quoted(&user.password));
    format!("{section} {{\n    {MODULE}\n    username={name}\n    password={password};\n}};\n")
}

/// The users that may log in: `Server`, or `QuorumServer`.
pub(super) fn server_section(section: &str, users: &[JaasUser]) -> String {
    let options: Vec<String> =
        users.iter().map(|user| format!("    user_{}={}", user.name, quoted(&user.password))).collect();
    format!("{section} {{\n    {MODULE}\n{};\n}};\n", options.join("\n"))
}

/// Whether `user_NAME` is one word of a JAAS file.
pub(super) fn is_option_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-.".contains(letter))
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
