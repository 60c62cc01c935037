//! Protocol scripts. A script in `testdata/scripts` gives commands to an ensemble and shows the whole trace
//! of reactions. `ZAB_REWRITE_SCRIPTS=1` writes the actual trace into the scripts; read the diff before a
//! commit.
//!
//! A script consists of blocks: commands, a line `----`, the trace, an empty line. `#` starts a comment.
//!
//! | Command | Effect |
//! |---|---|
//! | `ensemble voters=1,2,3 [observers=4] [dynamic] [history=N]` | the config; `history` bounds the memory |
//! | `start 1 [last=5/7] [from=5/1] [epoch=5]` | starts a server; the first start defines its disk |
//! | `crash 1` | the server loses its memory and its unfinished writes |
//! | `deliver 1->2 [KIND]` | delivers the next message, or all that are queued now |
//! | `drop 1->2 [KIND]` | loses them |
//! | `persist 1` | the disk finishes all writes |
//! | `tick 200` | the time passes, with all timeouts |
//! | `propose 1`, `reconfig 1 voters=1,2 observers=3` | the leader proposes |
//! | `disconnect 1 2` | ends the links between two servers |
//! | `settle 500` | the same time with a perfect network and fast disks; shows only the status |
//! | `status`, `queues` | the state of all servers; the messages that are not delivered |

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says by panicking that it failed")]

mod ensemble;
mod server;
mod text;

use std::fs;
use std::path::Path;

use ensemble::Ensemble;

/// One block of a script: comments and commands, then the trace.
struct Block {
    lines: Vec<String>,
    trace: String,
}

fn parse(script: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = Vec::new();
    let mut rest = script.lines();
    while let Some(line) = rest.next() {
        if line == "----" {
            let trace: Vec<&str> = rest.by_ref().take_while(|line| !line.is_empty()).collect();
            let trace = trace.iter().map(|line| format!("{line}\n")).collect();
            blocks.push(Block { lines: std::mem::take(&mut lines), trace });
        } else {
            lines.push(line.to_owned());
        }
    }
    assert!(lines.is_empty(), "commands without a trace: {lines:?}");
    blocks
}

fn run_block(ensemble: &mut Ensemble, block: &Block) -> String {
    for line in block.lines.iter().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        ensemble.run(line);
    }
    ensemble.take_trace()
}

fn run_script(path: &Path) -> Result<(), String> {
    let script = fs::read_to_string(path).unwrap();
    let mut ensemble = Ensemble::default();
    let mut rewritten = Vec::new();
    let mut differences = String::new();
    for block in parse(&script) {
        let trace = run_block(&mut ensemble, &block);
        let commands = block.lines.join("\n");
        if trace != block.trace {
            differences += &format!("{commands}\n---- expected\n{}---- found\n{trace}\n", block.trace);
        }
        rewritten.push(format!("{commands}\n----\n{trace}"));
    }
    assert!(!rewritten.is_empty(), "{} has no commands", path.display());
    if std::env::var_os("ZAB_REWRITE_SCRIPTS").is_some() {
        fs::write(path, rewritten.join("\n")).unwrap();
        return Ok(());
    }
    if differences.is_empty() { Ok(()) } else { Err(format!("{}\n{differences}", path.display())) }
}

#[test]
fn every_script_shows_its_trace() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/scripts");
    let mut paths: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 9, "scripts are missing: {paths:?}");
    let failures: Vec<String> = paths.iter().filter_map(|path| run_script(path).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
