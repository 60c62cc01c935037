//! `cargo xtask dist`: the files of a release: binary, manual pages, completions, archive, bill of materials,
//! checksums, packages for Debian. It builds and arranges files; nothing is published.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::step::{self, project_root, target_directory};

mod archive;
mod build_paths;
mod checksums;
mod debian;
mod debian_changelog;
mod sbom;

use debian::Maintainer;

const SHELLS: [(&str, &str); 3] = [("bash", "zebu"), ("zsh", "_zebu"), ("fish", "zebu.fish")];

/// Files of the project that the archive has at its top. With the container files it is a build context.
const FILES: [&str; 7] = [
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "packaging/systemd/zebu.service",
    "packaging/container/Containerfile",
    "packaging/container/Containerfile.debian",
    "packaging/container/compose.yaml",
];

/// The name of the bill of materials.
const BILL: &str = "sbom.cdx.json";

/// Directories of the official image, of Bitnami's and of Confluent's.
const CONTAINER_DIRECTORIES: [&str; 9] = [
    "data",
    "datalog",
    "conf",
    "logs",
    "tmp",
    "bitnami/zookeeper/data",
    "opt/bitnami/zookeeper/conf",
    "var/lib/zookeeper/data",
    "var/lib/zookeeper/log",
];

/// The files to make, and from which build.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Link statically (musl): the binary runs on every Linux and in an empty container
    #[arg(long = "static")]
    is_static: bool,
    /// Packages for Debian too, by dpkg-deb
    #[arg(long)]
    deb: bool,
    /// The maintainer that the packages name: `NAME <ADDRESS>` [default: DEBFULLNAME and DEBEMAIL]
    #[arg(long, value_name = "MAINTAINER")]
    maintainer: Option<String>,
    /// Make the files a second time from the same binary and compare them byte by byte
    #[arg(long)]
    check: bool,
    /// Use this binary instead of a build
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Where the files go [default: target/dist]
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

/// The arranged files of a release.
pub(crate) struct Release {
    /// `zebu-VERSION-ARCH-linux` below the output directory.
    pub(crate) directory: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) version: String,
    /// The time of the commit in seconds: the same sources give the same packages.
    pub(crate) source_date: String,
}

/// Makes the files.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let out = arguments.out.clone().unwrap_or_else(|| target_directory().join("dist"));
    let maintainer =
        if arguments.deb { Some(Maintainer::find(arguments.maintainer.as_deref())?) } else { None };
    let source_date = source_date();
    let replacements = build_paths::replacements();
    let binary = match &arguments.binary {
        Some(path) => path.clone(),
        None => build(arguments.is_static, &source_date, &replacements)?,
    };
    let names = make(&binary, &out, &source_date, maintainer.as_ref())?;
    let zebu = out.join(directory_name()).join("bin/zebu");
    if arguments.binary.is_none() {
        build_paths::ensure_absent(&zebu, &replacements)?;
    } else {
        for path in build_paths::named_in(&zebu, &replacements)? {
            println!("note: the given binary names {}; a build by this chore does not", path.display());
        }
    }
    if arguments.check {
        let again = out.join("again");
        make(&binary, &again, &source_date, maintainer.as_ref())?;
        for name in &names {
            archive::ensure_equal(&out.join(name), &again.join(name))?;
        }
        std::fs::remove_dir_all(&again)?;
        println!("the same files again: {} files are equal byte by byte", names.len());
    }
    Ok(())
}

/// Makes all files of a release in a directory; the names of those that are handed out.
fn make(
    binary: &Path,
    out: &Path,
    source_date: &str,
    maintainer: Option<&Maintainer>,
) -> anyhow::Result<Vec<String>> {
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let release = arrange(binary, out, source_date)?;
    archive::normalize_rights(&release.directory)?;
    let mut files = vec![archive::pack(&release.directory, source_date)?, bill_of_materials(&release)];
    if let Some(maintainer) = maintainer {
        files.extend(debian::build_packages(&release, maintainer)?);
    }
    let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.iter().filter_map(name).collect();
    checksums::write(out, &names)?;
    names.push(checksums::FILE.to_owned());
    for name in &names {
        println!("{}", out.join(name).display());
    }
    Ok(names)
}

/// The time of the commit in seconds, unless the environment names another one.
fn source_date() -> String {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(date) => date,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(project_root()))
            .unwrap_or_else(|_| "0".to_owned()),
    }
}

