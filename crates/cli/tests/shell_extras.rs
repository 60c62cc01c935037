//! What the shell has beyond zkCli, from outside: JSON, files of subtrees, copies, drawings, editing,
//! following, and the monitor.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod common;
mod shell_common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};
use shell_common::Shell;

impl Shell {
    fn json(&self, words: &[&str]) -> Value {
        let address = self.address();
        let said = self.raw(&[&["-server", &address, "--json"][..], words].concat());
        assert_eq!(said.status, 0, "{words:?}: {said:?}");
        serde_json::from_slice(&said.raw_out).unwrap()
    }
}

#[test]
fn every_read_has_json() {
    let shell = Shell::start();
    shell.session("create /j text\ncreate /j/a x\nset -b /j/a /wA=\nsetquota -n 5 /j\n").expect_done();
    assert_eq!(shell.json(&["ls", "/j"]), json!({ "path": "/j", "children": ["a"] }));
    assert_eq!(shell.json(&["ls", "-s", "/j"])["stat"]["numChildren"], 1);
    assert_eq!(shell.json(&["ls", "-R", "/j"]), json!({ "paths": ["/j", "/j/a"] }));
    let node = shell.json(&["get", "/j"]);
    assert_eq!((&node["data"], &node["stat"]["dataLength"]), (&json!("text"), &json!(4)));
    assert_eq!(shell.json(&["get", "/j/a"])["data_base64"], "/wA=");
    assert_eq!(shell.json(&["stat", "/j"])["stat"]["ephemeralOwner"], "0x0");
    let acl = json!([{ "scheme": "world", "id": "anyone", "permissions": "cdrwa" }]);
    assert_eq!(shell.json(&["getAcl", "/j"])["acl"], acl);
    assert_eq!(shell.json(&["getAllChildrenNumber", "/j"])["count"], 1);
    assert_eq!(shell.json(&["getEphemerals"]), json!({ "ephemerals": [] }));
    assert_eq!(shell.json(&["whoami"])["identities"][0]["scheme"], "ip");
    let quota = shell.json(&["listquota", "/j"]);
    assert_eq!((&quota["limits"]["count"], &quota["limits"]["bytes"]), (&json!(5), &Value::Null));
    assert_eq!(quota["usage"], json!({ "count": 2, "bytes": 6 }));
    assert_eq!(shell.json(&["config"]), json!({ "config": "" }));
    assert_eq!(shell.json(&["tree", "/j"])["children"][0]["name"], "a");
    assert_eq!(shell.json(&["find", "/j", "-name", "a"]), json!({ "paths": ["/j/a"] }));
    assert_eq!(shell.json(&["create", "/j/b"])["created"], "/j/b");
    assert_eq!(shell.json(&["history"])["history"][0]["line"], "history");
    let said = shell.run(&["ls", "--json", "/j/a"]);
    assert!(said.out.ends_with("{\"children\":[],\"path\":\"/j/a\"}\n"), "{}", said.out);
    let refused = shell.raw(&["--json", "-server", &shell.address(), "get", "/none"]);
    assert_eq!((refused.status, refused.error.as_str()), (1, ""));
    let expected =
        json!({ "error": { "code": "NoNode", "message": "Node does not exist: /none", "path": "/none" } });
    assert_eq!(serde_json::from_str::<Value>(&refused.out).unwrap(), expected);
}

#[test]
fn data_that_is_no_text_passes_unchanged() {
    let shell = Shell::start();
    shell.session("create /b\nset -b /b /wAbWzMxbQ==\n").expect_done();
    let said = shell.raw(&["-q", "-server", &shell.address(), "get", "/b"]);
    assert_eq!(said.raw_out, b"\xff\0\x1b[31m\n");
    assert_eq!(shell.run(&["get", "-b", "/b"]).out, "/wAbWzMxbQ==\n");
}

