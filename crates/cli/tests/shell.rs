//! The shell from outside, against a server process: zkCli's commands in their new and older forms, what they
//! print and how they end.

mod common;
mod shell_common;

use shell_common::{Shell, lines};

#[test]
fn nodes_of_every_kind() {
    let shell = Shell::start();
    let said = shell.session(
        "create /a hello\ncreate /a again\ncreate /x/y z\ncreate -s /a/n- x\ncreate -e /a/e x\n\
         create /a/e/c x\ncreate -c /a/c\ncreate -t 3600000 /a/t d\ncreate /a/null\ncreate /a/empty \"\"\n\
         get /a\nget /a/null\nget /a/empty\nls /a\nls -R /a\ngetAllChildrenNumber /a\ngetEphemerals\n\
         create -e -c /q\ncreate -t 0 /q\ncreate -t x /q\ncreate -e -t 5 /q\ncreate relative x\n",
    );
    assert_eq!(
        said.out,
        "hello\nnull\n\n[c, e, empty, n-0000000000, null, t]\n/a\n/a/c\n/a/e\n/a/empty\n/a/n-0000000000\n\
         /a/null\n/a/t\n6\n[/a/e]\n"
    );
    assert_eq!(
        said.error,
        "Created /a\nNode already exists: /a\nNode does not exist: /x/y\nCreated /a/n-0000000000\n\
         Created /a/e\nEphemerals cannot have children: /a/e/c\nCreated /a/c\nCreated /a/t\nCreated /a/null\n\
         Created /a/empty\n-c cannot be combined with -s or -e. Containers cannot be ephemeral or sequential.\n\
         ttl must be positive and cannot be larger than: 1099511627775\n-t argument must be a long value\n\
         TTLs cannot be used with Ephemeral znodes\nPath must start with / character\n"
    );
    assert_eq!(said.status, 1, "that of the last command");
    assert_eq!(shell.run(&["stat", "/a/e"]).status, 1, "it went with its session");
}

#[test]
fn a_version_that_is_given_is_checked_in_every_form() {
    let shell = Shell::start();
    shell.run(&["create", "/v", "0"]).expect_done();
    for words in [
        &["set", "-v", "7", "/v", "x"][..],
        &["set", "/v", "x", "7"],
        &["delete", "-v", "7", "/v"],
        &["delete", "/v", "7"],
        &["setAcl", "-v", "7", "/v", "world:anyone:cdrwa"],
    ] {
        let said = shell.run(words);
        assert_eq!(said.status, 1, "{words:?}");
        assert!(said.error.ends_with("version No is not valid : /v\n"), "{words:?}: {}", said.error);
    }
    for words in [&["set", "/v", "x", "soon"][..], &["set", "-v", "x", "/v", "x"], &["delete", "/v", "x"]] {
        let said = shell.run(words);
        assert!(
            said.status == 1 && said.error.contains("a version is a number"),
            "{words:?}: {}",
            said.error
        );
    }
    shell.run(&["set", "/v", "1", "0"]).expect_done();
    shell.run(&["set", "/v", "2", "-v", "1"]).expect_done();
    shell.run(&["set", "/v", "3", "-v", "-1"]).expect_done();
    assert_eq!(shell.run(&["get", "/v"]).out, "3\n");
    let deleted = shell.run(&["delete", "/v", "3"]);
    assert_eq!(deleted.status, 0);
    assert!(deleted.error.starts_with("'delete path [version]' has been deprecated."), "{}", deleted.error);
    assert_eq!(shell.run(&["stat", "/v"]).status, 1);
}

#[test]
fn older_forms_go_on_working() {
    let shell = Shell::start();
    let said = shell.session(
        "create /o x\ncreate /o/p y\nls /o watch\nget /o watch\nstat /o watch\nls2 /o\nset /o new\n\
         delete /o/p\ncreate /o/q\nrmr /o\nls /\n",
    );
    assert!(said.out.starts_with("[p]\nx\ncZxid = 0x"), "{}", said.out);
    assert!(said.out.ends_with("[zookeeper]\n"), "{}", said.out);
    for event in ["NodeDataChanged path:/o ", "NodeChildrenChanged path:/o "] {
        assert_eq!(said.out_with_events.matches(event).count(), 1, "{event}: {}", said.out_with_events);
    }
    for old in ["'ls path [watch]'", "'get path [watch]'", "'stat path [watch]'", "The command 'rmr'"] {
        assert!(said.error.contains(&format!("{old} has been deprecated")), "{old}");
    }
    assert_eq!(said.status, 0);
}

