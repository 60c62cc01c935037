//! Tables that people can read in a terminal and paste into a document.

use std::fmt;

/// A Markdown table with columns as wide as they need.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(head: [&str; N]) -> Table {
        Table { rows: vec![head.map(str::to_owned).to_vec()] }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (index, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                match column {
                    0 => write!(f, "| {cell:<width$} ", width = widths[column])?,
                    _ => write!(f, "| {cell:>width$} ", width = widths[column])?,
                }
            }
            writeln!(f, "|")?;
            if index == 0 {
                for (column, width) in widths.iter().enumerate() {
                    let colon = if column == 0 { "-" } else { ":" };
                    write!(f, "|{}{colon}", "-".repeat(width + 1))?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

/// A figure with about three digits that mean something.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.2}"),
        medium if medium < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A part of one.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// How many times `more` is of `less`.
pub(crate) fn ratio(more: f64, less: f64) -> String {
    if less > 0.0 { format!("{:.1}x", more / less) } else { "-".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = Table::new(["load", "us"]);
        table.row(["get".to_owned(), figure(12.34)]);
        assert_eq!(table.to_string(), "| load |   us |\n|------|-----:|\n| get  | 12.3 |\n");
        assert_eq!((figure(1.234), figure(1234.5)), ("1.23".to_owned(), "1234".to_owned()));
        assert_eq!((ratio(3.0, 2.0), ratio(1.0, 0.0)), ("1.5x".to_owned(), "-".to_owned()));
    }
}
