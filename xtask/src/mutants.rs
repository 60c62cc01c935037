//! `mutants`: known bugs are put back, one at a time, into a copy of the project, and the simulator has to
//! find each of them, or the test that the patch names if the simulator cannot get there. The shipped crates
//! hold no switch for any of them; a bug is a patch file beside the simulator, or beside the server for its
//! threads and locks, or beside the backup.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::step::{cargo, project_root, target_directory};

/// The directories of the patches. The simulator does not see the threads of the server.
const DIRECTORIES: [&str; 3] = ["crates/sim/mutants", "crates/server/mutants", "crates/backup/mutants"];

/// Which bugs, and how long each is looked for.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Names, or beginnings of names, such as M01; all if there is none
    names: Vec<String>,
    /// Seeds after which a bug counts as not found
    #[arg(long, default_value_t = 20_000)]
    seeds: u64,
    /// Seeds that run at a time
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Only whether the project builds with each bug
    #[arg(long)]
    check: bool,
}

/// A bug.
struct Mutant {
    name: String,
    patch: PathBuf,
    what: String,
    origin: String,
    expects: String,
    test: Option<Test>,
}

/// A test that finds a bug which the simulator cannot find.
struct Test {
    package: String,
    target: String,
    name: String,
}

/// What became of it.
enum Fate {
    Caught {
        seed: u64,
        checker: String,
        seeds: u64,
    },
    CaughtByTest {
        name: String,
    },
    Survived {
        seeds: u64,
    },
    SurvivedTest {
        name: String,
    },
    /// The patch does not fit, or the project does not build with it.
    Broken(String),
}

const BEGIN: &str = "<!-- mutants: written by `cargo xtask mutants` -->";
const END: &str = "<!-- end of mutants -->";

/// Looks for every bug that is meant; fails if one is not found.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mutants = mutants(&arguments.names)?;
    let copy = target_directory().join("mutants");
    copy_project(&copy)?;
    if arguments.check {
        return check_builds(&mutants, &copy);
    }
    let mut rows = Vec::new();
    for mutant in &mutants {
        let started = Instant::now();
        let fate =
            look_for(mutant, &copy, arguments).unwrap_or_else(|error| Fate::Broken(format!("{error:#}")));
        let row = match &fate {
            Fate::Caught { seed, checker, seeds } => {
                format!("caught by {checker} with seed {seed} after {seeds} seeds")
            }
            Fate::CaughtByTest { name } => format!("caught by the test {name}"),
            Fate::Survived { seeds } => format!("NOT CAUGHT in {seeds} seeds"),
            Fate::SurvivedTest { name } => format!("NOT CAUGHT by the test {name}"),
            Fate::Broken(reason) => format!("BROKEN: {reason}"),
        };
        println!("{:<32} {row} ({:.0} s)", mutant.name, started.elapsed().as_secs_f64());
        rows.push((mutant, fate));
        // Each time: whoever interrupts this keeps what was found.
        write_table(&rows)?;
    }
    let survivors: Vec<&str> = rows
        .iter()
        .filter(|(_, fate)| !matches!(fate, Fate::Caught { .. } | Fate::CaughtByTest { .. }))
        .map(|(mutant, _)| mutant.name.as_str())
        .collect();
    if !survivors.is_empty() {
        bail!("{} of {} bugs were not found: {}", survivors.len(), rows.len(), survivors.join(", "));
    }
    Ok(())
}

/// Checks that the simulator, or the test that a patch names, builds with each bug. Looking for a bug takes
/// much longer.
fn check_builds(mutants: &[Mutant], copy: &Path) -> anyhow::Result<()> {
    let mut broken = Vec::new();
    for mutant in mutants {
        let started = Instant::now();
        let result = patch(mutant, copy, &[]).and_then(|()| {
            let checked = check_build(mutant, copy);
            patch(mutant, copy, &["--reverse"])?;
            checked
        });
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => println!("{:<40} builds ({seconds:.0} s)", mutant.name),
            Err(error) => {
                println!("{:<40} BROKEN: {error:#}", mutant.name);
                broken.push(mutant.name.as_str());
            }
        }
    }
    if !broken.is_empty() {
        bail!("{} of {} bugs do not build: {}", broken.len(), mutants.len(), broken.join(", "));
    }
    Ok(())
}

