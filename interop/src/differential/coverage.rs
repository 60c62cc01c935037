//! What a run has met: a comparison that only ever sees refusals proves little.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use zebu_proto::{ErrorCode, OpCode};

use super::observed::{Observed, ReplyBody};
use super::peer::Sight;

/// Counts by operation and error, and by kind of event.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    replies: BTreeMap<(i32, i32), usize>,
    parts: BTreeMap<(i32, i32), usize>,
    events: BTreeMap<i32, usize>,
}

impl Coverage {
    /// Adds what was seen in one step.
    pub(crate) fn add(&mut self, sight: &Sight) {
        for observed in sight.iter().flatten() {
            match observed {
                Observed::Reply(reply) => {
                    *self.replies.entry((reply.op, reply.err)).or_default() += 1;
                    if let ReplyBody::Multi(results) = &reply.body {
                        for (header, _) in results.iter().filter(|(header, _)| !header.done) {
                            *self.parts.entry((header.op, header.err)).or_default() += 1;
                        }
                    }
                }
                Observed::Event { kind, .. } => *self.events.entry(*kind).or_default() += 1,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (title, counts) in [("replies", &self.replies), ("results of multi and multiRead", &self.parts)] {
            writeln!(f, "{title}:")?;
            let ops: BTreeSet<i32> = counts.keys().map(|(op, _)| *op).collect();
            for op in ops {
                let name = OpCode::from_wire(op).map_or(format!("{op}"), |op| format!("{op:?}"));
                let of_op = counts.iter().filter(|((of, _), _)| *of == op);
                let list: Vec<String> =
                    of_op.map(|((_, err), count)| format!("{} {count}", error_name(*err))).collect();
                writeln!(f, "  {name}: {}", list.join(", "))?;
            }
        }
        writeln!(f, "events by type: {:?}", self.events)
    }
}

fn error_name(err: i32) -> String {
    match err {
        0 => "ok".to_owned(),
        err => ErrorCode::from_wire(err).map_or(format!("error {err}"), |code| code.name().to_owned()),
    }
}
