//! What the tab key offers: names of commands, options of a command, paths of the server. Pure; how children
//! are listed is the caller's.

use super::flags::Flag;
use super::table;

/// What can stand where the cursor is: where the word begins, and the words that fit.
pub(crate) fn complete(
    line: &str,
    position: usize,
    children: impl FnOnce(&str) -> Vec<String>,
) -> (usize, Vec<String>) {
    let before = line.get(..position).unwrap_or(line);
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let start = before[start..].find(|c| !char::is_whitespace(c)).map_or(start, |skip| start + skip);
    let word = &before[start..];
    if before[..start].trim().is_empty() {
        return (start, commands(word));
    }
    let name = before.split_whitespace().next().unwrap_or_default();
    if name == "help" {
        return (start, commands(word));
    }
    if word.starts_with('-') {
        return (start, options(name, word));
    }
    match word.rfind('/') {
        Some(slash) if word.starts_with('/') => (start, paths(word, slash, children)),
        _ => (start, Vec::new()),
    }
}

fn commands(prefix: &str) -> Vec<String> {
    table::sorted()
        .map(|entry| entry.name)
        .filter(|name| name.starts_with(prefix))
        .map(str::to_owned)
        .collect()
}

fn options(command: &str, prefix: &str) -> Vec<String> {
    let spelled = |flag: &Flag| format!("-{}", flag.name);
    let flags = table::find(command).map(|entry| entry.flags).unwrap_or_default();
    let own = flags.iter().map(spelled).chain(["--json".to_owned()]);
    own.filter(|option| option.starts_with(prefix)).collect()
}

fn paths(word: &str, slash: usize, children: impl FnOnce(&str) -> Vec<String>) -> Vec<String> {
    let parent = if slash == 0 { "/" } else { &word[..slash] };
    let prefix = &word[slash + 1..];
    let mut names = children(parent);
    // A name with control characters cannot be typed, and must not reach the terminal.
    names.retain(|name| name.starts_with(prefix) && !name.contains(char::is_control));
    names.sort_unstable();
    names.into_iter().map(|name| format!("{}/{name}", &word[..slash])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> (usize, Vec<String>) {
        complete(line, line.len(), |parent| match parent {
            "/" => vec!["zookeeper".to_owned(), "apps".to_owned(), "apple".to_owned()],
            "/apps" => vec!["shop".to_owned()],
            _ => Vec::new(),
        })
    }

    #[test]
    fn commands_options_and_paths() {
        assert_eq!(offered("getA"), (0, vec!["getAcl".to_owned(), "getAllChildrenNumber".to_owned()]));
        assert_eq!(offered("  qu"), (2, vec!["quit".to_owned()]));
        assert_eq!(offered("help wh"), (5, vec!["whoami".to_owned()]));
        assert_eq!(offered("ls /ap"), (3, vec!["/apple".to_owned(), "/apps".to_owned()]));
        assert_eq!(offered("ls -s /apps/"), (6, vec!["/apps/shop".to_owned()]));
        assert_eq!(
            offered("get -x -"),
            (7, ["-b", "-l", "-s", "-w", "-x", "--json"].map(str::to_owned).to_vec())
        );
        assert_eq!(offered("ls x"), (3, Vec::new()));
        assert_eq!(offered("ls /none/"), (3, Vec::new()));
    }

    #[test]
    fn the_cursor_may_stand_in_the_line() {
        let (start, words) = complete("ls /ap -s", 6, |_| vec!["apps".to_owned()]);
        assert_eq!((start, words), (3, vec!["/apps".to_owned()]));
        assert_eq!(complete("", 0, |_| Vec::new()).1.len(), table::sorted().count());
    }
}