fn check_build(mutant: &Mutant, copy: &Path) -> anyhow::Result<()> {
    let mut check = cargo(&["check", "--quiet", "--package"]);
    match &mutant.test {
        None => check.arg("zebu-sim"),
        Some(test) if test.target == "lib" => check.args([&test.package, "--lib", "--profile", "test"]),
        Some(test) => check.args([&test.package, "--test", &test.target]),
    };
    let output = check
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .env("RUSTFLAGS", "--allow warnings")
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    bail!("{}", text.lines().find(|line| line.starts_with("error")).unwrap_or("the build fails"))
}

/// The patches that do not fit the project as it is.
pub(crate) fn outdated() -> anyhow::Result<Vec<String>> {
    let mut outdated = Vec::new();
    for mutant in mutants(&[])? {
        let checked = Command::new("git")
            .args(["apply", "--check"])
            .arg(&mutant.patch)
            .current_dir(project_root())
            .output()
            .context("cannot start git")?;
        if !checked.status.success() {
            let path = mutant.patch.strip_prefix(project_root()).unwrap_or(&mutant.patch);
            outdated.push(path.display().to_string());
        }
    }
    Ok(outdated)
}

/// The patches that are meant, in the order of their names.
fn mutants(names: &[String]) -> anyhow::Result<Vec<Mutant>> {
    let mut patches = Vec::new();
    for directory in DIRECTORIES.map(|directory| project_root().join(directory)) {
        let entries = std::fs::read_dir(&directory);
        for entry in entries.with_context(|| format!("cannot list {}", directory.display()))? {
            patches.push(entry?.path());
        }
    }
    let mut mutants = Vec::new();
    for patch in patches {
        let name = patch.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let meant = names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()));
        if meant && patch.extension().is_some_and(|extension| extension == "patch") {
            let text = std::fs::read_to_string(&patch)?;
            let mut comments = text.lines().filter_map(|line| line.strip_prefix("# "));
            let what = comments.next().unwrap_or_default().to_owned();
            let field = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {name}: ")));
                line.unwrap_or_default().to_owned()
            };
            let test = read_test(&field("test"));
            let (origin, expects) = (field("origin"), field("expects"));
            mutants.push(Mutant { name, what, origin, expects, test, patch });
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    if mutants.is_empty() {
        bail!("no patch in {} has such a name", DIRECTORIES.join(" or "));
    }
    Ok(mutants)
}

/// Reads `package target name`; the target `lib` stands for the tests inside the package.
fn read_test(field: &str) -> Option<Test> {
    let [package, target, name] = field.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    Some(Test { package: package.to_owned(), target: target.to_owned(), name: name.to_owned() })
}

