//! Lines from a person at a terminal: editing, history across sessions, completion. It runs on a thread of
//! its own, because reading a key blocks.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, ExternalPrinter, Helper};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use zebu_client::Client;

use super::completion;

/// How long the tab key waits for a server.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// What a person did.
pub(crate) enum Typed {
    Line(String),
    /// Ctrl-C: this line is forgotten.
    Nothing,
    /// Ctrl-D, or the terminal went.
    End,
}

/// Where completion finds the client of the moment.
pub(crate) type CurrentClient = Arc<Mutex<Option<Client>>>;

/// The near end of the thread.
pub(crate) struct Keyboard {
    prompts: std::sync::mpsc::Sender<String>,
    pub(crate) typed: mpsc::UnboundedReceiver<Typed>,
}

impl Keyboard {
    /// Starts the thread. The printer writes above the line that is being edited.
    pub(crate) fn start(
        client: CurrentClient,
    ) -> Result<(Keyboard, Box<dyn ExternalPrinter + Send>), ReadlineError> {
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor: Editor<Completion, DefaultHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(Completion { client, runtime: Handle::current() }));
        let file = history_file();
        if let Some(file) = &file {
            // There is none at the first time.
            let _ = editor.load_history(file);
        }
        let printer = editor.create_external_printer()?;
        let (prompts, receiver) = std::sync::mpsc::channel::<String>();
        let (sender, typed) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            while let Ok(prompt) = receiver.recv() {
                let typed = read(&mut editor, &prompt, file.as_ref());
                if sender.send(typed).is_err() {
                    return;
                }
            }
        });
        Ok((Keyboard { prompts, typed }, Box::new(printer)))
    }

    /// Asks for a line; it comes through `typed`.
    pub(crate) fn ask(&self, prompt: String) {
        // A thread that has gone has said so through `typed`.
        let _ = self.prompts.send(prompt);
    }
}

fn read(editor: &mut Editor<Completion, DefaultHistory>, prompt: &str, file: Option<&PathBuf>) -> Typed {
    match editor.readline(prompt) {
        Ok(line) => {
            // Credentials do not belong into a file.
            if !line.trim().is_empty() && !line.trim_start().starts_with("addauth") {
                let _ = editor.add_history_entry(line.as_str());
                if let Some(file) = file {
                    let _ = editor.save_history(file);
                }
            }
            Typed::Line(line)
        }
        Err(ReadlineError::Interrupted) => Typed::Nothing,
        Err(_) => Typed::End,
    }
}

fn history_file() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("ZEBU_HISTORY") {
        return Some(named.into()).filter(|path: &PathBuf| !path.as_os_str().is_empty());
    }
    std::env::home_dir().map(|home| home.join(".zebu_history"))
}

/// Completion with the paths of the server.
struct Completion {
    client: CurrentClient,
    runtime: Handle,
}

impl Completion {
    fn children(&self, parent: &str) -> Vec<String> {
        let client = self.client.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(client) = client.filter(|client| client.state().is_connected()) else { return Vec::new() };
        let listing = async { tokio::time::timeout(TIME_LIMIT, client.children(parent).send()).await };
        match self.runtime.block_on(listing) {
            Ok(Ok(list)) => list.names,
            Ok(Err(_)) | Err(_) => Vec::new(),
        }
    }
}

impl Completer for Completion {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(completion::complete(line, position, |parent| self.children(parent)))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}
impl Validator for Completion {}
impl Helper for Completion {}
