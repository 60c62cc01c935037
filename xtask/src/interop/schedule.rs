//! Runs several suites at a time. Suites spend most of their time waiting for timeouts of foreign clients, so
//! two at once take little more processor than one.
//!
//! Suites that fill the same directory of `target/interop` name it in `shares` and never run together.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Context;

use super::suites::Suite;

/// The suites that wait, and the directories that running ones use.
struct Waiting<'a> {
    suites: Vec<(usize, &'a Suite)>,
    in_use: BTreeSet<&'a str>,
}

impl<'a> Waiting<'a> {
    /// The first suite whose directories are free.
    fn take(&mut self) -> Option<(usize, &'a Suite)> {
        let is_free = |suite: &Suite| suite.shares.iter().all(|name| !self.in_use.contains(&**name));
        let index = self.suites.iter().position(|(_, suite)| is_free(suite))?;
        let (place, suite) = self.suites.remove(index);
        self.in_use.extend(suite.shares.iter().map(|name| &**name));
        Some((place, suite))
    }

    fn give_back(&mut self, suite: &Suite) {
        suite.shares.iter().for_each(|name| {
            self.in_use.remove(&**name);
        });
    }
}

/// Runs all suites, at most `jobs` at a time. The results have the order of the suites.
pub(crate) fn run_all<T: Send>(suites: &[Suite], jobs: usize, run: impl Fn(&Suite) -> T + Sync) -> Vec<T> {
    let waiting =
        Mutex::new(Waiting { suites: suites.iter().enumerate().collect(), in_use: BTreeSet::new() });
    let ended = Condvar::new();
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, suites.len().max(1)) {
            scope.spawn(|| {
                while let Some((place, suite)) = next(&waiting, &ended) {
                    let result = run(suite);
                    lock(&results).push((place, result));
                    lock(&waiting).give_back(suite);
                    ended.notify_all();
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Waits for a suite whose directories are free; `None` when no suite is left.
fn next<'a>(waiting: &Mutex<Waiting<'a>>, ended: &Condvar) -> Option<(usize, &'a Suite)> {
    let mut waiting = lock(waiting);
    loop {
        if waiting.suites.is_empty() {
            return None;
        }
        if let Some(found) = waiting.take() {
            return Some(found);
        }
        waiting = ended.wait(waiting).unwrap_or_else(PoisonError::into_inner);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a directory with a program `mvn` that runs one Maven at a time: several would damage its repository.
/// `None` if Maven or `flock` is missing.
pub(crate) fn one_maven(cache: &Path) -> anyhow::Result<Option<PathBuf>> {
    let (Some(maven), Some(flock)) = (find_program("mvn"), find_program("flock")) else { return Ok(None) };
    let directory = cache.join("bin");
    let program = directory.join("mvn");
    let text = format!(
        "#!/bin/sh\nexec '{}' '{}' '{}' \"$@\"\n",
        flock.display(),
        cache.join("mvn.lock").display(),
        maven.display()
    );
    write_program(&directory, &program, &text).with_context(|| format!("write {}", program.display()))?;
    Ok(Some(directory))
}

fn write_program(directory: &Path, program: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(program, text)?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::super::suites;
    use super::*;

    fn list() -> Vec<Suite> {
        let text: String = ["a:x", "b:x", "c:y", "d:", "e:y"]
            .iter()
            .filter_map(|entry| entry.split_once(':'))
            .map(|(name, shares)| {
                let shares = if shares.is_empty() { String::new() } else { format!("{shares:?}") };
                format!("[[suite]]\nname = \"{name}\"\nruns = \"zkcli\"\nshares = [{shares}]\n")
            })
            .collect();
        suites::parse(&text).unwrap()
    }

    #[test]
    fn every_suite_runs_once_and_the_order_of_the_results_is_that_of_the_list() {
        for jobs in [1, 2, 3, 9] {
            let names = run_all(&list(), jobs, |suite| suite.name.clone());
            assert_eq!(names, ["a", "b", "c", "d", "e"], "{jobs}");
        }
    }

    #[test]
    fn suites_that_share_a_directory_never_run_together() {
        let (users_of_x, users_of_y) = (AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..50 {
            run_all(&list(), 3, |suite| {
                let users = match suite.shares.first().map(|name| &**name) {
                    Some("x") => &users_of_x,
                    Some(_) => &users_of_y,
                    None => return,
                };
                assert_eq!(users.fetch_add(1, SeqCst), 0, "{}", suite.name);
                thread::yield_now();
                users.fetch_sub(1, SeqCst);
            });
        }
    }
}
