//! Purity of the pure parts: no async, threads, sockets, files, clock, global randomness, printing, and no
//! map whose order is random. Names of addresses and of moments are values and are welcome.

use super::Violation;
use super::paths::is_pure;
use super::source::{Form, Mention, SourceFile, mentions};

const FILES: &str = "pure code has no files: storage takes bytes to the disk";
const SOCKETS: &str = "pure code has no sockets: packets are events and actions";
const THREADS: &str = "pure code has no threads, processes or environment: the edge picks them";
const CLOCK: &str = "pure code has no clock: now is an argument, so that the simulator owns time";
const ASYNC: &str = "pure code is not async: it never waits, it names what to wait for";
const RANDOM: &str = "pure code has no global randomness: seeds are arguments, so that a run can be repeated";
const ORDER: &str = "the order of a std hash map is random: use BTreeMap, or hashbrown with a seed passed in";
const PRINTS: &str = "pure code does not print: what is worth saying is an action";

/// Paths that must not be mentioned, as segments that follow each other.
const FORBIDDEN_PATHS: [(&[&str], &str); 22] = [
    (&["std", "fs"], FILES),
    (&["std", "thread"], THREADS),
    (&["std", "process"], THREADS),
    (&["std", "env"], THREADS),
    (&["net", "TcpStream"], SOCKETS),
    (&["net", "TcpListener"], SOCKETS),
    (&["net", "UdpSocket"], SOCKETS),
    (&["net", "ToSocketAddrs"], SOCKETS),
    (&["Instant", "now"], CLOCK),
    (&["SystemTime", "now"], CLOCK),
    (&["collections", "HashMap"], ORDER),
    (&["collections", "HashSet"], ORDER),
    (&["collections", "hash_map"], ORDER),
    (&["collections", "hash_set"], ORDER),
    (&["collections", "*"], ORDER),
    (&["RandomState"], RANDOM),
    (&["DefaultHashBuilder"], RANDOM),
    (&["async"], ASYNC),
    (&["await"], ASYNC),
    (&["io", "stdin"], PRINTS),
    (&["io", "stdout"], PRINTS),
    (&["io", "stderr"], PRINTS),
];

/// Crates that must not be mentioned at all.
const FORBIDDEN_CRATES: [(&str, &str); 8] = [
    ("tokio", ASYNC),
    ("futures", ASYNC),
    ("rand", RANDOM),
    ("fastrand", RANDOM),
    ("getrandom", RANDOM),
    ("crossbeam_channel", THREADS),
    ("rustix", FILES),
    ("socket2", SOCKETS),
];

const FORBIDDEN_MACROS: [(&str, &str); 6] = [
    ("println", PRINTS),
    ("print", PRINTS),
    ("eprintln", PRINTS),
    ("eprint", PRINTS),
    ("dbg", PRINTS),
    ("thread_local", THREADS),
];

/// What of `std::net` is a value and not a socket.
const ADDRESSES: [&str; 8] = [
    "IpAddr",
    "Ipv4Addr",
    "Ipv6Addr",
    "SocketAddr",
    "SocketAddrV4",
    "SocketAddrV6",
    "AddrParseError",
    "self",
];

/// Checks one file, if it belongs to a pure part.
pub(crate) fn check(file: &SourceFile) -> Vec<Violation> {
    if !is_pure(&file.path) {
        return Vec::new();
    }
    let found = mentions(&file.shipped_code());
    let broken = found.iter().filter_map(|mention| reason(mention).map(|why| (mention, why)));
    broken
        .map(|(mention, why)| {
            let mark = if mention.form == Form::Macro { "!" } else { "" };
            Violation::at(file, mention.line, format!("{}{mark}", mention.segments.join("::")), why)
        })
        .collect()
}

fn reason(mention: &Mention) -> Option<&'static str> {
    let segments: Vec<&str> = mention.segments.iter().map(String::as_str).collect();
    let last = *segments.last()?;
    match mention.form {
        Form::Macro => look_up(&FORBIDDEN_MACROS, last).or_else(|| forbidden_crate(mention, &segments)),
        Form::Method => match last {
            "elapsed" => Some(CLOCK),
            "await" => Some(ASYNC),
            _ => None,
        },
        Form::Import | Form::Expression => forbidden_path(&segments)
            .or_else(|| forbidden_crate(mention, &segments))
            .or_else(|| opens_a_socket(&segments).then_some(SOCKETS)),
    }
}

