//! The references of four-letter words, error codes and exit statuses, read from the code.

use std::fmt::Write;

use anyhow::{Context, ensure};

const WORDS: &str = "crates/server/src/four_letter/word.rs";
const ERRORS: &str = "crates/proto/src/error_code.rs";
const COMMANDS: &str = "crates/cli/src/commands";

const NOTE: &str = "`cargo xtask docs` writes this page from the code.\n";

/// `docs/reference/four-letter-words.md`.
pub(super) fn four_letter_words(read: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let source = read(WORDS)?;
    let body = source.split_once("enum FourLetterWord {").context("no enum of words")?.1;
    let mut text = format!(
        "# Four-letter words\n\n{NOTE}\n\
         A word is sent as the first four bytes of a connection to a client port: `echo srvr | nc 127.0.0.1 2181`.\n\
         Only `srvr` is answered unless `4lw.commands.whitelist` lists more. `*` stands for all words but `shed`, `topn` and \
         `topp`.\nThe [admin server](../admin.md) has the same values as JSON. \
         [operations.md](../operations.md#four-letter-words) says more about single words.\n\n\
         | Word | Answer |\n|---|---|\n"
    );
    let mut meaning = String::new();
    let mut count = 0;
    for line in body.lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(comment) = line.strip_prefix("/// ") {
            meaning = if meaning.is_empty() { comment.to_owned() } else { format!("{meaning} {comment}") };
        } else if let Some(name) = line.strip_suffix(',') {
            let word = name.to_lowercase();
            if word.len() == 4 {
                ensure!(!meaning.is_empty(), "{WORDS}: {name} has no comment");
                writeln!(text, "| `{word}` | {meaning} |")?;
                count += 1;
            }
            meaning.clear();
        }
    }
    ensure!(count > 15, "{WORDS}: only {count} words were read");
    Ok(text)
}

/// `docs/reference/error-codes.md`.
pub(super) fn error_codes(read: &dyn Fn(&str) -> anyhow::Result<String>) -> anyhow::Result<String> {
    let source = read(ERRORS)?;
    let body = source.split_once("\nerror_codes! {").context("no table of errors")?.1;
    let mut text = format!(
        "# Error codes\n\n{NOTE}\n\
         These are the codes of ZooKeeper's client protocol. Java clients add `Exception` to the name; the C client\n\
         has names with a `Z`, such as `ZNONODE`.\n\n| Code | Name | Meaning |\n|---|---|---|\n"
    );
    let mut meaning = String::new();
    let mut count = 0;
    for line in body.lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(comment) = line.strip_prefix("/// ") {
            meaning = if meaning.is_empty() { comment.to_owned() } else { format!("{meaning} {comment}") };
        } else if let Some((_, rest)) = line.split_once(" = ") {
            let (code, name) = rest.split_once(',').with_context(|| format!("{ERRORS}: {line}"))?;
            let name = name.split('"').nth(1).with_context(|| format!("{ERRORS}: {line}"))?;
            writeln!(text, "| {code} | {name} | {meaning} |")?;
            meaning.clear();
            count += 1;
        }
    }
    ensure!(count > 25, "{ERRORS}: only {count} codes were read");
    Ok(text)
}

/// `docs/reference/exit-statuses.md`. `files` are the paths of the project.
pub(super) fn exit_statuses(
    files: &[String],
    read: &dyn Fn(&str) -> anyhow::Result<String>,
) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for path in files.iter().filter(|path| path.starts_with(COMMANDS) && path.ends_with(".rs")) {
        let source = read(path)?;
        let Some((_, rest)) = source.split_once("Exit status") else { continue };
        let statement = rest.split_once(".\")]").map_or(rest, |(statement, _)| statement);
        // A backslash at the end of a line joins the lines of a literal.
        let words: Vec<&str> = statement.split_whitespace().filter(|word| *word != "\\").collect();
        let joined = words.join(" ");
        let statement = match joined.strip_prefix("of ") {
            Some(rest) => format!("with `{}", rest.replacen(':', "`:", 1)),
            None => joined.trim_start_matches([':', ' ']).to_owned(),
        };
        rows.push((command_of(path), statement));
    }
    ensure!(rows.len() > 12, "only {} commands were read", rows.len());
    rows.sort();
    let mut text = format!(
        "# Exit statuses\n\n{NOTE}\n\
         `zebu COMMAND --help` says the same. [operations.md](../operations.md#exit-codes) has the statuses of a server.\n\n\
         | Command | Statuses |\n|---|---|\n"
    );
    for (command, statement) in rows {
        writeln!(text, "| `{command}` | {statement} |")?;
    }
    Ok(text)
}

/// `crates/cli/src/commands/log/verify.rs` is `zebu log verify`.
fn command_of(path: &str) -> String {
    let below = path.trim_start_matches(COMMANDS).trim_start_matches('/');
    let words: Vec<&str> = below.trim_end_matches(".rs").split('/').filter(|word| *word != "mod").collect();
    format!("zebu {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_its_command() {
        assert_eq!(command_of("crates/cli/src/commands/log/verify.rs"), "zebu log verify");
        assert_eq!(command_of("crates/cli/src/commands/check/mod.rs"), "zebu check");
    }
}
