//! The zkCli script: its grammar, and the comparison of a command's output with the lines under it.

use anyhow::bail;

use super::pattern::matches;

/// A command and what must come of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Line of the script, for messages.
    pub(crate) line: usize,
    pub(crate) command: String,
    pub(crate) output: Output,
    /// Watch events that must arrive from this command on.
    pub(crate) events: Vec<String>,
}

/// What a command must print.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Output {
    /// Whatever Apache's server makes it print.
    #[default]
    AsWithApache,
    /// The whole output, as patterns.
    Lines(Vec<String>),
}

/// Reads the script; `$ROOT` becomes `root`.
pub(crate) fn parse(text: &str, root: &str) -> anyhow::Result<Vec<Exchange>> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end().replace("$ROOT", root);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((output, command)) = command_of(&line) {
            let (line, command) = (index + 1, command.to_owned());
            exchanges.push(Exchange { line, command, output, events: Vec::new() });
            continue;
        }
        let Some(exchange) = exchanges.last_mut() else {
            bail!("line {} of the script comes before any command", index + 1);
        };
        match (line.strip_prefix("! "), &mut exchange.output) {
            (Some(event), _) => exchange.events.push(event.to_owned()),
            (None, Output::Lines(lines)) => lines.push(line),
            (None, Output::AsWithApache) => {
                bail!("line {} of the script: a command after >> has no lines of its own", index + 1)
            }
        }
    }
    Ok(exchanges)
}

fn command_of(line: &str) -> Option<(Output, &str)> {
    match (line.strip_prefix(">> "), line.strip_prefix("> ")) {
        (Some(command), _) => Some((Output::AsWithApache, command)),
        (None, Some(command)) => Some((Output::Lines(Vec::new()), command)),
        (None, None) => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_commands_outputs_and_events() {
        let text = "# why\n\n> create $ROOT x\nCreated $ROOT\n! WatchedEvent *\n> set $ROOT y\n>> ls $ROOT\n";
        let exchanges = parse(text, "/r").unwrap();
        assert_eq!(exchanges.len(), 3);
        assert_eq!(exchanges[0].command, "create /r x");
        assert_eq!(exchanges[0].output, Output::Lines(vec!["Created /r".to_owned()]));
        assert_eq!(exchanges[0].events, ["WatchedEvent *"]);
        assert_eq!((exchanges[1].line, &exchanges[1].output), (6, &Output::Lines(Vec::new())));
        assert_eq!((&*exchanges[2].command, &exchanges[2].output), ("ls /r", &Output::AsWithApache));
        assert!(parse(">> ls /\n[zookeeper]\n", "/r").is_err());
        assert!(parse("Created /r\n", "/r").is_err());
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
