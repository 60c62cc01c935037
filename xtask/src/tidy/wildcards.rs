//! A `match` on a protocol enum names its variants, so that a new variant needs a decision at each place. The
//! rule finds a plain `_ =>` beside arms that name a variant of a listed enum. It reads lines as rustfmt
//! writes them and does not parse; patterns that span several lines may escape it.
//!
//! A line above the arm that begins with `// Wildcard:` and gives a reason excuses it.

use super::Violation;
use super::count_ratchet::{self, CountRatchet, Findings};
use super::source::SourceFile;

/// Where the counts of older arms stand.
pub(crate) const RATCHET_FILE: &str = "xtask/wildcard-ratchet.txt";

const RATCHET: CountRatchet = CountRatchet {
    file: RATCHET_FILE,
    why: "a new variant of a protocol enum must be a compile error at each place that decides about it",
};

const CRATES: [&str; 4] = ["crates/zab", "crates/node", "crates/runtime", "crates/server"];

const ENUMS: [&str; 32] = [
    "Action",
    "ActiveRole",
    "ClientEvent",
    "CommitItem",
    "ConfigEffect",
    "ConnectionPhase",
    "ControlEvent",
    "DisconnectReason",
    "DiskCommand",
    "DiskEvent",
    "DiskOutcome",
    "Effect",
    "ElectionEffect",
    "ElectorState",
    "HandlerStep",
    "LeaderStep",
    "LearnerStep",
    "NodeRole",
    "OpCode",
    "Packet",
    "PeerEffect",
    "PeerEvent",
    "ReadRequest",
    "Request",
    "RequestKind",
    "RequestOrigin",
    "ServeEffect",
    "ServerState",
    "ServingMode",
    "ServingRole",
    "Txn",
    "TxnOutcome",
];

const EXCUSE: &str = "// Wildcard:";

/// Checks the shipped files against the ratchet.
pub(crate) fn check(files: &[SourceFile], ratchet: &str) -> Vec<Violation> {
    RATCHET.check(&findings(files), ratchet)
}

/// The ratchet with lower counts; never with higher ones.
pub(crate) fn lowered(files: &[SourceFile], ratchet: &str) -> String {
    count_ratchet::lowered(&findings(files), ratchet)
}

fn findings(files: &[SourceFile]) -> Findings {
    let mut found = Findings::new();
    for file in files {
        let Some(unit) = CRATES.iter().find(|unit| file.path.starts_with(&format!("{unit}/src/"))) else {
            continue;
        };
        let code = file.shipped_code();
        let lines: Vec<&str> = code.lines().collect();
        let texts: Vec<&str> = file.text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with("_ =>") || is_excused(&texts, index) {
                continue;
            }
            if let Some(name) = protocol_enum_beside(&lines, index) {
                let place = format!("{}:{}", file.path, index + 1);
                found
                    .entry((*unit).to_owned())
                    .or_default()
                    .push((place, format!("`_ =>` in a match on {name}")));
            }
        }
    }
    found
}

fn is_excused(texts: &[&str], index: usize) -> bool {
    let above = texts[..index].iter().rev().take_while(|line| line.trim_start().starts_with("//"));
    above.into_iter().any(|line| line.trim_start().starts_with(EXCUSE))
}

/// The listed enum that an arm of the same match names. The wildcard is the last arm of its match.
fn protocol_enum_beside(lines: &[&str], index: usize) -> Option<&'static str> {
    let indent = indent_of(lines[index]);
    lines[..index]
        .iter()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take_while(|line| indent_of(line) >= indent)
        .filter(|line| indent_of(line) == indent)
        .find_map(|line| {
            let pattern = line.split("=>").next().unwrap_or_default();
            ENUMS.into_iter().find(|name| names_variant(pattern, name))
        })
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

fn names_variant(pattern: &str, name: &str) -> bool {
    let follows =
        |at: usize| pattern[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    pattern.match_indices(&format!("{name}::")).any(|(at, _)| !follows(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, arms: &[&str]) -> Vec<SourceFile> {
        let arms: String = arms.iter().map(|arm| format!("        {arm}\n")).collect();
        vec![SourceFile::new(path, &format!("fn f() {{\n    match x {{\n{arms}    }}\n}}\n"))]
    }

    fn node(arms: &[&str]) -> Vec<SourceFile> {
        file("crates/node/src/a.rs", arms)
    }

    #[test]
    fn a_wildcard_beside_a_protocol_variant_is_found() {
        for arm in ["Packet::Ping { zxid } => {", "Some(Packet::Sync) => 1,", "(Effect::Peer(_), _) => 1,"] {
            assert_eq!(check(&node(&[arm, "_ => 2,"]), "").len(), 1, "{arm}");
        }
        let with_body = ["Packet::Sync => {", "    other::call();", "}", "_ => {}"];
        assert_eq!(check(&node(&with_body), "").len(), 1);
    }

    #[test]
    fn other_matches_and_other_crates_are_left_alone() {
        for arm in ["Some(3) => 1,", "PacketSize::Small => 1,", "1 => Packet::Sync,"] {
            assert_eq!(check(&node(&[arm, "_ => 2,"]), ""), [], "{arm}");
        }
        assert_eq!(check(&node(&["Packet::Sync => 1,", "Packet::UpToDate => 2,"]), ""), []);
        assert_eq!(check(&node(&["Packet::Sync => match y {", "    _ => 1,", "},"]), ""), []);
        assert_eq!(check(&file("crates/sim/src/a.rs", &["Packet::Sync => 1,", "_ => 2,"]), ""), []);
    }

    #[test]
    fn a_reason_excuses_an_arm() {
        let excused = ["OpCode::Create => 1,", "// Wildcard: the others have no body.", "_ => 2,"];
        assert_eq!(check(&node(&excused), ""), []);
        assert_eq!(check(&node(&["OpCode::Create => 1,", "// The others.", "_ => 2,"]), "").len(), 1);
    }

    #[test]
    fn a_count_may_only_fall() {
        let files = node(&["Packet::Sync => 1,", "_ => 2,"]);
        assert_eq!(check(&files, "crates/node 1\n"), []);
        assert_eq!(check(&files, "crates/node 2\n").len(), 1);
        assert_eq!(lowered(&files, "# why\ncrates/node 2\n"), "# why\ncrates/node 1\n");
    }
}