#[test]
fn the_stat_block_and_the_spellings_of_data() {
    let shell = Shell::start();
    let said = shell.session(
        "create /d \"two words\"\nget -s /d\nset -s /d \"new\"\nget -b /d\nset -b /d aGVsbG8=\nget -x /d\n\
         set -b /d !!\nls -s /d\nstat /d\n",
    );
    let text = lines(&said.out);
    assert_eq!(text[0], "two words");
    let keys: Vec<&str> = text[1..12].iter().filter_map(|line| line.split(" = ").next()).collect();
    let expected = "cZxid ctime mZxid mtime pZxid cversion dataVersion aclVersion ephemeralOwner dataLength \
                    numChildren";
    assert_eq!(keys.join(" "), expected);
    assert_eq!((text[7], text[10]), ("dataVersion = 0", "dataLength = 9"));
    assert_eq!((text[18], text[23]), ("dataVersion = 1", "bmV3"));
    assert_eq!(text[27], "|00000000| 68 65 6c 6c 6f                                  |hello           |");
    assert_eq!(text[29], "[]");
    assert!(said.error.contains("the data is not base64"), "{}", said.error);
}

#[test]
fn access_and_identities() {
    let shell = Shell::start();
    let said = shell.session(
        "create /p secret\ngetAcl /p\naddauth digest ann:secret\nwhoami\nsetAcl /p auth::cdrwa\ngetAcl -s /p\n\
         create /p/c x\nsetAcl -R /p world:anyone:r,digest:ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=:cdrwa\n\
         getAcl /p/c\ncreate /bad x nonsense\ncreate /bad x nosuch:x:r\nsetAcl /p \"\"\n",
    );
    assert!(said.out.starts_with("'world,'anyone\n: cdrwa\nAuth scheme: User\n"), "{}", said.out);
    assert!(said.out.contains("digest: ann\n") && said.out.contains("ip: 127.0.0.1\n"));
    assert!(said.out.contains("'digest,'ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=\n: cdrwa\ncZxid"), "{}", said.out);
    let end = "'world,'anyone\n: r\n'digest,'ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=\n: cdrwa\n";
    assert!(said.out.ends_with(end), "{}", said.out);
    assert!(said.error.ends_with(
        "nonsense does not have the form scheme:id:perm; an example is world:anyone:cdrwa\n\
         KeeperErrorCode = InvalidACL for /bad\nAcl is not valid : /bad\n \
         does not have the form scheme:id:perm; an example is world:anyone:cdrwa\n"
    ));
    let denied = shell.run(&["set", "/p", "x"]);
    assert_eq!((denied.status, denied.error.as_str()), (1, "Insufficient permission : /p\n"));
}

#[test]
fn quotas() {
    let shell = Shell::start();
    let said = shell.session(
        "create /q\ncreate /q/c hello\nlistquota /q\nsetquota -n 1 /q\nsetquota -B 100 /q\nlistquota /q\n\
         setquota -n 5 /q/c\nsetquota -n 0 /q\nsetquota -n 5 -b 5 /q\nsetquota /q\nsetquota -n 5 /none\n\
         setquota -n 5 /zookeeper/quota\ndelquota -n /q\nlistquota /q\ndelquota /q\ndelquota /q\n\
         ls -R /zookeeper/quota\n",
    );
    assert_eq!(
        said.out,
        "[Warning]: the count quota you create is less than the existing count:2\n\
         [Warning]: the count quota you create is less than the existing count:2\n\
         Output quota for /q count=1,bytes=-1=;byteHardLimit=100;countHardLimit=-1\n\
         Output stat for /q count=2,bytes=5\n\
         Output quota for /q count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=-1\n\
         Output stat for /q count=2,bytes=5\nQuota does not exist for /q\n/zookeeper/quota\n"
    );
    for text in [
        "quota for /q does not exist.",
        "/q/c has a parent /q which has a quota",
        "the num quota must be greater than zero",
        "AlreadySelectedException: The option 'b' was specified",
        "MissingOptionException: Missing required option: [-n num",
        "/none does not exist.",
        "cannot set a quota under the path: /zookeeper/quota",
    ] {
        assert!(said.error.contains(text), "{text}: {}", said.error);
    }
}

