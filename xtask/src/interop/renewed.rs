//! The table of the document with some of its rows renewed: what other suites have left there stays as it is.
//! It reads the form that `table.rs` writes and decides nothing about results.

/// Puts the rows of a table over some suites into a table over all. `order` is that of the suites.
pub(crate) fn renewed(old: &str, new: &str, order: &[&str], suites: &[&str]) -> String {
    let (old, new) = (Parts::read(old), Parts::read(new));
    let mut lines = vec![HEAD[0].to_owned(), HEAD[1].to_owned()];
    for suite in order {
        let row = |rows: &[String]| rows.iter().find(|row| first_cell(row) == format!("`{suite}`")).cloned();
        lines.extend(if suites.contains(suite) { row(&new.suites) } else { row(&old.suites) });
    }
    lines.push(String::new());
    lines.push(sentence(&old.sentence, &new.sentence));
    let is_old = |row: &&String| !suites.iter().any(|suite| first_cell(row).contains(&format!("`{suite}`")));
    let deviations: Vec<String> =
        old.deviations.iter().filter(is_old).chain(&new.deviations).cloned().collect();
    if !deviations.is_empty() {
        lines.extend(["", "The allowed deviations:", "", DEVIATIONS[0], DEVIATIONS[1]].map(str::to_owned));
        lines.extend(deviations);
    }
    lines.join("\n") + "\n"
}

pub(crate) const HEAD: [&str; 2] = [
    "| Suite | Version | Passed | Failed | Allowed deviations | Skipped | Passed with Apache |",
    "|---|---|---|---|---|---|---|",
];
pub(crate) const DEVIATIONS: [&str; 2] = ["| Suite | Test | Times | Reason |", "|---|---|---|---|"];

/// What stands before the days of the runs.
const DAYS: &str = "Each row is the newest full run of its suite (";

#[derive(Default)]
struct Parts {
    suites: Vec<String>,
    sentence: String,
    deviations: Vec<String>,
}

impl Parts {
    fn read(text: &str) -> Parts {
        let mut parts = Parts::default();
        for line in text.lines().filter(|line| !HEAD.contains(line) && !DEVIATIONS.contains(line)) {
            if line.starts_with(DAYS) {
                line.clone_into(&mut parts.sentence);
            } else if line.starts_with("| ") {
                let rows = if parts.sentence.is_empty() { &mut parts.suites } else { &mut parts.deviations };
                rows.push(line.to_owned());
            }
        }
        parts
    }
}

fn first_cell(row: &str) -> &str {
    row.trim_start_matches("| ").split(" | ").next().unwrap_or_default()
}

/// Both say from when to when, and what is to be said of the comparison with Apache.
fn sentence(old: &str, new: &str) -> String {
    let split = |text: &str| -> (Vec<String>, String) {
        let rest = text.strip_prefix(DAYS).unwrap_or_default();
        let (days, comparison) = rest.split_once("). ").unwrap_or_default();
        (days.split(" to ").map(str::to_owned).collect(), comparison.to_owned())
    };
    let ((mut days, said), (others, says)) = (split(old), split(new));
    days.extend(others);
    days.retain(|day| !day.is_empty());
    days.sort();
    let (first, last) = (days.first().cloned().unwrap_or_default(), days.last().cloned().unwrap_or_default());
    let days = if first == last { last } else { format!("{first} to {last}") };
    let comparison = if said == says { said } else { format!("{said} {says}").trim().to_owned() };
    format!("{DAYS}{days}). {comparison}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[&str], day: &str, deviations: &[&str]) -> String {
        let mut lines = HEAD.to_vec();
        lines.extend(rows);
        let sentence = format!("{DAYS}{day}). All is well.");
        lines.extend(["", &sentence]);
        if !deviations.is_empty() {
            lines.extend(["", "The allowed deviations:", "", DEVIATIONS[0], DEVIATIONS[1]]);
            lines.extend(deviations);
        }
        lines.join("\n") + "\n"
    }

    #[test]
    fn the_rows_of_other_suites_stay() {
        let old = table(
            &["| `a` | 1 | 5 | 0 | 1 | 0 | 5 |", "| `c` | 1 | 7 | 0 | 1 | 0 | 7 |"],
            "2026-03-01",
            &["| `a` | `x` | 1 | old |", "| `c`, `d` | `y` | 1 | stays |"],
        );
        let new = table(
            &["| `a` | 2 | 6 | 0 | 0 | 0 | 6 |", "| `b` | 1 | 1 | 0 | 1 | 0 | not run |"],
            "2026-04-02",
            &["| `b` | `z` | 1 | new |"],
        );
        let expected = table(
            &[
                "| `a` | 2 | 6 | 0 | 0 | 0 | 6 |",
                "| `b` | 1 | 1 | 0 | 1 | 0 | not run |",
                "| `c` | 1 | 7 | 0 | 1 | 0 | 7 |",
            ],
            "2026-03-01 to 2026-04-02",
            &["| `c`, `d` | `y` | 1 | stays |", "| `b` | `z` | 1 | new |"],
        );
        assert_eq!(renewed(&old, &new, &["a", "b", "c", "never-run"], &["a", "b"]), expected);
    }
}
