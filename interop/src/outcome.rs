//! The lines by which `cargo xtask interop` counts tests, and how a command ends. interop/README.md describes
//! them.

use std::process::ExitCode;

/// How a test or a command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Good,
    Bad,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        match ending {
            Ending::Good => ExitCode::SUCCESS,
            Ending::Bad => ExitCode::FAILURE,
        }
    }
}

/// Says that a test passed.
pub(crate) fn ok(name: &str) -> Ending {
    println!("ok {name}");
    Ending::Good
}

/// Says that a test failed, and why; what does not fit into the line stands before it.
pub(crate) fn not_ok(name: &str, fault: &anyhow::Error) -> Ending {
    let whole = format!("{fault:#}");
    println!("{whole}");
    println!("{}", not_ok_line(name, &whole));
    Ending::Bad
}

fn not_ok_line(name: &str, whole: &str) -> String {
    let words: Vec<&str> = whole.split_whitespace().collect();
    let reason: String = words.join(" ").chars().take(300).collect();
    format!("not ok {name}: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line() {
        let line = not_ok_line("cycle 3", "2 differences:\n  /a is gone\n  /b has version 3");
        assert_eq!(line, "not ok cycle 3: 2 differences: /a is gone /b has version 3");
        assert!(not_ok_line("cycle 3", &"x\n".repeat(10_000)).len() < 400);
    }
}