fn forbidden_path(segments: &[&str]) -> Option<&'static str> {
    let hit =
        FORBIDDEN_PATHS.iter().find(|(path, _)| segments.windows(path.len()).any(|window| window == *path));
    hit.map(|(_, why)| *why)
}

/// A lone word may be a variable of that name; a longer path or an import is the crate.
fn forbidden_crate(mention: &Mention, segments: &[&str]) -> Option<&'static str> {
    let names_a_crate = mention.form == Form::Import || segments.len() > 1;
    names_a_crate.then(|| look_up(&FORBIDDEN_CRATES, segments[0])).flatten()
}

/// `std::net` and a name that is not an address: a glob, the bare module, something new.
fn opens_a_socket(segments: &[&str]) -> bool {
    segments.starts_with(&["std", "net"]) && !segments.get(2).is_some_and(|name| ADDRESSES.contains(name))
}

fn look_up(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(forbidden, _)| *forbidden == name).map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(code: &str) -> Vec<String> {
        let violations = check(&SourceFile::new("crates/tree/src/node.rs", code));
        violations.into_iter().map(|violation| format!("{} {}", violation.place, violation.what)).collect()
    }

    fn assert_broken(code: &str, what: &str) {
        assert_eq!(found(code), [format!("crates/tree/src/node.rs:1 {what}")], "in: {code}");
    }

    #[test]
    fn every_kind_of_impurity_is_found() {
        assert_broken("use std::fs;", "std::fs");
        assert_broken("use std::{fmt, fs::File};", "std::fs::File");
        assert_broken("let x = std::thread::spawn(f);", "std::thread::spawn");
        assert_broken("use std::net::TcpStream;", "std::net::TcpStream");
        assert_broken("use std::net::*;", "std::net::*");
        assert_broken("let t = Instant::now();", "Instant::now");
        assert_broken("let t = std::time::SystemTime::now();", "std::time::SystemTime::now");
        assert_broken("let d = start.elapsed();", "elapsed");
        assert_broken("use tokio::sync::mpsc;", "tokio::sync::mpsc");
        assert_broken("let x = rand::random::<u64>();", "rand::random");
        assert_broken("async fn f() {}", "async");
        assert_broken("x.await", "await");
        assert_broken("use std::collections::{BTreeMap, HashMap};", "std::collections::HashMap");
        assert_broken("use std::collections::hash_map::Entry;", "std::collections::hash_map::Entry");
        assert_broken(
            "let m = hashbrown::DefaultHashBuilder::default();",
            "hashbrown::DefaultHashBuilder::default",
        );
        assert_broken("println!(\"x\");", "println!");
        assert_broken("tokio::select! {}", "tokio::select!");
        assert_broken("std::io::stdout().flush();", "std::io::stdout");
    }

    #[test]
    fn values_words_and_tests_are_free() {
        for code in [
            "use std::net::{IpAddr, SocketAddr};",
            "use std::time::{Duration, Instant};",
            "use std::collections::{BTreeMap, VecDeque};",
            "use hashbrown::HashMap;",
            "// std::fs, tokio and rand are not used here",
            "let text = \"std::fs::read Instant::now() println!\";",
            "let rand = seed; let tokio = 1;",
            "#[cfg(test)]\nmod tests { use std::fs; use std::collections::HashMap; }",
        ] {
            assert!(found(code).is_empty(), "in: {code}");
        }
    }

    #[test]
    fn only_pure_parts_are_bound() {
        let tokio = "use tokio::net::TcpStream;";
        assert!(check(&SourceFile::new("crates/server/src/net.rs", tokio)).is_empty());
        assert!(check(&SourceFile::new("crates/tree/tests/net.rs", tokio)).is_empty());
        assert!(!check(&SourceFile::new("crates/storage/src/format/log.rs", tokio)).is_empty());
    }
}
