//! The user of the server's own audit lines: the user of the process, by name.

use std::fs;

/// The name in the system's list of users, else the number.
pub(super) fn server_user() -> String {
    let number = rustix::process::geteuid().as_raw();
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(number, &users).map_or_else(|| number.to_string(), str::to_owned)
}

fn name_of(number: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number.to_string()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nzk:x:100:5::/:/bin/false\n";
        assert_eq!(name_of(100, users), Some("zk"));
        assert_eq!(name_of(0, users), Some("root"));
        assert_eq!(name_of(5, users), None);
    }
}
