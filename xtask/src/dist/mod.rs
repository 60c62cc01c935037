//! `cargo xtask dist`: the files of a release: binary, manual pages, completions, archive, packages for
//! Debian. It builds and arranges files; nothing is published.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::step::{self, project_root, target_directory};

mod debian;

const SHELLS: [(&str, &str); 3] = [("bash", "zebu"), ("zsh", "_zebu"), ("fish", "zebu.fish")];

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
    std::fs::create_dir_all(&out).with_context(|| format!("{} cannot be made", out.display()))?;
    let binary = match &arguments.binary {
        Some(path) => path.clone(),
        None => build(arguments.is_static)?,
    };
    let release = arrange(&binary, &out)?;
    archive(&release)?;
    if arguments.deb {
        debian::build_packages(&release)?;
    }
    Ok(())
}

fn build(is_static: bool) -> anyhow::Result<PathBuf> {
    let target = static_target();
    let mut words = vec!["build", "--release", "--locked", "--package", "zebu"];
    let mut directory = target_directory();
    if is_static {
        check_static_tools()?;
        words.extend(["--target", &target]);
        directory.push(&target);
    }
    step::run("dist: build", &mut step::cargo(&words))?;
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
fn arrange(binary: &Path, out: &Path) -> anyhow::Result<Release> {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let source_date = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(date) => date,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(project_root()))
            .unwrap_or_else(|_| "0".to_owned()),
    };
    let directory = out.join(format!("zebu-{version}-{}-linux", std::env::consts::ARCH));
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
    for file in ["LICENSE", "README.md", "CHANGELOG.md", "packaging/systemd/zebu.service"] {
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
    Ok(Release { directory, out: out.to_path_buf(), version, source_date })
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

fn archive(release: &Release) -> anyhow::Result<()> {
    let name = release.directory.file_name().expect("the directory has a name");
    let mut path = release.out.join(name).into_os_string();
    path.push(".tar.gz");
    let mut tar = Command::new("tar");
    tar.arg("--create").arg("--gzip").arg("--file").arg(&path).arg("--directory").arg(&release.out);
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", release.source_date)).arg(name);
    step::run("dist: archive", &mut tar)?;
    println!("{}", Path::new(&path).display());
    Ok(())
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
