//! Enters an environment in which the Kerberos library finds the files of the configuration. The process
//! executes the same program anew, with the same arguments and the same process id.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use zebu_kerberos::LibraryFiles;

/// Returns if the environment fits. Otherwise it does not return, unless the program cannot be executed.
pub(crate) fn enter(files: &LibraryFiles) -> io::Result<()> {
    let missing = files.missing(|name| std::env::var_os(name));
    if missing.is_empty() {
        return Ok(());
    }
    let mut words = std::env::args_os();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = words.next() {
        command.arg0(name);
    }
    Err(command.args(words).envs(missing).exec())
}
