//! Whole transcripts of the shell: what is typed, all that is written, the status.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;
mod shell_common;

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::{Value, json};
use shell_common::Shell;

/// Standard output, standard error and status.
fn transcript(output: &Output) -> (String, String, i32) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code().unwrap())
}

fn expect(output: &Output, out: &str, error: &str, status: i32) {
    assert_eq!(transcript(output), (out.to_owned(), error.to_owned(), status));
}

#[test]
fn the_word_shell_may_be_left_out() {
    let shell = Shell::start();
    let address = shell.address();
    let run = |words: &[&str]| shell.command(words).output().unwrap();
    shell.run(&["create", "/a", "x"]).expect_done();
    expect(&run(&["-q", "-server", &address, "ls", "/"]), "[a, zookeeper]\n", "", 0);
    expect(&run(&["--json", "--server", &address, "ls", "/a"]), "{\"children\":[],\"path\":\"/a\"}\n", "", 0);
    expect(&run(&["--quiet", "-server", &address, "get", "/a"]), "x\n", "", 0);
    // A command of the shell as the first word: with the servers that nothing is said about.
    let (out, error, status) = transcript(&run(&["ls", "--help"]));
    assert!(out.starts_with("Connecting to localhost:2181\nLists the children of a node\n"), "{out}");
    assert_eq!((error.as_str(), status), ("", 0));
}

#[test]
fn an_unknown_command_is_one_line() {
    let shell = Shell::start();
    let run = |words: &[&str]| {
        let said = shell.raw(&[&["-q", "-server", &shell.address()][..], words].concat());
        (said.out, said.error, said.status)
    };
    let expected = |error: &str| (String::new(), format!("{error}\n"), 127);
    assert_eq!(run(&["rm", "/x"]), expected("rm: no such command; did you mean delete?"));
    assert_eq!(run(&["creat", "/x"]), expected("creat: no such command; did you mean create?"));
    assert_eq!(run(&["nosuchthing"]), expected("nosuchthing: no such command; help lists them"));
}

#[test]
fn a_list_that_is_none_is_one_line_with_an_example() {
    let shell = Shell::start();
    shell.run(&["create", "/num", "1"]).expect_done();
    let error = "world:anyone does not have the form scheme:id:perm; an example is world:anyone:cdrwa\n";
    for words in [&["setAcl", "/num", "world:anyone"][..], &["create", "/new", "x", "world:anyone"]] {
        let said = shell.run(words);
        assert_eq!((said.out.as_str(), said.error.as_str(), said.status), ("", error, 1), "{words:?}");
    }
    assert_eq!(shell.run(&["getAcl", "/num"]).out, "'world,'anyone\n: cdrwa\n");
    assert_eq!(shell.run(&["stat", "/new"]).status, 1);
}

#[test]
fn a_script_reads_the_name_of_a_sequential_node_from_standard_output() {
    let shell = Shell::start();
    let quiet = |words: &[&str]| {
        let said = shell.raw(&[&["-q", "-server", &shell.address()][..], words].concat());
        (said.out, said.error, said.status)
    };
    assert_eq!(quiet(&["create", "/q"]), ("/q\n".to_owned(), String::new(), 0));
    assert_eq!(quiet(&["create", "-s", "/q/i-"]), ("/q/i-0000000000\n".to_owned(), String::new(), 0));
    // As zkCli without -q.
    let said = shell.run(&["create", "-s", "/q/i-"]);
    assert_eq!((said.out.as_str(), said.error.as_str()), ("", "Created /q/i-0000000001\n"));
}

#[test]
fn every_answer_is_an_object() {
    let shell = Shell::start();
    let address = shell.address();
    let json = |words: &[&str]| -> (Value, i32) {
        let said = shell.raw(&[&["--json", "-server", &address][..], words].concat());
        assert_eq!(said.error, "", "{words:?}");
        assert_eq!(said.out.lines().count(), 1, "{words:?}: {}", said.out);
        (serde_json::from_str(&said.out).unwrap(), said.status)
    };
    let (created, status) = json(&["create", "/a", "one"]);
    assert_eq!((&created["created"], &created["stat"]["dataVersion"], status), (&json!("/a"), &json!(0), 0));
    let (set, status) = json(&["set", "/a", "two"]);
    assert_eq!((&set["path"], &set["stat"]["dataVersion"], status), (&json!("/a"), &json!(1), 0));
    let (acl, _) = json(&["setAcl", "/a", "world:anyone:cdrwa"]);
    assert_eq!(acl["stat"]["aclVersion"], 1);
    let (exported, _) = json(&["export", "/a", "-"]);
    assert_eq!(exported["nodes"][0]["data"], "two");
    assert_eq!(json(&["addauth", "digest", "ann:secret"]), (json!({ "done": true }), 0));
    assert_eq!(json(&["delete", "/a"]), (json!({ "deleted": "/a" }), 0));
    let refused =
        |code: &str, message: &str| json!({ "error": { "code": code, "message": message, "path": "/a" } });
    assert_eq!(json(&["get", "/a"]), (refused("NoNode", "Node does not exist: /a"), 1));
    assert_eq!(json(&["stat", "/a"]), (refused("NoNode", "Node does not exist: /a"), 1));
    json(&["create", "/a", "x"]);
    assert_eq!(json(&["create", "/a", "x"]), (refused("NodeExists", "Node already exists: /a"), 1));
    assert_eq!(
        json(&["set", "-v", "7", "/a", "x"]),
        (refused("BadVersion", "version No is not valid : /a"), 1)
    );
    let other = |code: &str, message: &str| json!({ "error": { "code": code, "message": message } });
    assert_eq!(json(&["ls"]), (other("Usage", "ls [-s] [-w] [-R] path"), 1));
    assert_eq!(
        json(&["rm", "/a"]),
        (other("NoSuchCommand", "rm: no such command; did you mean delete?"), 127)
    );
    assert_eq!(json(&["ls", "a"]), (other("Failed", "Path must start with / character"), 1));
    let said = shell.raw(&["--json", "-server", "a:b", "ls", "/"]);
    let value: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&value["error"]["code"], said.status), (&json!("BadArguments"), 1));
}

