//! Pages of the documentation as tests: their code blocks, with the ports of a page replaced by free ones, as
//! files and as commands in a directory of their own.

#![allow(dead_code, reason = "each page uses a part")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use zebu_testing::port;

/// The program under test.
pub(crate) const ZEBU: &str = env!("CARGO_BIN_EXE_zebu");

/// Seconds for the commands of one block.
const BLOCK_SECONDS: &str = "300";

/// A code block.
#[derive(Debug)]
pub(crate) struct Block {
    /// The words behind the opening fence.
    pub(crate) kind: String,
    /// Lines without the indentation of the fence; empty ones are left out.
    pub(crate) lines: Vec<String>,
}

impl Block {
    pub(crate) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// The code blocks of a text, in its order.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for line in page.lines() {
        let indentation = line.len() - line.trim_start().len();
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(kind), None) => {
                open = Some((Block { kind: kind.trim().to_owned(), lines: Vec::new() }, indentation));
            }
            (Some(_), Some((block, _))) => blocks.push(block),
            (None, Some((mut block, fence))) => {
                let line = line.get(fence..).unwrap_or_default();
                if !line.is_empty() {
                    block.lines.push(line.to_owned());
                }
                open = Some((block, fence));
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a code block does not end");
    blocks
}

/// The part of a page below a heading, up to the next heading of its level.
pub(crate) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let below =
        page.split(&format!("## {heading}\n")).nth(1).unwrap_or_else(|| panic!("no heading {heading}"));
    below.split("\n## ").next().unwrap_or(below)
}

/// The text with each of these ports replaced by a free one.
pub(crate) fn with_free_ports(text: &str, ports: &[u16]) -> String {
    let free = |page_port: &u16| (page_port.to_string(), port::free_address().unwrap().port().to_string());
    let pairs: Vec<(String, String)> = ports.iter().map(free).collect();
    let mut replaced = String::new();
    let mut number = String::new();
    for letter in text.chars().chain(std::iter::once('\0')) {
        if letter.is_ascii_digit() {
            number.push(letter);
            continue;
        }
        let found = pairs.iter().find(|(from, _)| *from == number).map(|(_, to)| to.clone());
        replaced.push_str(&found.unwrap_or(std::mem::take(&mut number)));
        number.clear();
        if letter != '\0' {
            replaced.push(letter);
        }
    }
    replaced
}

/// A line of a page as a command in the directory.
pub(crate) fn command(home: &Path, line: &str) -> Command {
    let mut words = line.split_whitespace();
    let program = match words.next().unwrap() {
        "zebu" => ZEBU,
        other => other,
    };
    let mut command = Command::new(program);
    command.args(words).current_dir(home).stdin(Stdio::null());
    command
}

/// Standard output and standard error.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs a line that must succeed.
pub(crate) fn succeed(home: &Path, line: &str) -> String {
    let output = command(home, line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output));
    text(&output)
}

/// Runs the lines of a block with bash, which finds `zebu` in `bin` of the directory. The first failure ends
/// it.
pub(crate) fn run_script(home: &Path, block: &Block) -> String {
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("timeout");
    command.args([BLOCK_SECONDS, "bash", "-euo", "pipefail", "-c"]).arg(block.text());
    let output = command.current_dir(home).env("PATH", path).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}\n{:?}: {}", block.text(), output.status, text(&output));
    text(&output)
}
