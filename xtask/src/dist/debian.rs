//! The packages `zebu` (program, manual pages, completions) and `zebu-server` (unit and configuration in the
//! place of Debian's zookeeperd), built by dpkg-deb from the arranged files.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use super::{Release, debian_changelog, output};
use crate::changelog;
use crate::step::{self, project_root};

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// The person or group that answers for packages: `NAME <ADDRESS>`. The project has no address of its own, so
/// the builder of the packages names one.
pub(super) struct Maintainer(String);

impl Maintainer {
    /// The given one, or the one of Debian's variables.
    pub(super) fn find(given: Option<&str>) -> anyhow::Result<Maintainer> {
        let of_variables = || {
            let name = std::env::var("DEBFULLNAME").ok()?;
            Some(format!("{name} <{}>", std::env::var("DEBEMAIL").ok()?))
        };
        match given.map(str::to_owned).or_else(of_variables) {
            Some(text) => Maintainer::read(&text),
            None => bail!(
                "packages need a maintainer: --maintainer \"NAME <ADDRESS>\", or DEBFULLNAME and DEBEMAIL"
            ),
        }
    }

    fn read(text: &str) -> anyhow::Result<Maintainer> {
        let parts = text.split_once(" <").and_then(|(name, rest)| Some((name, rest.strip_suffix('>')?)));
        let Some((name, address)) = parts else { bail!("{text:?} is not of the form NAME <ADDRESS>") };
        let Some((user, host)) = address.split_once('@') else { bail!("{address:?} is no mail address") };
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['<', '>', '@', ' ', '\n']);
        ensure!(!name.trim().is_empty() && !name.contains(['<', '>', '\n']), "{text:?} has no plain name");
        ensure!(is_plain(user) && is_plain(host), "{address:?} is no mail address");
        ensure!(host.contains('.'), "{address:?}: mail to {host} reaches no maintainer");
        Ok(Maintainer(text.to_owned()))
    }
}

/// A package on its way: files below a directory.
struct PackageTree {
    name: &'static str,
    directory: PathBuf,
}

impl PackageTree {
    fn new(name: &'static str, release: &Release) -> anyhow::Result<PackageTree> {
        let directory = release.out.join("debian").join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let tree = PackageTree { name, directory };
        tree.add_text("DEBIAN/.keep", "", 0o644)?;
        fs::remove_file(tree.directory.join("DEBIAN/.keep"))?;
        Ok(tree)
    }

    fn path(&self, path: &str) -> anyhow::Result<PathBuf> {
        let whole = self.directory.join(path);
        let mut parent = self.directory.clone();
        fs::create_dir_all(&parent)?;
        for part in Path::new(path).parent().into_iter().flat_map(Path::components) {
            parent.push(part);
            if !parent.exists() {
                fs::create_dir(&parent)?;
            }
            fs::set_permissions(&parent, fs::Permissions::from_mode(0o755))?;
        }
        Ok(whole)
    }