#[test]
fn an_edit_leaves_the_end_of_the_data_as_it_was() {
    let shell = Shell::start();
    shell.run(&["create", "/e", "5"]).expect_done();
    let address = shell.address();
    let edit = |visual: &str, editor: &str| {
        let mut command = shell.command(&["shell", "-q", "-server", &address, "edit", "/e"]);
        command.env("VISUAL", visual).env("EDITOR", editor).env("TMPDIR", shell.path(""));
        transcript(&command.output().unwrap())
    };
    let script = |name: &str, text: &str| {
        let path = shell.file(name, &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    };
    // As vi and nano save a file of one line.
    let saves = script("saves.sh", "echo >> \"$1\"");
    assert_eq!(edit("", &saves), (String::new(), "unchanged\n".to_owned(), 0));
    let changes = script("changes.sh", "echo 6 > \"$1\"");
    assert_eq!(edit("", &changes), (String::new(), "written, now version 1\n".to_owned(), 0));
    let said = shell.raw(&["--json", "-server", &address, "get", "/e"]);
    assert_eq!(serde_json::from_str::<Value>(&said.out).unwrap()["data"], "6");
}

/// All that a command writes to a terminal.
fn on_a_terminal(mut command: Command, input: &str) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let end = OpenOptions::new().read(true).write(true).open(Path::new(&name)).unwrap();
    command.stdin(Stdio::piped()).stdout(end.try_clone().unwrap()).stderr(end);
    let mut child = command.spawn().unwrap();
    // The child's ends must be the only ones, or reading never ends.
    drop(command);
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let mut seen = Vec::new();
    let mut chunk = [0; 4096];
    let mut terminal = File::from(terminal);
    while let Ok(count @ 1..) = terminal.read(&mut chunk) {
        seen.extend_from_slice(&chunk[..count]);
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

#[test]
fn nothing_of_a_server_controls_the_terminal() {
    let shell = Shell::start();
    let title = "\u{1b}]0;pwned\u{7}";
    shell
        .session(&format!(
            "create /acl x\nsetAcl /acl world:anyone:cdrwa,digest:{title}:AAAA=:r\ncreate /data {title}\n"
        ))
        .expect_done();
    let address = shell.address();
    let command = shell.command(&["shell", "-server", &address]);
    let commands = format!(
        "getAcl /acl\naddauth digest {title}:secret\nwhoami\nget /data\nget /{title}\nlistquota /{title}\n\
         create /acl x digest:{title}:r\n{title}\nhistory\nexport /acl -\ngetAcl --json /acl\n"
    );
    let seen = on_a_terminal(command, &commands);
    assert!(seen.contains("'digest,'\\x1b]0;pwned\\x07:AAAA="), "{seen:?}");
    assert!(seen.contains("digest: \\x1b]0;pwned\\x07"), "{seen:?}");
    assert!(!seen.contains("\u{1b}]0;") && !seen.contains('\u{7}'), "{seen:?}");
}

#[test]
fn nothing_that_answers_a_word_controls_the_terminal() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answers = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
            stream.write_all(b"Zookeeper version: \x1b]0;pwned\x07\nMode: \x1b[31mleader\n").unwrap();
        }
    });
    let output =
        Command::new(env!("CARGO_BIN_EXE_zebu")).args(["stat", "--once", &address]).output().unwrap();
    answers.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\\x1b[31mleader") && !text.contains('\u{1b}'), "{text:?}");
}

#[test]
fn the_reason_why_no_server_can_be_reached_is_told() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zebu"));
        transcript(&command.args(words).current_dir(home.path()).env_clear().output().unwrap())
    };
    let refused = "127.0.0.1:1: Connection refused (os error 111)";
    let (out, error, status) = run(&["-server", "127.0.0.1:1", "-timeout", "1000", "ls", "/"]);
    assert_eq!(out, "Connecting to 127.0.0.1:1\n");
    let expected = format!(
        "{refused}; waiting for a server\nKeeperErrorCode = ConnectionLoss for /\nno server can be reached: {refused}\n"
    );
    assert_eq!((error, status), (expected, 1));
    let (out, error, status) = run(&["--json", "-server", "127.0.0.1:1", "-timeout", "1000", "ls", "/"]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let message = format!("KeeperErrorCode = ConnectionLoss for /\nno server can be reached: {refused}");
    assert_eq!(value, json!({ "error": { "code": "ConnectionLoss", "message": message, "path": "/" } }));
    assert_eq!((error, status), (format!("{refused}; waiting for a server\n"), 1));
    let (_, error, status) = run(&["-q", "-server", "no-such-host.invalid", "-timeout", "1000", "ls", "/"]);
    assert!(error.starts_with("no-such-host.invalid:2181: "), "{error}");
    assert_eq!(status, 1);
}
