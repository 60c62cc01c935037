//! A flaw in a file, in words: where, what, what it means, what to do.

use serde_json::{Value, json};

/// A flaw in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The offset in bytes; for a snapshot, in its uncompressed content.
    pub(crate) offset: Option<u64>,
    /// The damage.
    pub(crate) what: String,
    /// The consequence for the data.
    pub(crate) meaning: String,
    /// What to do.
    pub(crate) advice: String,
}

impl Finding {
    /// Lines for people; the file is named by the caller.
    pub(crate) fn lines(&self) -> [String; 3] {
        let place = self.offset.map_or(String::new(), |offset| format!(" at offset {offset}"));
        [
            format!("  flaw{place}: {}", self.what),
            format!("  meaning: {}", self.meaning),
            format!("  to do: {}", self.advice),
        ]
    }

    /// The same for scripts.
    pub(crate) fn json(&self) -> Value {
        json!({ "offset": self.offset, "what": self.what, "meaning": self.meaning, "advice": self.advice })
    }
}