    fn add_text(&self, path: &str, text: &str, mode: u32) -> anyhow::Result<()> {
        let whole = self.path(path)?;
        fs::write(&whole, text).with_context(|| format!("{} cannot be written", whole.display()))?;
        fs::set_permissions(&whole, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    fn add(&self, path: &str, from: &Path, mode: u32) -> anyhow::Result<()> {
        let whole = self.path(path)?;
        fs::copy(from, &whole).with_context(|| format!("{} cannot be copied", from.display()))?;
        fs::set_permissions(&whole, fs::Permissions::from_mode(mode))?;
        Ok(())
    }

    /// Debian wants pages and change logs compressed, without a time in them.
    fn add_compressed(&self, path: &str, from: &Path) -> anyhow::Result<()> {
        let plain = path.strip_suffix(".gz").unwrap_or(path);
        self.add(plain, from, 0o644)?;
        output(
            Command::new("gzip").args(["--best", "--no-name", "--force"]).arg(self.directory.join(plain)),
        )?;
        Ok(())
    }

    /// The files that every package has.
    fn add_documents(&self, release: &Release, maintainer: &Maintainer) -> anyhow::Result<()> {
        let documents = format!("usr/share/doc/{}", self.name);
        self.add(
            &format!("{documents}/copyright"),
            &project_root().join("packaging/debian/copyright"),
            0o644,
        )?;
        let source = project_root().join(changelog::FILE);
        let source =
            fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let text = debian_changelog::write(&source, &release.version, &maintainer.0)?;
        let path = release.out.join("debian/changelog");
        fs::write(&path, text)?;
        self.add_compressed(&format!("{documents}/changelog.gz"), &path)
    }

    fn build(self, release: &Release, control: &str) -> anyhow::Result<()> {
        let size = installed_kibibytes(&self.directory)?;
        let control = control.replace("Priority:", &format!("Installed-Size: {size}\nPriority:"));
        self.add_text("DEBIAN/control", &control, 0o644)?;
        self.add_checksums()?;
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&self.directory).arg(&release.out);
        build.env("SOURCE_DATE_EPOCH", &release.source_date);
        step::run(&format!("dist: package {}", self.name), &mut build)
    }

    fn add_checksums(&self) -> anyhow::Result<()> {
        let listed = output(
            Command::new("find")
                .args([".", "-type", "f", "-not", "-path", "./DEBIAN/*", "-printf", "%P\\n"])
                .current_dir(&self.directory),
        )?;
        let mut names: Vec<&str> = listed.lines().collect();
        names.sort_unstable();
        let sums = output(Command::new("md5sum").args(&names).current_dir(&self.directory))?;
        self.add_text("DEBIAN/md5sums", &format!("{sums}\n"), 0o644)
    }
}

/// The size that Debian's tools write: files in whole KiB, and one KiB for everything else. `du` would tell
/// the file system apart.
fn installed_kibibytes(directory: &Path) -> anyhow::Result<u64> {
    let mut size = 0;
    let mut directories = vec![directory.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            size += if metadata.is_file() { metadata.len().div_ceil(1024) } else { 1 };
            if metadata.is_dir() && entry.file_name() != "DEBIAN" {
                directories.push(entry.path());
            }
        }
    }
    Ok(size)
}

/// Builds both packages.
pub(super) fn build_packages(release: &Release, maintainer: &Maintainer) -> anyhow::Result<Vec<PathBuf>> {
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?;
    build_program(release, &architecture, maintainer)?;
    build_server(release, maintainer)?;
    let mut packages = Vec::new();
    for name in ["zebu", "zebu-server"] {
        let of = if name == "zebu" { architecture.as_str() } else { "all" };
        let path = release.out.join(format!("{name}_{}_{of}.deb", release.version));
        ensure!(path.is_file(), "{} was not built", path.display());
        packages.push(path);
    }
    Ok(packages)
}

fn build_program(release: &Release, architecture: &str, maintainer: &Maintainer) -> anyhow::Result<()> {
    let tree = PackageTree::new("zebu", release)?;
    let arranged = |path: &str| release.directory.join(path);
    tree.add("usr/bin/zebu", &arranged("bin/zebu"), 0o755)?;
    for script in ["zkServer.sh", "zkCli.sh"] {
        tree.add(&format!("usr/share/zebu/bin/{script}"), &arranged("bin").join(script), 0o755)?;
    }
    for page in fs::read_dir(arranged("man"))? {
        let page = page?;
        let name = page.file_name().to_string_lossy().into_owned();
        tree.add_compressed(&format!("usr/share/man/man1/{name}.gz"), &page.path())?;
    }
    for (from, to) in [
        ("zebu", "usr/share/bash-completion/completions/zebu"),
        ("_zebu", "usr/share/zsh/vendor-completions/_zebu"),
        ("zebu.fish", "usr/share/fish/vendor_completions.d/zebu.fish"),
    ] {
        tree.add(to, &arranged("completions").join(from), 0o644)?;
    }
    tree.add_text(
        "usr/share/lintian/overrides/zebu",
        "# Names of functions stay for backtraces; the static binary needs no library of the system.\n\
         zebu: unstripped-binary-or-object [usr/bin/zebu]\nzebu: statically-linked-binary [usr/bin/zebu]\n\
         zebu: shared-library-lacks-prerequisites [usr/bin/zebu]\n\
         # The scripts of ZooKeeper have these names.\nzebu: script-with-language-extension *\n",
        0o644,
    )?;
    tree.add_documents(release, maintainer)?;
    let depends = libraries(&arranged("bin/zebu"))?;
    let mut control = format!("Package: zebu\nVersion: {}\nArchitecture: {architecture}\n", release.version);
    let _ = write!(control, "Maintainer: {}\n{depends}Section: net\nPriority: optional\n", maintainer.0);
    control.push_str(
        "Description: coordination service in the place of Apache ZooKeeper\n Zebu speaks the protocol of Apache \
         ZooKeeper, reads its files and its\n configuration. This package has the program: server, shell and tools.\n \
         The package zebu-server starts it at boot.\n",
    );
    tree.build(release, &control)
}