#[test]
fn a_subtree_goes_into_a_file_and_back() {
    let shell = Shell::start();
    shell
        .session(
            "create /src top\ncreate /src/a \"line\"\ncreate /src/a/b\nset -b /src/a/b /wAB\n\
             create /src/null\ncreate /src/empty \"\"\nsetAcl /src/a world:anyone:cdra\n",
        )
        .expect_done();
    let exported = shell.session("create -e /src/e x\nexport /src tree.json\n");
    assert!(
        exported.error.ends_with("5 nodes exported, 10 bytes, 1 ephemeral node left out\n"),
        "{exported:?}"
    );
    let refused = shell.run(&["import", "tree.json"]);
    assert_eq!(refused.status, 1);
    assert!(
        refused.error.contains("5 of the nodes are there already, the first is /src"),
        "{}",
        refused.error
    );
    assert!(refused.error.contains("--overwrite"), "{}", refused.error);
    let dry = shell.run(&["import", "--dry-run", "tree.json", "/copy"]);
    assert_eq!(dry.error, "5 nodes would be imported, 10 bytes\n");
    assert_eq!(shell.run(&["stat", "/copy"]).status, 1, "nothing was written");
    shell.run(&["import", "tree.json", "/copy"]).expect_done();
    shell.run(&["export", "/copy", "copy.json"]).expect_done();
    let text = |name: &str| std::fs::read_to_string(shell.path(name)).unwrap();
    assert_eq!(text("copy.json").replace("\"/copy\"", "\"/src\""), text("tree.json"));
    assert_eq!(shell.run(&["get", "/copy/null"]).out, "null\n");
    assert_eq!(shell.run(&["getAcl", "/copy/a"]).out, "'world,'anyone\n: cdra\n");
    shell.run(&["set", "/copy", "changed"]).expect_done();
    let over = shell.run(&["import", "--overwrite", "tree.json", "/copy"]);
    // One of its nodes does not allow writing.
    assert_eq!(
        (over.status, over.error.contains("Insufficient permission : /copy/a")),
        (1, true),
        "{over:?}"
    );
    assert_eq!(shell.run(&["get", "/copy"]).out, "top\n");
    for (name, content) in [("bad.json", "{"), ("other.json", "{\"format\":\"x\"}")] {
        let file = shell.file(name, content);
        assert_eq!(shell.run(&["import", &file]).status, 1, "{name}");
    }
    assert_eq!(shell.run(&["import", "nowhere.json"]).status, 1);
    let printed = shell.raw(&["-q", "-server", &shell.address(), "export", "/src", "-"]);
    assert_eq!(String::from_utf8(printed.raw_out).unwrap(), text("tree.json"));
}

#[test]
fn many_nodes_survive_the_round_trip() {
    let shell = Shell::start();
    let mut commands = String::from("create /many\n");
    (0..500).for_each(|number| commands += &format!("create /many/{number} {number}\n"));
    shell.session(&commands).expect_done();
    shell.run(&["export", "/many", "many.json"]).expect_done();
    shell.run(&["deleteall", "/many"]).expect_done();
    let said = shell.run(&["import", "many.json"]);
    assert_eq!(said.error, "501 nodes imported, 1390 bytes\n");
    assert_eq!(shell.run(&["getAllChildrenNumber", "/many"]).out, "500\n");
    assert_eq!(shell.run(&["get", "/many/499"]).out, "499\n");
}

#[test]
fn copies_drawings_and_searches() {
    let shell = Shell::start();
    shell
        .session("create /c top\ncreate /c/lock-1 jdbc:x\ncreate /c/lock-1/deep y\ncreate /c/z\n")
        .expect_done();
    assert_eq!(shell.run(&["cp", "/c", "/d"]).error, "1 node copied, 3 bytes\n");
    assert_eq!(shell.run(&["cp", "-r", "/c", "/d"]).status, 1, "it is there already");
    assert_eq!(
        shell.run(&["cp", "-rf", "/c", "/d"]).error,
        "4 nodes copied, 10 bytes, 1 of them overwritten\n"
    );
    shell.run(&["cp", "-r", "/c", "/c/below"]).expect_done();
    let drawn = shell.run(&["tree", "-s", "/d"]).out;
    assert_eq!(drawn, "/d  3 bytes\n├── lock-1  6 bytes\n│   └── deep  1 byte\n└── z  0 bytes\n");
    assert_eq!(shell.run(&["tree", "-L", "1", "/d"]).out, "/d\n├── lock-1 …\n└── z …\n");
    assert_eq!(shell.run(&["find", "/d", "-name", "lock*"]).out, "/d/lock-1\n");
    assert_eq!(shell.run(&["find", "/d", "-data", "jdbc:"]).out, "/d/lock-1\n");
    assert_eq!(shell.run(&["find", "/d", "-larger", "3"]).out, "/d/lock-1\n");
    let ephemeral = shell.session("create -e /d/e\nfind /d -ephemeral\n");
    assert_eq!(ephemeral.out, "/d/e\n");
    assert_eq!(shell.run(&["find", "/none"]).error, "Node does not exist: /none\n");
}

