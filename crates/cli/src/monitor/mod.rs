//! A look at servers again and again, by their four-letter words: no session, no right to read anything.

mod named_servers;
mod refresh;
pub(crate) mod roles;
pub(crate) mod sample;
pub(crate) mod top;
pub(crate) mod tree_digests;
mod view;

use jiff::Timestamp;
use zebu_client::TlsConnector;

use crate::console::{begin, print_line};
pub(crate) use named_servers::NamedServers;
pub(crate) use refresh::Looks;
use roles::Role;
use sample::Sample;
use view::Row;
pub(crate) use view::align;

/// The form of what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table,
    Json,
}

/// Looks and shows, until it is stopped. True if every server served at the last look.
pub(crate) fn run(addresses: &[String], tls: Option<&TlsConnector>, looks: Looks, form: Form) -> bool {
    let mut before: Vec<Option<Sample>> = vec![None; addresses.len()];
    looks.repeat(|| {
        let rows = look(addresses, tls, &mut before);
        show(&rows, looks, form);
        rows.iter().all(|row| row.state.is_ok())
    })
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

/// Asks all servers at once.
pub(crate) fn ask_all(addresses: &[String], tls: Option<&TlsConnector>) -> Vec<Result<Sample, String>> {
    refresh::ask_each(addresses, |address| sample::take(address, tls))
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
    match form {
        Form::Json => print_line(view::json(rows, &now).to_string()),
        Form::Table => looks.show_table(&view::table(rows), &now),
    }
}
