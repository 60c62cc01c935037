//! What clients called and what they were answered, with times: the input of the judge.

use std::time::Instant;

use serde::Serialize;

/// What an operation does to its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Read,
    Write,
    /// A write at one version only.
    WriteIf,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Ok,
    BadVersion,
    /// A write without an answer: it is carried out once, now or later, or never.
    Unknown,
}

/// One operation of one client. A read without an answer is left out: it has no effect and shows nothing.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Operation {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) kind: Kind,
    /// Written, or read.
    pub(super) value: i64,
    /// The version that was read, that a write was answered with, or that a conditional write wants.
    pub(super) version: i32,
    pub(super) outcome: Outcome,
    /// Nanoseconds since the beginning of the history.
    pub(super) called: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) answered: Option<i64>,
}

/// A history on fresh nodes.
#[derive(Debug, Serialize)]
pub(super) struct History {
    /// One word.
    pub(super) name: String,
    pub(super) operations: Vec<Operation>,
}

/// A call in progress.
pub(super) struct Call {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) kind: Kind,
    pub(super) called: i64,
}

impl Call {
    /// The operation without an answer.
    pub(super) fn unanswered(&self, value: i64, version: i32) -> Operation {
        self.operation(value, version, Outcome::Unknown, None)
    }

    /// The operation with its answer, which comes now.
    pub(super) fn answered(&self, value: i64, version: i32, outcome: Outcome, began: Instant) -> Operation {
        self.operation(value, version, outcome, Some(nanos(began)))
    }

    fn operation(&self, value: i64, version: i32, outcome: Outcome, answered: Option<i64>) -> Operation {
        let &Call { client, node, kind, called } = self;
        Operation { client, node, kind, value, version, outcome, called, answered }
    }
}

/// Nanoseconds since the beginning.
pub(super) fn nanos(began: Instant) -> i64 {
    i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX)
}

/// The data of a node with this value.
pub(super) fn data(value: i64) -> [u8; 8] {
    value.to_be_bytes()
}

/// The value of a node with this data.
pub(super) fn value(data: &[u8]) -> Option<i64> {
    data.try_into().ok().map(i64::from_be_bytes)
}
