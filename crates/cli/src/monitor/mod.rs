//! A look at servers again and again, by their four-letter words: no session, no right to read anything.

mod roles;
pub(crate) mod sample;
pub(crate) mod top;
mod view;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zebu_client::TlsConnector;

use crate::console::{begin, print_line};
use roles::Role;
use sample::Sample;
use view::Row;
pub(crate) use view::align;

/// How often to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looks {
    Once,
    Every(Duration),
}

/// The form of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
}

/// Looks and shows, until it is stopped. True if every server served at the last look.
pub(crate) fn run(addresses: &[String], tls: Option<&TlsConnector>, looks: Looks, form: Form) -> bool {
    let mut before: Vec<Option<Sample>> = vec![None; addresses.len()];
    loop {
        let started = Instant::now();
        let rows = look(addresses, tls, &mut before);
        show(&rows, looks, form);
        match looks {
            Looks::Once => return rows.iter().all(|row| row.state.is_ok()),
            Looks::Every(pause) => std::thread::sleep(pause.saturating_sub(started.elapsed())),
        }
    }
}

/// Shows once who is what in an ensemble. True if all serve and one leads.
pub(crate) fn show_roles(addresses: &[String], tls: Option<&TlsConnector>, form: Form) -> bool {
    let answers = ask_all(addresses, tls);
    let roles: Vec<Role> = addresses
        .iter()
        .zip(answers)
        .map(|(address, state)| Role { address: address.clone(), state })
        .collect();
    match form {
        Form::Table => begin(&roles::table(&roles)),
        Form::Json => print_line(format!("{:#}", roles::json(&roles, &now()))),
    }
    roles::verdict(&roles).is_ok()
}

/// Asks all servers at once: a slow one does not hold up the others.
pub(crate) fn ask_all(addresses: &[String], tls: Option<&TlsConnector>) -> Vec<Result<Sample, String>> {
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            addresses.iter().map(|address| scope.spawn(move || sample::take(address, tls))).collect();
        asked
            .into_iter()
            .map(|one| one.join().unwrap_or_else(|_| Err("the question failed".to_owned())))
            .collect()
    })
}

fn look(addresses: &[String], tls: Option<&TlsConnector>, before: &mut [Option<Sample>]) -> Vec<Row> {
    let answers = ask_all(addresses, tls);
    let rows = addresses.iter().zip(answers).zip(before);
    rows.map(|((address, state), last)| {
        let rate = state.as_ref().ok().zip(last.as_ref()).and_then(|(now, last)| view::rate(last, now));
        *last = state.as_ref().ok().cloned();
        Row { address: address.clone(), state, rate }
    })
    .collect()
}

pub(crate) fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn show(rows: &[Row], looks: Looks, form: Form) {
    let now = now();
    if form == Form::Json {
        print_line(view::json(rows, &now).to_string());
        return;
    }
    match looks {
        Looks::Once => begin(&view::table(rows)),
        Looks::Every(_) if std::io::stdout().is_terminal() => {
            begin(&format!("\x1b[H\x1b[J{now}  (Ctrl-C ends)\n\n{}", view::table(rows)));
        }
        Looks::Every(_) => begin(&format!("{now}\n{}\n", view::table(rows))),
    }
}