/// Copies what git knows, so that a build there sees the same project. Unchanged files keep their times.
fn copy_project(copy: &Path) -> anyhow::Result<()> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(project_root()).output()?;
    for name in String::from_utf8_lossy(&listed.stdout).split('\0').filter(|name| !name.is_empty()) {
        copy_file(&project_root().join(name), &copy.join(name))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    // Removed since the last commit, or a directory of another project.
    let Ok(bytes) = std::fs::read(from) else { return Ok(()) };
    if std::fs::read(to).is_ok_and(|before| before == bytes) {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}

fn look_for(mutant: &Mutant, copy: &Path, arguments: &Arguments) -> anyhow::Result<Fate> {
    patch(mutant, copy, &[])?;
    let fate = match &mutant.test {
        Some(test) => run_test(test, copy),
        None => build(copy).and_then(|program| simulate(&program, arguments)),
    };
    patch(mutant, copy, &["--reverse"])?;
    fate
}

fn patch(mutant: &Mutant, copy: &Path, options: &[&str]) -> anyhow::Result<()> {
    let status = Command::new("patch")
        .args(["-p1", "--silent", "--no-backup-if-mismatch", "--input"])
        .arg(&mutant.patch)
        .args(options)
        .current_dir(copy)
        .status()
        .context("cannot start patch")?;
    if !status.success() {
        bail!("{} does not fit any more: write it anew for the code as it is", mutant.patch.display());
    }
    Ok(())
}

/// Builds the simulator of the copy. It is run for seconds only, so the build is the quick one.
fn build(copy: &Path) -> anyhow::Result<PathBuf> {
    let target = copy.join("target");
    let status = cargo(&["build", "--quiet", "--release", "--package", "zebu-sim"])
        .current_dir(copy)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .env("RUSTFLAGS", "--allow warnings")
        .status()?;
    if !status.success() {
        bail!("the project does not build with this bug");
    }
    Ok(target.join("release/zebu-sim"))
}

/// Runs one test of the copy, which has to fail.
fn run_test(test: &Test, copy: &Path) -> anyhow::Result<Fate> {
    let target: &[&str] = if test.target == "lib" { &["--lib"] } else { &["--test", &test.target] };
    let run = |options: &[&str]| {
        cargo(&["test", "--quiet", "--package", &test.package])
            .args(target)
            .args(options)
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", copy.join("target"))
            .env("RUSTFLAGS", "--allow warnings")
            .output()
    };
    if !run(&["--no-run"])?.status.success() {
        bail!("the tests of {} do not build with this bug", test.package);
    }
    let output = run(&[test.name.as_str()])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let name = format!("{}::{}", test.package, test.name);
    match output.status.success() {
        true if text.contains("running 0 tests") => bail!("there is no test {name}"),
        true => Ok(Fate::SurvivedTest { name }),
        false => Ok(Fate::CaughtByTest { name }),
    }
}

fn simulate(program: &Path, arguments: &Arguments) -> anyhow::Result<Fate> {
    let output = Command::new(program)
        .args(["--brief", "--seeds", &format!("0..{}", arguments.seeds)])
        .args(["--jobs", &arguments.jobs.to_string()])
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["caught", seed, checker, seeds] => {
            Ok(Fate::Caught { seed: seed.parse()?, checker: checker.to_owned(), seeds: seeds.parse()? })
        }
        ["survived", seeds] => Ok(Fate::Survived { seeds: seeds.parse()? }),
        _ => bail!("the simulator said {text:?}"),
    }
}

/// Puts the table into its place in docs/reliability.md.
fn write_table(rows: &[(&Mutant, Fate)]) -> anyhow::Result<()> {
    let path = project_root().join("docs/reliability.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{} has no {BEGIN}", path.display()))?;
    let (old, after) = rest.split_once(END).with_context(|| format!("{} has no {END}", path.display()))?;
    // Rows of bugs that were not looked for this time stay.
    let mut lines: BTreeMap<String, String> = old
        .lines()
        .filter(|line| line.starts_with("| M"))
        .map(|line| (line.split(' ').nth(1).unwrap_or_default().to_owned(), line.to_owned()))
        .collect();
    for (mutant, fate) in rows {
        let number = mutant.name.split('-').next().unwrap_or(&mutant.name).to_owned();
        let line = row(&number, mutant, fate);
        lines.insert(number, line);
    }
    let mut table = String::from("| Bug | What | Origin | Expected | Caught by | Seed | Seeds run |\n");
    table.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    for line in lines.values() {
        table.push_str(line);
        table.push('\n');
    }
    std::fs::write(&path, format!("{before}{BEGIN}\n\n{table}\n{END}{after}"))?;
    Ok(())
}

fn row(number: &str, mutant: &Mutant, fate: &Fate) -> String {
    let Mutant { what, origin, expects, .. } = mutant;
    match fate {
        Fate::Caught { seed, checker, seeds } => {
            format!("| {number} | {what} | {origin} | {expects} | `{checker}` | {seed} | {seeds} |")
        }
        Fate::CaughtByTest { name } => {
            format!("| {number} | {what} | {origin} | {expects} | test `{name}` | | |")
        }
        Fate::SurvivedTest { name } => {
            format!("| {number} | {what} | {origin} | {expects} | **not caught** by test `{name}` | | |")
        }
        Fate::Survived { seeds } => {
            format!("| {number} | {what} | {origin} | {expects} | **not caught** | | {seeds} |")
        }
        Fate::Broken(_) => format!("| {number} | {what} | {origin} | {expects} | **broken** | | |"),
    }
}