#[test]
fn an_edit_never_overwrites_the_work_of_others() {
    let shell = Shell::start();
    shell.run(&["create", "/e", "old"]).expect_done();
    let address = shell.address();
    let edit = |script: &str| {
        let editor = shell.file("editor.sh", &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut command = shell.command(&["shell", "-q", "-server", &address, "edit", "/e"]);
        let output = command.env("EDITOR", editor).env("TMPDIR", shell.path("")).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(edit("printf new > \"$1\""), (0, "written, now version 1\n".to_owned()));
    assert_eq!(shell.run(&["get", "/e"]).out, "new\n");
    assert_eq!(edit("true"), (0, "unchanged\n".to_owned()));
    assert_eq!(edit("exit 3").0, 1);
    let zebu = env!("CARGO_BIN_EXE_zebu");
    let other = format!("{zebu} shell -q -server {address} set /e theirs\nprintf mine > \"$1\"");
    let (status, error) = edit(&other);
    assert!(status == 1 && error.contains("somebody else has changed the node"), "{error}");
    assert_eq!(shell.run(&["get", "/e"]).out, "theirs\n");
    let kept = error.trim_end().rsplit(' ').next().unwrap();
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "mine");
}

#[test]
fn events_are_followed_live() {
    let shell = Shell::start();
    shell.run(&["create", "/f"]).expect_done();
    let address = shell.address();
    let mut command = shell.command(&["shell", "-q", "-server", &address, "watch", "-c", "2", "/f"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut ready).unwrap();
    assert_eq!(ready, "watching /f\n");
    shell.session("create /f/x\nset /f y\n").expect_done();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').skip(1).take(2).collect()).collect();
    assert_eq!(words, [["NodeCreated", "/f/x"], ["NodeDataChanged", "/f"]]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(shell.run(&["watch", "-t", "0", "/f"]).status, 0);
}

#[test]
fn help_explains_every_command() {
    let shell = Shell::start();
    let overview = shell.run(&["help"]).out;
    for name in ["getAllChildrenNumber", "rmr", "export", "watch"] {
        assert!(overview.contains(&format!("  {name} ")), "{name}");
    }
    for words in [&["help", "create"][..], &["create", "--help"]] {
        let help = shell.run(words).out;
        assert!(help.starts_with("Creates a node\n\nUsage: create [-s]"), "{help}");
        assert!(help.contains("Examples:\n  create /config v1\n"), "{help}");
    }
    assert_eq!(shell.run(&["help", "nosuch"]).status, 1);
}

#[test]
fn the_words_of_zkcli_need_no_command() {
    let shell = Shell::start();
    let address = shell.address();
    let output = shell.command(&["-server", &address, "ls", "/"]).output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().ends_with("[zookeeper]\n"));
    let output = shell.command(&["-server", &address, "get", "/none"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_monitor_looks_once_or_again() {
    let shell = Shell::start();
    let address = shell.address();
    let output = shell.command(&["stat", "--once", &address]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("SERVER") && text.contains(" standalone "), "{text}");
    assert_eq!(output.status.code(), Some(0));
    let output = shell.command(&["stat", "--once", "--json", &address, "127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "one does not answer");
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (up, down) = (&value["servers"][0], &value["servers"][1]);
    assert_eq!((&up["mode"], &up["watches"]), (&json!("standalone"), &json!(0)));
    assert!(up["nodes"].as_u64().unwrap() >= 4 && down["error"].is_string(), "{value}");
    let mut again = shell.command(&["stat", "--json", &address]);
    let mut child = again.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rate = |line: String| {
        serde_json::from_str::<Value>(&line).unwrap()["servers"][0]["requests_per_second"].clone()
    };
    assert_eq!(rate(lines.next().unwrap().unwrap()), Value::Null);
    assert!(rate(lines.next().unwrap().unwrap()).is_number());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_subtree_whose_parents_may_not_be_written_comes_back() {
    let shell = Shell::start();
    shell
        .session(
            "create /x\ncreate /x/ro data\ncreate /x/ro/child c\ncreate /x/ro/child/leaf l\n\
             setAcl /x/ro/child/leaf world:anyone:r\nsetAcl /x/ro/child world:anyone:ra\nsetAcl /x/ro world:anyone:r\n\
             create /x/own secret digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:r\n",
        )
        .expect_done();
    // What the exporter may read is what the importer brings back.
    let export = shell.session("addauth digest ann:secret\nexport /x x.json\n");
    export.expect_done();
    let imported = shell.run(&["import", "x.json", "/y"]);
    assert_eq!(
        (imported.error.as_str(), imported.status),
        ("5 nodes imported, 12 bytes\n", 0),
        "{imported:?}"
    );
    for (node, acl) in [
        ("/y/ro", "'world,'anyone\n: r\n"),
        ("/y/ro/child", "'world,'anyone\n: ra\n"),
        ("/y/ro/child/leaf", "'world,'anyone\n: r\n"),
    ] {
        assert_eq!(shell.run(&["getAcl", node]).out, acl, "{node}");
    }
    assert_eq!(shell.run(&["get", "/y/ro/child/leaf"]).out, "l\n");
    let copied = shell.run(&["cp", "-r", "/x/ro", "/z"]);
    assert_eq!((copied.error.as_str(), copied.status), ("3 nodes copied, 6 bytes\n", 0), "{copied:?}");
    assert_eq!(shell.run(&["getAcl", "/z"]).out, "'world,'anyone\n: r\n");
}

#[test]
fn sequential_creates_do_not_collide_after_an_import() {
    let shell = Shell::start();
    shell
        .session(
            "create /q\ncreate -s /q/q-\ncreate -s /q/q-\ncreate -s /q/q-\ndelete /q/q-0000000000\n\
             delete /q/q-0000000001\ncreate /q/tel-0301234567\nexport /q q.json\n",
        )
        .expect_done();
    shell.run(&["import", "q.json", "/r"]).expect_done();
    shell.run(&["cp", "-r", "/q", "/s"]).expect_done();
    for queue in ["/r", "/s"] {
        let path = format!("{queue}/q-");
        let said = shell.session(&format!("create -s {path}\ncreate -s {path}\n"));
        assert_eq!(said.status, 0, "{said:?}");
        // Two nodes were written and a third number is taken: the counter had to be raised by one.
        assert_eq!(said.error, format!("Created {path}0000000003\nCreated {path}0000000004\n"));
    }
    // A file without counters, as earlier versions wrote it: the names alone say how far a counter must be.
    let file = shell.file(
        "old.json",
        r#"{"format":"zebu-subtree","version":1,"root":"/old","nodes":[
{"path":"","acl":[],"data":""},
{"path":"/n0000200000","acl":[],"data":""}
]}"#,
    );
    let said = shell.run(&["import", &file]);
    assert_eq!(
        (said.error.as_str(), said.status),
        (
            "warning: /old: the next sequential node gets the number 1, but numbers up to 200000 are in use below it: \
             creates will collide until then\n2 nodes imported, 0 bytes\n",
            0
        )
    );
}

#[test]
fn a_node_named_zookeeper_below_a_chroot_is_exported() {
    let shell = Shell::start();
    shell.session("create /app\ncreate /app/zookeeper mine\ncreate /app/zookeeper/below x\n").expect_done();
    let servers = format!("{}/app", shell.address());
    let said = shell.raw(&["-q", "-server", &servers, "export", "/", "all.json"]);
    assert_eq!((said.error.as_str(), said.status), ("3 nodes exported, 5 bytes\n", 0), "{said:?}");
    // At the root of the server it is the server's own.
    let said = shell.run(&["export", "/", "root.json"]);
    assert_eq!(said.error, "4 nodes exported, 5 bytes\n");
}

#[test]
fn import_reads_standard_input() {
    let shell = Shell::start();
    shell.session("create /src one\ncreate /src/a two\n").expect_done();
    let exported = shell.raw(&["-q", "-server", &shell.address(), "export", "/src", "-"]);
    let file = shell.file("tree.json", &exported.out);
    let address = shell.address();
    let mut command = shell.command(&["shell", "-q", "-server", &address, "import", "-", "/copy"]);
    command.stdin(std::fs::File::open(file).unwrap());
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "2 nodes imported, 6 bytes\n");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(shell.run(&["get", "/copy/a"]).out, "two\n");
    let said = shell.session("import -\n");
    assert_eq!(
        (said.error.as_str(), said.status),
        (
            "import - reads standard input, from where the commands come; name a file, or run zebu shell import -\n",
            1
        )
    );
}