#[test]
fn watches_come_once_and_can_be_taken_back() {
    let shell = Shell::start();
    let said = shell.session(
        "create /w x\nget -w /w\nget -w /w\naddWatch /w\naddWatch -m persistent /w\nset /w y\n\
         create /w/c\nremovewatches /w -d\nremovewatches /w -p\nremovewatches /w\nremovewatches /w\n\
         printwatches off\nget -w /w\nset /w z\nprintwatches\naddWatch -m odd /w\n",
    );
    let events: Vec<String> = said.events.iter().map(|line| line.replace(char::is_numeric, "")).collect();
    assert_eq!(
        events,
        [
            "WatchedEvent state:SyncConnected type:None path:null zxid: -",
            "WatchedEvent state:SyncConnected type:NodeDataChanged path:/w zxid: ",
            "WatchedEvent state:SyncConnected type:NodeCreated path:/w/c zxid: ",
            "WatchedEvent state:SyncConnected type:NodeChildrenChanged path:/w zxid: ",
            "WatchedEvent state:SyncConnected type:PersistentWatchRemoved path:/w zxid: -",
            "WatchedEvent state:SyncConnected type:PersistentWatchRemoved path:/w zxid: -",
        ]
    );
    assert_eq!(said.out, "x\nx\ny\nprintwatches is off\n");
    assert_eq!(said.error.matches("KeeperErrorCode = No such watcher for /w\n").count(), 2);
    assert!(said.error.ends_with(
        "addWatch [-m mode] path # optional mode is one of [PERSISTENT, \
        PERSISTENT_RECURSIVE] - default is PERSISTENT_RECURSIVE\n"
    ));
}

#[test]
fn sessions_history_and_the_rest() {
    let shell = Shell::start();
    let address = shell.address();
    let said = shell.session(&format!(
        "version\nsync /\nhistory\nredo 1\nredo 99\nredo 3\nredo x\nconfig\nconfig -c\nclose\nls /\n\
         connect {address}\nls /\nconnect\nls /\nreconfig -remove 3\nnosuch\nquit\nls /\n"
    ));
    let text = lines(&said.out);
    assert!(text[0].starts_with("ZooKeeper CLI version: 3.9.5-zebu-"), "{}", text[0]);
    assert_eq!(
        text[1..],
        [
            "Sync is OK",
            "0 - version",
            "1 - sync /",
            "2 - history",
            "Sync is OK",
            "Command index out of range",
            "Sync is OK",
            "",
            " ",
            "[zookeeper]",
            "[zookeeper]"
        ]
    );
    assert_eq!(said.events.iter().filter(|event| event.contains("state:Closed")).count(), 2);
    assert!(said.error.starts_with("a command has a number, not \"x\"\nNot connected\n"), "{}", said.error);
    assert!(said.error.contains("KeeperErrorCode = Reconfig is disabled\n"), "{}", said.error);
    assert!(said.error.ends_with("nosuch: no such command; help lists them\n"));
    assert_eq!(said.status, 127, "quit keeps the status of the command before");
}

#[test]
fn exit_statuses_and_streams_of_one_command() {
    let shell = Shell::start();
    let said = shell.run(&["create", "/one", "x"]);
    assert_eq!((said.out.as_str(), said.error.as_str(), said.status), ("", "Created /one\n", 0));
    assert_eq!(shell.run(&["get", "/one"]).out, "x\n");
    for (words, status, error) in [
        (&["get", "/none"][..], 1, "Node does not exist: /none\n"),
        (&["ls"], 1, "ls [-s] [-w] [-R] path\n"),
        (
            &["ls", "-z", "/"],
            1,
            "org.apache.commons.cli.UnrecognizedOptionException: Unrecognized option: -z\n",
        ),
        (&["ls", "/a//b"], 1, "Invalid path string \"/a//b\" caused by empty node name specified @3\n"),
        (&["delete", "/"], 1, "Arguments are not valid : /\n"),
        (&["listquota", "/one"], 1, "quota for /one does not exist.\n"),
        (&["set"], 1, " -v <arg>   Set with an expected version\n\n"),
    ] {
        let said = shell.run(words);
        assert_eq!((said.status, said.out.as_str()), (status, ""), "{words:?}");
        assert!(said.error.ends_with(error), "{words:?}: {}", said.error);
    }
    assert_eq!(shell.run(&["nosuch"]).status, 127);
    assert_eq!(shell.session("get /none\nls /\n").status, 0, "that of the last command");
}