fn directory_name() -> String {
    format!("zebu-{}-{}-linux", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

fn build(
    is_static: bool,
    source_date: &str,
    replacements: &[(PathBuf, &'static str)],
) -> anyhow::Result<PathBuf> {
    let target = static_target();
    let mut words = vec!["build", "--release", "--locked", "--package", "zebu"];
    let mut directory = target_directory();
    if is_static {
        check_static_tools()?;
        words.extend(["--target", &target]);
        directory.push(&target);
    }
    let mut command = step::cargo(&words);
    command.env("SOURCE_DATE_EPOCH", source_date);
    build_paths::apply(&mut command, replacements);
    step::run("dist: build", &mut command)?;
    let binary = directory.join("release/zebu");
    if is_static {
        let described = output(Command::new("file").arg("--brief").arg(&binary)).unwrap_or_default();
        ensure!(!described.contains("dynamically linked"), "{} is not static: {described}", binary.display());
    }
    Ok(binary)
}

fn check_static_tools() -> anyhow::Result<()> {
    let target = static_target();
    let libraries = output(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if !Path::new(&libraries).is_dir() {
        bail!("the target is missing: rustup target add {target}");
    }
    ensure!(
        Command::new("musl-gcc").arg("--version").output().is_ok(),
        "musl-gcc is missing; it compiles the C parts of the cryptography and of the allocator (Debian: musl-tools)"
    );
    Ok(())
}

/// Copies the binary without debug information, and lets it write its manual pages and completions.
fn arrange(binary: &Path, out: &Path, source_date: &str) -> anyhow::Result<Release> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let directory = out.join(directory_name());
    if directory.exists() {
        std::fs::remove_dir_all(&directory)?;
    }
    for part in ["bin", "man", "completions"] {
        std::fs::create_dir_all(directory.join(part))?;
    }
    let zebu = directory.join("bin/zebu");
    std::fs::copy(binary, &zebu).with_context(|| format!("{} cannot be copied", binary.display()))?;
    // Names of functions stay, for the backtrace of a panic.
    step::run("dist: strip", Command::new("strip").arg("--strip-debug").arg(&zebu))?;
    step::run("dist: manual pages", Command::new(&zebu).arg("man").arg(directory.join("man")))?;
    for (shell, name) in SHELLS {
        let script = Command::new(&zebu).args(["completions", shell]).output()?;
        ensure!(script.status.success(), "zebu completions {shell} failed");
        std::fs::write(directory.join("completions").join(name), script.stdout)?;
    }
    for script in ["zkServer.sh", "zkCli.sh"] {
        std::fs::copy(project_root().join("bin").join(script), directory.join("bin").join(script))?;
    }
    for file in FILES {
        let name = Path::new(file).file_name().expect("these paths have names");
        std::fs::copy(project_root().join(file), directory.join(name))?;
    }
    arrange_container_root(&directory.join("container"))?;
    let told = output(Command::new(&zebu).arg("version"))?;
    println!("{told}");
    if !told.contains("commit") {
        println!(
            "note: this build does not name its commit, because it is no release build from a repository"
        );
    }
    let bill = sbom::Materials::read(&build_target(&zebu))?.document(source_date)?;
    let mut text = serde_json::to_string_pretty(&bill)?;
    text.push('\n');
    std::fs::write(directory.join(BILL), &text)?;
    let release = Release { directory, out: out.to_path_buf(), version, source_date: source_date.to_owned() };
    std::fs::write(bill_of_materials(&release), text)?;
    Ok(release)
}

/// Directories and accounts of the container image, which has no shell to make them. Group 0 may write in
/// them, because OpenShift runs containers as any user of that group.
fn arrange_container_root(root: &Path) -> anyhow::Result<()> {
    for path in CONTAINER_DIRECTORIES {
        let mut whole = root.join("writable");
        std::fs::create_dir_all(&whole)?;
        for part in Path::new(path).components() {
            whole.push(part);
            std::fs::create_dir_all(&whole)?;
            std::fs::set_permissions(&whole, Permissions::from_mode(0o775))?;
        }
    }
    std::fs::create_dir(root.join("etc"))?;
    std::fs::write(root.join("etc/passwd"), "zookeeper:x:1000:1000:ZooKeeper:/data:/sbin/nologin\n")?;
    std::fs::write(root.join("etc/group"), "zookeeper:x:1000:\n")?;
    Ok(())
}

/// The bill of materials beside the archive; the archive has the same file.
fn bill_of_materials(release: &Release) -> PathBuf {
    release.out.join(format!("{}.{BILL}", directory_name()))
}

/// The target that a binary was built for: static ones are made for musl only.
fn build_target(binary: &Path) -> String {
    let described = output(Command::new("file").arg("--brief").arg(binary)).unwrap_or_default();
    if described.contains("dynamically linked") {
        format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
    } else {
        static_target()
    }
}

/// The static target of this machine.
fn static_target() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// The standard output of a program that succeeds.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let ended = command.output().with_context(|| format!("cannot start {command:?}"))?;
    ensure!(ended.status.success(), "{command:?} failed: {}", String::from_utf8_lossy(&ended.stderr));
    Ok(String::from_utf8_lossy(&ended.stdout).trim().to_owned())
}
