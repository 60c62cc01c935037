//! What an error path is, and where it stands: file, function and line of source. Numbers of lines are no
//! part of a place, so that it stays the same when something is written above it.

use std::fmt;

/// A piece of code: line and column where it begins and ends.
pub(super) type Region = (usize, usize, usize, usize);

/// Pieces of code that are longer have something else in them.
const LINES_MAX: usize = 12;

/// Where an error path stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) function: String,
    /// The line of source, without the space around it.
    pub(super) line: String,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}: {}", self.file, self.function, self.line)
    }
}

impl Place {
    /// Reads what `Display` wrote.
    pub(super) fn parse(text: &str) -> Option<Place> {
        let mut parts = text.splitn(3, ": ").map(|part| part.trim().to_owned());
        Some(Place { file: parts.next()?, function: parts.next()?, line: parts.next()? })
    }
}

/// The shipped part of a source file: its lines up to its tests.
#[derive(Debug)]
pub(super) struct Source {
    file: String,
    lines: Vec<String>,
}

impl Source {
    pub(super) fn new(file: &str, text: &str) -> Source {
        let shipped = text.lines().take_while(|line| *line != "#[cfg(test)]");
        Source { file: file.to_owned(), lines: shipped.map(str::to_owned).collect() }
    }

    /// The place of a line, which is counted from one.
    pub(super) fn place(&self, line: usize) -> Place {
        let above = self.lines.iter().take(line).rev();
        let function = above.filter_map(|line| function_name(line)).next().unwrap_or("-").to_owned();
        let line = self.lines.get(line - 1).map_or("", |line| line.trim()).to_owned();
        Place { file: self.file.clone(), function, line }
    }

    /// Whether there is such a place.
    pub(super) fn has(&self, place: &Place) -> bool {
        let same = |number: &usize| self.lines[number - 1].trim() == place.line;
        place.file == self.file && (1..=self.lines.len()).filter(same).any(|it| self.place(it) == *place)
    }

    /// Whether a piece of code is a `?`, or comes to nothing but an error.
    pub(super) fn is_error_arm(&self, region: Region) -> bool {
        let Some(text) = self.text(region) else { return false };
        let text = text.trim();
        text == "?" || comes_to_an_error(text)
    }

    fn text(&self, (line, column, end_line, end_column): Region) -> Option<String> {
        if line == 0 || end_line > self.lines.len() || end_line - line > LINES_MAX {
            return None;
        }
        let mut text = String::new();
        for number in line..=end_line {
            let source: Vec<char> = self.lines[number - 1].chars().collect();
            let from = if number == line { column - 1 } else { 0 };
            let to = if number == end_line { (end_column - 1).min(source.len()) } else { source.len() };
            text.extend(source.get(from..to).unwrap_or_default());
            text.push('\n');
        }
        Some(text)
    }
}

/// An error or the end of a connection, or a block that says nothing but `let` before it.
fn comes_to_an_error(text: &str) -> bool {
    const ERRORS: [&str; 6] =
        ["Err(", "return Err(", "Ok(Err(", "return Ok(Err(", "return broken(", "self.close("];
    let inner = text.strip_prefix('{').map_or(text, |inner| inner.trim_end_matches('}'));
    let mut rest = inner.trim_start();
    while rest.starts_with("let ") || rest.starts_with("//") {
        let end = if rest.starts_with("//") { "\n" } else { ";\n" };
        let Some((_, behind)) = rest.split_once(end) else { return false };
        rest = behind.trim_start();
    }
    ERRORS.iter().any(|error| rest.starts_with(error))
}

/// The name of the function that a line begins.
fn function_name(line: &str) -> Option<&str> {
    let mut words = line.trim_start().split(' ');
    if !words.by_ref().take_while(|word| !word.starts_with("//")).any(|word| word == "fn") {
        return None;
    }
    let name = words.next()?;
    name.split(['(', '<']).next()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TEXT: &str = "\
impl Log {
    // what a fn is for
    pub(crate) fn open<D: Disk>(disk: &D) -> Result<Log, Error> {
        let file = disk.open()?;
        if file.is_empty() {
            let why = \"empty\";
            return Err(Error::new(why));
        }
        Ok(Log { file })
    }

    fn close(self) -> Result<(), Error> {
        let file = disk.open()?;
        Ok(())
    }
}
#[cfg(test)]
fn test() {
    let file = disk.open()?;
}
";

    fn source() -> Source {
        Source::new("log.rs", TEXT)
    }

    #[test]
    fn a_place_has_a_file_a_function_and_a_line() {
        let open = source().place(4);
        assert_eq!(open.to_string(), "log.rs: open: let file = disk.open()?;");
        assert_eq!(source().place(13).to_string(), "log.rs: close: let file = disk.open()?;");
        assert_eq!(Place::parse(&open.to_string()), Some(open));
        assert_eq!(Place::parse("log.rs: let file = disk.open()?;"), None);
    }

    #[test]
    fn a_place_is_found_wherever_it_has_moved_and_not_in_another_function() {
        let moved = Source::new("log.rs", &format!("//! A log.\n\n{TEXT}"));
        assert!(moved.has(&source().place(4)));
        let place = |text: &str| Place::parse(text).unwrap();
        assert!(!moved.has(&place("log.rs: test: let file = disk.open()?;")), "tests are not shipped");
        assert!(!moved.has(&place("log.rs: read: let file = disk.open()?;")));
        assert!(!moved.has(&place("log.rs: open: let file = disk.create()?;")));
        assert!(!moved.has(&place("disk.rs: open: let file = disk.open()?;")));
    }

    #[test]
    fn error_arms() {
        let source = source();
        assert!(source.is_error_arm((4, 31, 4, 32)), "the question mark");
        assert!(source.is_error_arm((5, 28, 8, 10)), "the block");
        assert!(source.is_error_arm((7, 13, 7, 40)), "the statement");
        assert!(!source.is_error_arm((9, 9, 9, 26)), "the good end");
        assert!(!source.is_error_arm((4, 9, 4, 13)));
        assert!(!source.is_error_arm((18, 27, 18, 28)), "a test");
    }

    #[test]
    fn what_comes_to_an_error() {
        for text in ["Err(why)", "{ return Err(why) }", "{ return Ok(Err(None)) }", "{ // why\nErr(why)\n}"] {
            assert!(comes_to_an_error(text), "{text}");
        }
        for text in ["Ok(())", "{ return Ok(Err) }", "{ let a = b;\nOk(a)\n}", "{ work();\nErr(why)\n}"] {
            assert!(!comes_to_an_error(text), "{text}");
        }
    }
}
