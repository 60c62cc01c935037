//! `edit`: the data of a node in the user's editor. The data is written back only at the version that was
//! read.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use zebu_client::{ErrorCode, Version};

use crate::shell::command::{Command, Entry, Origin, Parsed, Running};
use crate::shell::failure::Failure;
use crate::shell::flags::Given;
use crate::shell::paths;
use crate::shell::reply::Reply;
use crate::shell::session::Session;

pub(crate) const ENTRY: Entry = Entry {
    name: "edit",
    syntax: "path",
    about: "Edits the data of a node in $VISUAL or $EDITOR; written only if nobody changed it meanwhile",
    examples: &["edit /config"],
    origin: Origin::Zebu,
    needs_session: true,
    flags: &[],
    parse,
};

struct Edit {
    path: String,
}

fn parse(given: &Given) -> Parsed {
    Ok(Box::new(Edit { path: given.word(0).ok_or(Failure::Usage)?.to_owned() }))
}

impl Command for Edit {
    fn run<'a>(&'a self, session: &'a mut Session) -> Running<'a> {
        Box::pin(async move {
            paths::check(&self.path)?;
            let client = session.client()?;
            let node = client.get(&self.path).await?;
            let draft = Draft::new(&node.data)?;
            draft.edit()?;
            let edited = without_added_line_end(&node.data, draft.read()?);
            if edited == node.data {
                session.note("unchanged");
                return Ok(Reply::Done);
            }
            let version = node.stat.version;
            match client.set(&self.path, edited).version(Version::Exactly(version)).await {
                Ok(stat) => {
                    session.note(format!("written, now version {}", stat.version));
                    Ok(Reply::Done)
                }
                Err(error) => {
                    let kept = draft.keep();
                    let why = match error.code() {
                        Some(ErrorCode::BadVersion) => {
                            "somebody else has changed the node meanwhile".to_owned()
                        }
                        _ => error.to_string(),
                    };
                    Err(Failure::text(format!("not written: {why}; your text is in {}", kept.display())))
                }
            }
        })
    }
}

/// Removes the line end that editors put behind the last line of a file, unless the data ended with one
/// before.
fn without_added_line_end(before: &[u8], mut edited: Vec<u8>) -> Vec<u8> {
    if !before.ends_with(b"\n") && edited.ends_with(b"\n") {
        edited.pop();
        if edited.ends_with(b"\r") && before.contains(&b'\r') {
            edited.pop();
        }
    }
    edited
}

/// A file that only this user can read, removed unless it is kept.
struct Draft {
    path: Option<PathBuf>,
}

impl Draft {
    fn new(data: &[u8]) -> Result<Draft, Failure> {
        use std::os::unix::fs::OpenOptionsExt;
        let stamp = jiff::Timestamp::now().as_nanosecond();
        let path = std::env::temp_dir().join(format!("zebu-edit-{}-{stamp}", std::process::id()));
        let written = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        written
            .and_then(|mut file| file.write_all(data))
            .map_err(|error| Failure::text(format!("cannot write {}: {error}", path.display())))?;
        Ok(Draft { path: Some(path) })
    }

    fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Blocks until the editor ends; the session is kept alive on another thread.
    fn edit(&self) -> Result<(), Failure> {
        let named = |name: &&str| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty());
        let editor = ["VISUAL", "EDITOR"].iter().find_map(named).unwrap_or_else(|| "vi".to_owned());
        // It may have arguments of its own, as in "code --wait".
        let script = format!("{editor} \"$1\"");
        let status = Process::new("sh").args(["-c", &script, "sh"]).arg(self.path()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(Failure::text(format!("{editor} ended with {status}; nothing was written"))),
            Err(error) => Err(Failure::text(format!("cannot start {editor}: {error}"))),
        }
    }

    fn read(&self) -> Result<Vec<u8>, Failure> {
        let read = std::fs::read(self.path());
        read.map_err(|error| Failure::text(format!("cannot read {}: {error}", self.path().display())))
    }

    fn keep(mut self) -> PathBuf {
        self.path.take().unwrap_or_default()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_line_end_of_the_editor_goes() {
        let kept = |before: &str, edited: &str| {
            String::from_utf8(without_added_line_end(before.as_bytes(), edited.as_bytes().to_vec())).unwrap()
        };
        assert_eq!(kept("5", "5\n"), "5");
        assert_eq!(kept("5", "6\n\n"), "6\n");
        assert_eq!(kept("5\n", "6\n"), "6\n");
        assert_eq!(kept("", "text\n"), "text");
        assert_eq!(kept("a\r\nb", "a\r\nb\r\n"), "a\r\nb");
        assert_eq!(kept("5", "6"), "6");
    }
}