/// A binary that is linked with glibc needs the release that it was built with, or a newer one.
fn libraries(binary: &Path) -> anyhow::Result<String> {
    let needed = output(Command::new("objdump").arg("-T").arg(binary)).unwrap_or_default();
    let versions = needed.split("GLIBC_").skip(1).filter_map(|rest| {
        let number: String =
            rest.chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.').collect();
        let (major, minor) = number.split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
    });
    Ok(match versions.max() {
        Some((major, minor)) => format!("Depends: libc6 (>= {major}.{minor}), libgcc-s1 (>= 4.2)\n"),
        None => String::new(),
    })
}

fn build_server(release: &Release, maintainer: &Maintainer) -> anyhow::Result<()> {
    let tree = PackageTree::new("zebu-server", release)?;
    let packaging = project_root().join("packaging");
    tree.add("lib/systemd/system/zebu.service", &packaging.join("systemd/zebu.service"), 0o644)?;
    tree.add("etc/zookeeper/conf_zebu/zoo.cfg", &packaging.join("debian/zoo.cfg"), 0o644)?;
    tree.add("usr/share/zebu/default", &packaging.join("debian/default"), 0o644)?;
    for script in SCRIPTS {
        tree.add(&format!("DEBIAN/{script}"), &packaging.join("debian").join(script), 0o755)?;
    }
    tree.add("DEBIAN/triggers", &packaging.join("debian/triggers"), 0o644)?;
    tree.add_text(
        "usr/share/lintian/overrides/zebu-server",
        "# The script warns about a dataDir in /tmp; it writes nothing there.\n\
         zebu-server: possibly-insecure-handling-of-tmp-files-in-maintainer-script /tmp [postinst:*]\n",
        0o644,
    )?;
    tree.add_text("DEBIAN/conffiles", "/etc/zookeeper/conf_zebu/zoo.cfg\n", 0o644)?;
    tree.add_documents(release, maintainer)?;
    let (version, maintainer) = (&release.version, &maintainer.0);
    let control = format!(
        "Package: zebu-server\nSource: zebu\nVersion: {version}\nArchitecture: all\nMaintainer: {maintainer}\n\
         Pre-Depends: init-system-helpers (>= 1.54~)\nDepends: zebu (= {version}), adduser\n\
         Conflicts: zookeeperd\nReplaces: zookeeperd\nProvides: zookeeperd\nSection: net\nPriority: optional\n\
         Description: Zebu as a service, in the place of zookeeperd\n The unit zebu.service serves with \
         /etc/zookeeper/conf/zoo.cfg as the user\n zookeeper. Data of a ZooKeeper server is used as it is, and it \
         stays when\n this package is removed or purged.\n"
    );
    tree.build(release, &control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maintainer_can_be_reached() {
        for good in ["A B <a@b.example>", "The Team <team@lists.b.example>"] {
            assert_eq!(Maintainer::read(good).unwrap().0, good);
        }
        for bad in ["A B", "<a@b.example>", "A <a>", "A <a@localhost>", "A <a@b.example", "A <a@b c.example>"]
        {
            assert!(Maintainer::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_do_not_depend_on_the_file_system() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("usr/bin")).unwrap();
        fs::write(directory.path().join("usr/bin/zebu"), vec![0; 1025]).unwrap();
        assert_eq!(installed_kibibytes(directory.path()).unwrap(), 4);
    }
}
