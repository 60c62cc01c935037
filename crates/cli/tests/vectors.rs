//! The recorded exchanges with Apache ZooKeeper 3.9.5, played against the `zebu` binary. What Zebu does
//! differently on purpose stands in one table, with the reason.

use zebu_testing::Launch;
use zebu_testing::vectors::{self, Order, Release, Servers};

/// Vectors that Zebu does not follow.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("co_delete_by_client", "deleteContainer asks for no permission at all: it is refused for clients"),
    ("ses_wrong_password", WRONG_PASSWORD),
    ("ses_wrong_password_old", WRONG_PASSWORD),
    ("ses_null_password", WRONG_PASSWORD),
    ("ses_short_password", WRONG_PASSWORD),
    ("mr_illegal", "an error reply ends after its header; no client reads the results behind it"),
    (
        "acl_sasl_none",
        "-115 and a close end the exchange: kazoo would ask for ever, and no client gets an id",
    ),
    ("mr_paths", "an error reply ends after its header; no client reads the results behind it"),
];

const WRONG_PASSWORD: &str =
    "a stranger who does not know the password cannot close the session's connection";

#[test]
fn zebu_answers_as_recorded() {
    let mut servers = Servers::new(Launch::zebu(env!("CARGO_BIN_EXE_zebu")));
    let mut all = Vec::new();
    for file in vectors::files().unwrap() {
        all.extend(vectors::load(&file).unwrap());
    }
    let report = vectors::run_all(&mut servers, all, Release::V3_9_5, Order::File).unwrap();
    assert_eq!(report.outcomes.len(), 297, "vectors were lost");
    let excepted = |name: &str| EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
    let unexpected: Vec<String> = report
        .failures()
        .filter(|outcome| !excepted(&outcome.name))
        .map(|outcome| format!("{} ({}): {:?}", outcome.name, outcome.why, outcome.mismatch))
        .collect();
    assert!(unexpected.is_empty(), "{} vectors failed:\n{}", unexpected.len(), unexpected.join("\n"));
    for (name, reason) in EXCEPTIONS {
        let fails = report.failures().any(|outcome| outcome.name == *name);
        assert!(fails, "{name} passes now; remove its exception ({reason})");
    }
}
