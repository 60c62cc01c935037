//! `edit`: the data of a node in the user's editor. It is written back only if nobody changed it meanwhile.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

use zebu_client::{ErrorCode, Version};

use crate::shell::command::{Command, Entry, Needs, Origin, Parsed, Running};
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
    needs: Needs::Session,
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
            let edited = draft.read()?;
            if edited == node.data {
                session.note("unchanged");
                return Ok(Reply::Nothing);
            }
            let version = node.stat.version;
            match client.set(&self.path, edited).version(Version::Exactly(version)).await {
                Ok(stat) => {
                    session.note(format!("written, now version {}", stat.version));
                    Ok(Reply::Nothing)
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
        let editor = ["VISUAL", "EDITOR"].iter().find_map(|name| std::env::var(name).ok());
        let editor = editor.filter(|editor| !editor.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
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