#[test]
fn options_in_front_of_the_command() {
    let shell = Shell::start();
    shell.session("create /apps\ncreate /apps/shop\ncreate /apps/shop/x y\n");
    let chrooted = shell.raw(&["-server", &format!("{}/apps/shop", shell.address()), "ls", "/"]);
    assert!(chrooted.out.ends_with("[x]\n"), "{}", chrooted.out);
    let waited =
        shell.raw(&["-server", &shell.address(), "-waitforconnection", "-r", "-timeout", "9000", "ls", "/"]);
    assert_eq!(waited.status, 0, "{}", waited.error);
    let nobody = ["-server", "127.0.0.1:1", "-timeout", "300", "-waitforconnection", "ls", "/"];
    let nobody = shell.raw(&nobody);
    assert!(nobody.status == 1 && nobody.error.contains("ConnectionLoss"), "{}", nobody.error);
    let unreachable = shell.raw(&["-server", "127.0.0.1:1", "-timeout", "300", "get", "/a"]);
    let refused = "127.0.0.1:1: Connection refused (os error 111)";
    let told = format!(
        "{refused}; waiting for a server\nKeeperErrorCode = ConnectionLoss for /a\nno server can be reached: {refused}\n"
    );
    assert_eq!((unreachable.status, unreachable.error), (1, told));
    let quiet = shell.raw(&["-q", "-server", &shell.address(), "ls", "/apps"]);
    assert_eq!(quiet.raw_out, b"[shop]\n");
    let file = shell.file("client.cfg", "zookeeper.client.secure=true\n");
    let secure = shell.raw(&["-client-configuration", &file, "ls", "/"]);
    assert!(secure.status == 1 && secure.error.contains("no trusted certificate"), "{}", secure.error);
    assert_eq!(shell.raw(&["-client-configuration", "/nowhere", "ls", "/"]).status, 2);
    assert_eq!(shell.raw(&["-timeout"]).error, "Error: no argument found for option -timeout\n");
}

#[test]
fn deleteall_in_batches_and_one_by_one() {
    let shell = Shell::start();
    let mut commands = String::from("create /t\n");
    for parent in 0..3 {
        commands += &format!("create /t/{parent}\n");
        (0..20).for_each(|child| commands += &format!("create /t/{parent}/{child} x\n"));
    }
    shell.session(&commands).expect_done();
    shell.run(&["deleteall", "/t/0", "-b", "0"]).expect_done();
    shell.run(&["deleteall", "/t/1", "-b", "7"]).expect_done();
    assert_eq!(shell.run(&["getAllChildrenNumber", "/t"]).out, "21\n");
    shell.run(&["deleteall", "/t"]).expect_done();
    assert_eq!(shell.run(&["deleteall", "/t"]).error, "Node does not exist: /t\n");
    assert_eq!(shell.run(&["deleteall", "/", "-b", "x"]).status, 1);
}

#[test]
fn children_in_pages() {
    let shell = Shell::start();
    shell.session("create /t\ncreate /t/c\ncreate /t/a\ncreate /t/d\ncreate /t/b\n").expect_done();
    assert_eq!(shell.run(&["ls", "--page", "3", "/t"]).out, "[a, b, c]\n");
    assert_eq!(shell.run(&["ls", "--page", "3", "--after", "c", "/t"]).out, "[d]\n");
    assert_eq!(shell.run(&["ls", "--page", "3", "--after", "d", "/t"]).out, "[]\n");
    assert_eq!(shell.run(&["ls", "--page", "0", "/t"]).status, 1);
    assert_eq!(shell.run(&["ls", "--after", "a", "/t"]).status, 1);
    assert_eq!(shell.run(&["ls", "--page", "3", "/none"]).error, "Node does not exist: /none\n");
}

#[test]
fn failures_that_zkcli_hides_are_told() {
    let shell = Shell::start();
    shell.session("create /h\ncreate /h/x\ncreate /h/x/y\nsetAcl /h/x world:anyone:crw\n").expect_done();
    let said = shell.run(&["deleteall", "/h"]);
    let text = "Failed to delete some node(s) in the subtree!\n";
    assert_eq!((said.status, said.error.as_str()), (1, text));
    let said = shell.run(&["deleteall", "/h", "-b", "0"]);
    assert_eq!((said.status, said.error.as_str()), (1, "Insufficient permission : /h/x/y\n"));
    let said = shell.run(&["setAcl", "-R", "/h", "world:anyone:crwa"]);
    assert_eq!((said.status, said.out.as_str()), (1, "KeeperErrorCode = NoAuth for /h/x\n"));
    assert_eq!(shell.session("close\nls /\n").status, 1);
    let said = shell.run(&["addauth", "nosuch", "x"]);
    assert_eq!((said.status, said.error.as_str()), (1, "KeeperErrorCode = AuthFailed\n"));
    assert!(said.events.last().unwrap().contains("state:AuthFailed type:None"), "{:?}", said.events);
}
