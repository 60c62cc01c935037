//! Looks that are repeated: the loop, the table in place of the last one, and one question to all servers.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crate::console::begin;

/// How often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Once,
    Every(Duration),
}

impl Looks {
    /// Looks until the program is stopped, or once. Returns the result of the one look.
    pub(super) fn repeat(self, mut look: impl FnMut() -> bool) -> bool {
        loop {
            let started = Instant::now();
            let is_good = look();
            match self {
                Looks::Once => return is_good,
                Looks::Every(pause) => std::thread::sleep(pause.saturating_sub(started.elapsed())),
            }
        }
    }

    /// Prints a table: alone, in place of the last one on a terminal, or below its time.
    pub(super) fn show_table(self, table: &str, time: &str) {
        match self {
            Looks::Once => begin(table),
            Looks::Every(_) if std::io::stdout().is_terminal() => {
                begin(&format!("\x1b[H\x1b[J{time}  (Ctrl-C ends)\n\n{table}"));
            }
            Looks::Every(_) => begin(&format!("{time}\n{table}\n")),
        }
    }
}

/// Asks all servers at once: a slow one does not hold up the others.
pub(super) fn ask_each<T: Send>(
    addresses: &[String],
    ask: impl Fn(&str) -> Result<T, String> + Sync,
) -> Vec<Result<T, String>> {
    std::thread::scope(|scope| {
        let ask = &ask;
        let asked: Vec<_> = addresses.iter().map(|address| scope.spawn(move || ask(address))).collect();
        let failed = |_| Err("the question failed".to_owned());
        asked.into_iter().map(|one| one.join().unwrap_or_else(failed)).collect()
    })
}
