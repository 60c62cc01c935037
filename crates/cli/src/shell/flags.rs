//! Parses the options of a command by the rules of zkCli: options may be anywhere, single letters may be
//! joined, a value may follow directly or after `=`. The commands own the meaning of the options.

/// An option that a command knows; its name is without dashes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag {
    pub(crate) name: &'static str,
    pub(crate) takes_value: bool,
    /// For the command's help.
    pub(crate) about: &'static str,
    /// Whether zkCli lacks it. The usage text of a command has the options of zkCli only.
    pub(crate) is_own: bool,
}

/// An option without a value.
pub(crate) const fn switch(name: &'static str, about: &'static str) -> Flag {
    Flag { name, takes_value: false, about, is_own: false }
}

/// An option without a value that zkCli lacks.
pub(crate) const fn own_switch(name: &'static str, about: &'static str) -> Flag {
    Flag { name, takes_value: false, about, is_own: true }
}

/// An option with a value.
pub(crate) const fn value(name: &'static str, about: &'static str) -> Flag {
    Flag { name, takes_value: true, about, is_own: false }
}

/// An option with a value that zkCli lacks.
pub(crate) const fn own_value(name: &'static str, about: &'static str) -> Flag {
    Flag { name, takes_value: true, about, is_own: true }
}

/// An error in the options, with the text of zkCli.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagError {
    #[error("org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: {0}")]
    Unknown(String),
    #[error("org.apache.commons.cli.MissingArgumentException: Missing argument for option: {0}")]
    NoValue(&'static str),
    #[error(
        "org.apache.commons.cli.AlreadySelectedException: The option '{second}' was specified but an option \
         from this group has already been selected: '{first}'"
    )]
    Exclusive { first: &'static str, second: &'static str },
}

/// The parsed words of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// The options in the order of the command line.
    options: Vec<(&'static str, Option<String>)>,
    /// The arguments that are no options.
    pub(crate) words: Vec<String>,
}

impl Given {
    /// Whether an option was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(given, _)| *given == name)
    }

    /// The first value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(given, _)| *given == name);
        found.and_then(|(_, value)| value.as_deref())
    }

    /// A word that is no option, by its place.
    pub(crate) fn word(&self, index: usize) -> Option<&str> {
        self.words.get(index).map(String::as_str)
    }

    /// The option of a group that was given; two different ones are an error.
    pub(crate) fn one_of(&self, group: &[&str]) -> Result<Option<&'static str>, FlagError> {
        let mut chosen = None;
        for (name, _) in self.options.iter().filter(|(name, _)| group.contains(name)) {
            match chosen {
                Some(first) if first != *name => return Err(FlagError::Exclusive { first, second: name }),
                Some(_) | None => chosen = Some(*name),
            }
        }
        Ok(chosen)
    }
}

/// Separates options and other words.
pub(crate) fn parse(words: &[String], known: &[Flag]) -> Result<Given, FlagError> {
    let mut given = Given::default();
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            given.words.extend(words.by_ref().cloned());
            break;
        }
        if !word.starts_with('-') || word == "-" {
            given.words.push(word.clone());
            continue;
        }
        let waiting = read_option(word, known, &mut given)?;
        let Some(name) = waiting else { continue };
        let value = words.next_if(|next| is_value(next, known)).ok_or(FlagError::NoValue(name))?;
        given.options.push((name, Some(value.clone())));
    }
    Ok(given)
}

/// Parses one word of options. Returns the option whose value must be the next word.
fn read_option(word: &str, known: &[Flag], given: &mut Given) -> Result<Option<&'static str>, FlagError> {
    let unknown = || FlagError::Unknown(word.to_owned());
    let find = |name: &str| known.iter().find(|flag| flag.name == name);
    let body = word.strip_prefix("--").unwrap_or(&word[1..]);
    if let Some(flag) = find(body) {
        if flag.takes_value {
            return Ok(Some(flag.name));
        }
        given.options.push((flag.name, None));
        return Ok(None);
    }
    if let Some((name, value)) = body.split_once('=')
        && let Some(flag) = find(name).filter(|flag| flag.takes_value)
    {
        given.options.push((flag.name, Some(value.to_owned())));
        return Ok(None);
    }
    if word.starts_with("--") {
        return Err(unknown());
    }
    for (at, letter) in body.char_indices() {
        let flag = find(letter.encode_utf8(&mut [0; 4])).ok_or_else(unknown)?;
        let after = &body[at + letter.len_utf8()..];
        if !flag.takes_value {
            given.options.push((flag.name, None));
            continue;
        }
        if after.is_empty() {
            return Ok(Some(flag.name));
        }
        given.options.push((flag.name, Some(after.to_owned())));
        break;
    }
    Ok(None)
}

/// Whether a word can be the value of the option before it: anything but another known option.
fn is_value(word: &str, known: &[Flag]) -> bool {
    let Some(body) = word.strip_prefix('-').filter(|body| !body.is_empty()) else { return true };
    if word.parse::<f64>().is_ok() {
        return true;
    }
    let body = body.strip_prefix('-').unwrap_or(body);
    let name = body.split('=').next().unwrap_or(body);
    let first = body.chars().next().map(String::from).unwrap_or_default();
    !known.iter().any(|flag| flag.name == name || (!word.starts_with("--") && flag.name == first))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Flag] =
        &[switch("s", ""), switch("w", ""), value("v", ""), value("file", ""), switch("json", "")];

    fn read(line: &str) -> Result<Given, FlagError> {
        parse(&super::super::words::split(line), KNOWN)
    }

    #[test]
    fn options_stand_anywhere_and_may_be_joined() {
        for line in ["-s -v 3 /a x", "/a -s x -v 3", "-sv3 /a x", "-v=3 /a -s x", "/a x -sv 3"] {
            let given = read(line).unwrap();
            assert!(given.has("s") && !given.has("w"), "{line}");
            assert_eq!((given.value("v"), given.words.join(" ")), (Some("3"), "/a x".to_owned()), "{line}");
        }
        assert!(read("-file /x --json").unwrap().has("json"));
        assert_eq!(read("-- -s").unwrap().words, ["-s"]);
        assert_eq!(read("-").unwrap().words, ["-"]);
    }

    #[test]
    fn values_may_be_negative_but_not_options() {
        assert_eq!(read("-v -1 /a").unwrap().value("v"), Some("-1"));
        assert_eq!(read("-v -s /a"), Err(FlagError::NoValue("v")));
        assert_eq!(read("/a -v"), Err(FlagError::NoValue("v")));
    }

    #[test]
    fn mistakes_are_told_in_the_known_words() {
        let text = |line| read(line).unwrap_err().to_string();
        assert_eq!(text("-z"), "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -z");
        assert!(text("-sz").ends_with("Unrecognized option: -sz"));
        assert!(text("/a -5").ends_with("Unrecognized option: -5"));
        assert!(text("--long").ends_with("Unrecognized option: --long"));
        let given = read("-s -w").unwrap();
        assert_eq!(given.one_of(&["s", "w"]), Err(FlagError::Exclusive { first: "s", second: "w" }));
        assert_eq!(given.one_of(&["v"]), Ok(None));
    }
}
