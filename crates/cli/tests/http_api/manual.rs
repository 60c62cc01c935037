//! The commands of docs/http-api.md, one after the other, with curl.

use std::process::{Command, Stdio};

use crate::api::{Api, server};

/// The address of the page; the test replaces it by that of its server.
const PAGE_ADDRESS: &str = "127.0.0.1:8080";

/// A command of the page and the output that it shows.
#[derive(Debug)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// Every line `$ …` of the code blocks, with the lines below it. A backslash continues a command.
fn commands() -> Vec<Shown> {
    let page = include_str!("../../../../docs/http-api.md");
    let mut shown: Vec<Shown> = Vec::new();
    let mut continues = false;
    for block in page.split("```").skip(1).step_by(2) {
        let mut is_commands = false;
        for line in block.lines().skip(1) {
            if let Some(command) = line.strip_prefix("$ ") {
                is_commands = true;
                shown.push(Shown { command: command.to_owned(), output: Vec::new() });
            } else if let Some(last) = shown.last_mut().filter(|_| is_commands) {
                match continues {
                    true => last.command += &format!("\n{line}"),
                    false => last.output.push(line.to_owned()),
                }
            }
            continues = is_commands && line.ends_with('\\');
        }
    }
    shown
}

/// Whether the text has all parts of the line between the marks `…`, in order.
fn fits(line: &str, text: &str) -> bool {
    let mut rest = text;
    line.split('…').all(|part| match rest.find(part) {
        Some(place) => {
            rest = &rest[place + part.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn every_command_of_the_page_answers_as_shown() {
    let server = server().line("feed.readers=world:anyone").start().unwrap();
    let address = Api::of(&server).address.to_string();
    let home = tempfile::tempdir().unwrap();
    let commands = commands();
    assert!(commands.len() > 20, "{}", commands.len());
    for Shown { command, output } in commands {
        assert!(command.contains("curl"), "{command}");
        let script = command.replace(PAGE_ADDRESS, &address);
        let ran = Command::new("sh")
            .args(["-c", &script])
            .current_dir(home.path())
            .stdin(Stdio::null())
            .output()
            .expect("sh is there");
        let text = String::from_utf8_lossy(&ran.stdout).replace('\r', "");
        assert!(ran.status.success(), "{command}: {}{text}", String::from_utf8_lossy(&ran.stderr));
        for line in output.iter().filter(|line| !line.trim().is_empty()) {
            assert!(
                text.lines().any(|shown| fits(line.trim_end(), shown)),
                "{command}\nexpected {line}\ngot {text}"
            );
        }
    }
}
