//! The zkCli script: its grammar, and the comparison of a command's output with the lines under it.

use anyhow::bail;

/// A command and what must come of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Line of the script, for messages.
    pub(crate) line: usize,
    pub(crate) command: String,
    /// The whole output, as patterns.
    pub(crate) output: Vec<String>,
    /// Watch events that must arrive from this command on.
    pub(crate) events: Vec<String>,
}

/// Reads the script; `$ROOT` becomes `root`.
pub(crate) fn parse(text: &str, root: &str) -> anyhow::Result<Vec<Exchange>> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end().replace("$ROOT", root);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(command) = line.strip_prefix("> ") {
            let command = command.to_owned();
            exchanges.push(Exchange { line: index + 1, command, ..Exchange::default() });
            continue;
        }
        let Some(exchange) = exchanges.last_mut() else {
            bail!("line {} of the script comes before any command", index + 1);
        };
        match line.strip_prefix("! ") {
            Some(event) => exchange.events.push(event.to_owned()),
            None => exchange.output.push(line),
        }
    }
    Ok(exchanges)
}

/// Compares the output of a command with its patterns; the error says what differs.
pub(crate) fn compare(expected: &[String], actual: &[String]) -> Result<(), String> {
    for index in 0..expected.len().max(actual.len()) {
        match (expected.get(index), actual.get(index)) {
            (Some(pattern), Some(line)) if matches(pattern, line) => {}
            (Some(pattern), Some(line)) => return Err(format!("expected {pattern:?}, got {line:?}")),
            (Some(pattern), None) => return Err(format!("expected {pattern:?}, got nothing more")),
            (None, Some(line)) => return Err(format!("expected nothing more, got {line:?}")),
            (None, None) => {}
        }
    }
    Ok(())
}

/// Whether a line fits a pattern in which `*` stands for any characters.
pub(crate) fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commands_outputs_and_events() {
        let text = "# why\n\n> create $ROOT x\nCreated $ROOT\n! WatchedEvent *\n> set $ROOT y\n";
        let exchanges = parse(text, "/r").unwrap();
        assert_eq!(exchanges.len(), 2);
        assert_eq!(exchanges[0].command, "create /r x");
        assert_eq!(exchanges[0].output, ["Created /r"]);
        assert_eq!(exchanges[0].events, ["WatchedEvent *"]);
        assert_eq!((exchanges[1].line, exchanges[1].output.len()), (6, 0));
        assert!(parse("Created /r\n", "/r").is_err());
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        assert!(matches("cZxid = 0x*", "cZxid = 0x1f"));
        assert!(matches("[*, *]", "[/a, /b]"));
        assert!(matches("*", ""));
        assert!(!matches("cZxid = 0x*", "mZxid = 0x1f"));
        assert!(!matches("hello", "hello there"));
        assert!(!matches("a*bc", "abcd"));
        assert!(!matches("ab*ba", "aba"));
    }

    #[test]
    fn output_must_be_complete_and_in_order() {
        let lines = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        assert!(compare(&lines("a b"), &lines("a b")).is_ok());
        assert_eq!(compare(&lines("a b"), &lines("a")).unwrap_err(), "expected \"b\", got nothing more");
        assert_eq!(compare(&lines("a"), &lines("a b")).unwrap_err(), "expected nothing more, got \"b\"");
        assert!(compare(&lines("a b"), &lines("b a")).is_err());
    }
}
