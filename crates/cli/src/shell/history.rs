//! The commands of a session by their numbers, for `history` and `redo`.

/// How many commands before the current one `history` shows.
const SHOWN: usize = 10;

/// The commands so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    lines: Vec<String>,
}

impl History {
    /// The number of the next command.
    pub(crate) fn next_number(&self) -> usize {
        self.lines.len()
    }

    /// Adds a command that is about to run.
    pub(crate) fn add(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }

    /// Puts another text in the place of the current command.
    pub(crate) fn replace_last(&mut self, line: &str) {
        if let Some(last) = self.lines.last_mut() {
            line.clone_into(last);
        }
    }

    /// A command by its number.
    pub(crate) fn get(&self, number: usize) -> Option<&str> {
        self.lines.get(number).map(String::as_str)
    }

    /// The last ones with their numbers.
    pub(crate) fn recent(&self) -> Vec<(usize, String)> {
        let first = self.lines.len().saturating_sub(SHOWN + 1);
        self.lines.iter().cloned().enumerate().skip(first).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_one_and_ten_before_it() {
        let mut history = History::default();
        (0..15).for_each(|number| history.add(&format!("ls /{number}")));
        let recent = history.recent();
        assert_eq!((recent.len(), recent[0].clone()), (11, (4, "ls /4".to_owned())));
        assert_eq!((history.get(14), history.get(15)), (Some("ls /14"), None));
        history.replace_last("get /a");
        assert_eq!((history.get(14), history.next_number()), (Some("get /a"), 15));
    }
}
