//! Tells the server which date and commit it was built from, so that the same sources give the same binary.
//!
//! `SOURCE_DATE_EPOCH` counts first. Release builds take the date of the commit from git. Without git, and in
//! other builds, which must not be repeated for every commit, the date of the version is used.

use std::path::Path;
use std::process::Command;

/// When the version in `Cargo.toml` was begun.
const VERSION_DATE: &str = "2026-11-01 00:00 UTC";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    let wished = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.trim().parse().ok());
    let is_release = std::env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = if is_release { commit() } else { None };
    let date = wished.or(commit.as_ref().map(|(date, _)| *date)).map_or(VERSION_DATE.to_owned(), date_text);
    println!("cargo::rustc-env=ZEBU_BUILD_DATE={date}");
    if let Some((_, name)) = commit {
        println!("cargo::rustc-env=ZEBU_BUILD_COMMIT={name}");
    }
}

/// The date and the short name of the commit that is checked out.
fn commit() -> Option<(i64, String)> {
    let git = |words: &[&str]| {
        let output =
            Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // A crate that was unpacked inside of another repository is not what that one has committed.
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    if Path::new(&top).canonicalize().ok()? != own.canonicalize().ok()? {
        return None;
    }
    for file in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", file]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let text = git(&["log", "-1", "--format=%ct %h", "--abbrev=12"])?;
    let (date, name) = text.split_once(' ')?;
    Some((date.parse().ok()?, name.to_owned()))
}

/// `yyyy-MM-dd HH:mm UTC`, as ZooKeeper writes it.
fn date_text(seconds: i64) -> String {
    let (days, minutes) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400) / 60);
    // Eras of 400 years that begin on the first of March, so that the leap day is the last of a year.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}
