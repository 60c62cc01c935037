//! What `zebu check` noticed beside the configuration itself, and what follows from it for a start.

use std::fmt;

use serde_json::{Value, json};

/// One thing that was noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Notice {
    /// The server would not start; the exit status of `serve`.
    Fatal { text: String, status: u8 },
    /// The server would not start while another process has what it needs.
    Busy(String),
    /// The server would start, but not work as it should, above all beside Apache ZooKeeper servers.
    Obstacle(String),
    /// Worth knowing.
    Remark(String),
}

impl Notice {
    pub(super) fn text(&self) -> &str {
        match self {
            Notice::Fatal { text, .. }
            | Notice::Busy(text)
            | Notice::Obstacle(text)
            | Notice::Remark(text) => text,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Notice::Fatal { .. } => "error",
            Notice::Busy(_) => "busy",
            Notice::Obstacle(_) => "obstacle",
            Notice::Remark(_) => "note",
        };
        write!(formatter, "{kind}: {}", self.text())
    }
}

/// All notices of one kind after the other, the worst first.
#[derive(Debug, Default)]
pub(super) struct Notices(pub(super) Vec<Notice>);

impl Notices {
    /// The status with which `serve` would end at once, if it would.
    pub(super) fn fatal_status(&self) -> Option<u8> {
        self.0.iter().find_map(|notice| match notice {
            Notice::Fatal { status, .. } => Some(*status),
            Notice::Busy(_) | Notice::Obstacle(_) | Notice::Remark(_) => None,
        })
    }

    pub(super) fn has_busy(&self) -> bool {
        self.0.iter().any(|notice| matches!(notice, Notice::Busy(_)))
    }

    pub(super) fn has_obstacle(&self) -> bool {
        self.0.iter().any(|notice| matches!(notice, Notice::Obstacle(_)))
    }

    /// Puts the lists into an object.
    pub(super) fn put_into(&self, object: &mut Value) {
        let texts = |wanted: fn(&Notice) -> bool| -> Value {
            self.0.iter().filter(|notice| wanted(notice)).map(|notice| json!(notice.text())).collect()
        };
        object["fatal"] = texts(|notice| matches!(notice, Notice::Fatal { .. }));
        object["busy"] = texts(|notice| matches!(notice, Notice::Busy(_)));
        object["obstacles"] = texts(|notice| matches!(notice, Notice::Obstacle(_)));
        object["remarks"] = texts(|notice| matches!(notice, Notice::Remark(_)));
    }
}
