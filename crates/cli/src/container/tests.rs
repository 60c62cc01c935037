//! Variables of the three images, and the lines that their own scripts write for them.

use super::*;
use zebu_security::jaas::{JaasFile, JaasLogin};

struct Files(&'static [(&'static str, &'static str)], &'static str);

impl ContainerSystem for Files {
    fn read(&self, path: &str) -> Result<String, String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    }

    fn host_name(&self) -> String {
        self.1.to_owned()
    }
}

const NO_FILES: Files = Files(&[], "host");

fn variables(pairs: &[(&str, &str)]) -> Environment {
    Environment(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn planned(pairs: &[(&str, &str)]) -> ContainerPlan {
    plan(&variables(pairs), &NO_FILES).unwrap()
}

fn errors(pairs: &[(&str, &str)]) -> Vec<String> {
    plan(&variables(pairs), &NO_FILES).unwrap_err()
}

fn text(plan: &ContainerPlan) -> String {
    plan.lines.iter().map(|line| format!("{}\n", line.text)).collect()
}

/// The file that the entry point of the official image 3.9 writes for these variables.
#[test]
fn official_variables_give_the_lines_of_the_official_image() {
    let plan = planned(&[
        ("ZOO_CONF_DIR", "/c"),
        ("ZOO_DATA_DIR", "/d"),
        ("ZOO_DATA_LOG_DIR", "/l"),
        ("ZOO_TICK_TIME", "1000"),
        ("ZOO_INIT_LIMIT", "7"),
        ("ZOO_SYNC_LIMIT", "4"),
        ("ZOO_AUTOPURGE_SNAPRETAINCOUNT", "5"),
        ("ZOO_AUTOPURGE_PURGEINTERVAL", "24"),
        ("ZOO_MAX_CLIENT_CNXNS", "100"),
        ("ZOO_STANDALONE_ENABLED", "false"),
        ("ZOO_ADMINSERVER_ENABLED", "false"),
        (
            "ZOO_SERVERS",
            "server.1=zk1:2888:3888;2181 server.2=zk2:2888:3888;2181  server.3=zk3:2888:3888:observer;2181",
        ),
        ("ZOO_4LW_COMMANDS_WHITELIST", "srvr, mntr"),
        ("ZOO_CFG_EXTRA", "reconfigEnabled=true metricsProvider.httpPort=7070"),
        ("ZOO_MY_ID", "2"),
    ]);
    assert_eq!(
        text(&plan),
        "dataDir=/d\ndataLogDir=/l\ntickTime=1000\ninitLimit=7\nsyncLimit=4\nautopurge.snapRetainCount=5\n\
         autopurge.purgeInterval=24\nmaxClientCnxns=100\nstandaloneEnabled=false\nadmin.enableServer=false\n\
         server.1=zk1:2888:3888;2181\nserver.2=zk2:2888:3888;2181\nserver.3=zk3:2888:3888:observer;2181\n\
         4lw.commands.whitelist=srvr, mntr\nreconfigEnabled=true\nmetricsProvider.httpPort=7070\n"
    );
    assert_eq!(plan.style, ContainerStyle::Official);
    assert_eq!(plan.my_id.as_deref(), Some("2"));
    assert_eq!((plan.conf_dir.to_str(), plan.data_dir.to_str()), (Some("/c"), Some("/d")));
    assert_eq!(plan.warnings, Vec::<String>::new());
}

#[test]
fn without_variables_the_official_defaults_count() {
    let plan = planned(&[("PATH", "/bin"), ("HOME", "/root")]);
    assert_eq!(
        text(&plan),
        "dataDir=/data\ndataLogDir=/datalog\ntickTime=2000\ninitLimit=5\nsyncLimit=2\n\
         autopurge.snapRetainCount=3\nautopurge.purgeInterval=0\nmaxClientCnxns=60\nstandaloneEnabled=true\n\
         admin.enableServer=true\nserver.1=localhost:2888:3888;2181\n"
    );
    assert_eq!((plan.my_id.as_deref(), plan.jaas, plan.properties.len()), (Some("1"), None, 0));
}

#[test]
fn bitnami_variables() {
    let plan = planned(&[
        ("ALLOW_ANONYMOUS_LOGIN", "yes"),
        ("ZOO_SERVER_ID", "2"),
        ("ZOO_SERVERS", "zk1:2888:3888,zk2:2888:3888 zk3:2888:3888:observer"),
        ("ZOO_PORT_NUMBER", "2191"),
        ("ZOO_RECONFIG_ENABLED", "yes"),
        ("ZOO_PEER_TYPE", "observer"),
        ("ZOO_CFG_quorum_cnxn_threads_size", "20"),
        ("ZOO_CFG_tickTime", "3000"),
        ("ZOO_LOG_LEVEL", "WARN"),
    ]);
    assert_eq!(
        text(&plan),
        "tickTime=3000\ninitLimit=10\nsyncLimit=5\ndataDir=/bitnami/zookeeper/data\nclientPort=2191\n\
         preAllocSize=65536\nsnapCount=100000\nmaxCnxns=0\nmaxClientCnxns=60\nreconfigEnabled=true\n\
         quorumListenOnAllIPs=false\nautopurge.purgeInterval=0\nautopurge.snapRetainCount=3\n\
         4lw.commands.whitelist=srvr, mntr\nmaxSessionTimeout=40000\nadmin.serverAddress=127.0.0.1\n\
         admin.serverPort=8080\nadmin.enableServer=false\nserver.1=zk1:2888:3888;2191\n\
         server.2=zk2:2888:3888;2191\nserver.3=zk3:2888:3888:observer;2191\npeerType=observer\n\
         quorum.cnxn.threads.size=20\n"
    );
    assert_eq!(plan.style, ContainerStyle::Bitnami);
    assert_eq!((plan.my_id.as_deref(), plan.log_filter.as_deref()), (Some("2"), Some("warn")));
}

#[test]
fn bitnami_servers_with_ids_and_alone() {
    let servers = |list: &str| {
        let plan = planned(&[("ALLOW_EMPTY_PASSWORD", "true"), ("ZOO_SERVERS", list)]);
        plan.lines
            .iter()
            .filter(|line| line.text.starts_with("server."))
            .map(|line| line.text.clone())
            .collect::<Vec<String>>()
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(servers("zk1:2888:3888"), none, "a list of one is a standalone server");
    assert_eq!(
        servers("zk1:2888:3888::10;[fd00::1]:2888:3888:observer::20"),
        ["server.10=zk1:2888:3888;2181", "server.20=[fd00::1]:2888:3888:observer;2181"]
    );
    for list in ["zk1", "zk1:1:2::x,zk2:1:2::2", "zk1:1:2::1,zk2:1:2"] {
        let found = errors(&[("ALLOW_EMPTY_PASSWORD", "true"), ("ZOO_SERVERS", list)]);
        assert!(found.iter().any(|error| error.starts_with("ZOO_SERVERS: ")), "{list}: {found:?}");
    }
}

#[test]
fn bitnami_logins_become_a_jaas_file_that_the_server_reads() {
    let system = Files(&[("/run/secret", "p\"a\\ss;,\n")], "host");
    let environment = variables(&[
        ("ZOO_ENABLE_AUTH", "yes"),
        ("ZOO_SERVER_USERS", "alice,bob"),
        ("ZOO_SERVER_PASSWORDS", "one;two"),
        ("ZOO_CLIENT_USER", "alice"),
        ("ZOO_CLIENT_PASSWORD_FILE", "/run/secret"),
        ("ZOO_ENABLE_QUORUM_AUTH", "1"),
        ("ZOO_QUORUM_LEARNER_USER", "peer"),
        ("ZOO_QUORUM_LEARNER_PASSWORD", "three"),
        ("ZOO_QUORUM_SERVER_USERS", "peer"),
        ("ZOO_QUORUM_SERVER_PASSWORDS", "three"),
    ]);
    let plan = plan(&environment, &system).unwrap();
    let lines = text(&plan);
    for line in [
        "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n",
        "sessionRequireClientSASLAuth=true\n",
        "quorum.auth.enableSasl=true\n",
        "quorum.auth.server.saslLoginContext=QuorumServer\n",
    ] {
        assert!(lines.contains(line), "{line}");
    }
    assert!(
        plan.properties.contains(
            &"java.security.auth.login.config=/opt/bitnami/zookeeper/conf/zoo_jaas.conf".to_owned()
        )
    );
    let jaas = JaasFile::parse(plan.jaas.unwrap().as_bytes(), &|_| None).unwrap();
    let names: Vec<&str> = jaas.section_names().collect();
    assert_eq!(names, ["Server", "Client", "QuorumLearner", "QuorumServer"]);
    let JaasLogin::Digest(client) = jaas.section("Client").unwrap().login().unwrap() else { panic!() };
    let shown = format!("{:?}", client);
    assert!(!shown.contains("p\"a"), "passwords stay hidden: {shown}");
    let module = |name: &str, option: &str| {
        let section = jaas.section(name).unwrap();
        section.modules[0].option(option).unwrap().reveal().to_owned()
    };
    assert_eq!(module("Client", "password"), "p\"a\\ss;,");
    assert_eq!(module("Server", "user_bob"), "two");
}

#[test]
fn bitnami_refuses_what_the_image_refuses() {
    let refused = |pairs: &[(&str, &str)], part: &str| {
        let found = errors(pairs);
        assert!(found.iter().any(|error| error.contains(part)), "{part}: {found:?}");
    };
    refused(&[("ZOO_SERVER_ID", "1")], "ALLOW_EMPTY_PASSWORD=yes");
    let open = ("ALLOW_EMPTY_PASSWORD", "yes");
    refused(&[open, ("ZOO_SERVER_ID", "one")], "is not a server id");
    refused(&[open, ("ZOO_PEER_TYPE", "leader")], "observer or participant");
    refused(
        &[("ZOO_ENABLE_AUTH", "yes"), ("ZOO_SERVER_USERS", "a,b"), ("ZOO_SERVER_PASSWORDS", "c")],
        "2 entries",
    );
    refused(&[("ZOO_ENABLE_AUTH", "yes")], "no client could log in");
    let users = [("ZOO_ENABLE_AUTH", "yes"), ("ZOO_SERVER_USERS", "a"), ("ZOO_SERVER_PASSWORDS", "c")];
    refused(&[users.as_slice(), &[("ZOO_FIPS_MODE", "yes")]].concat(), "ZOO_FIPS_MODE=no");
    refused(&[open, ("ZOO_ENABLE_QUORUM_AUTH", "yes")], "ZOO_QUORUM_LEARNER_USER");
    refused(&[open, ("ZOO_TLS_CLIENT_ENABLE", "true")], "ZOO_TLS_CLIENT_KEYSTORE_FILE names no file");
    refused(
        &[open, ("ZOO_TLS_CLIENT_AUTH", "perhaps"), ("ZOO_TLS_CLIENT_ENABLE", "true")],
        "none, want or need",
    );
    refused(&[open, ("ZOO_LOG_LEVEL", "LOUD")], "ZOO_LOG_LEVEL");
    refused(&[open, ("ZOO_TICK_TIME", "1\nskipACL=yes")], "line end");
    refused(
        &[open, ("ZOO_CLIENT_PASSWORD_FILE", "/no"), ("ZOO_CLIENT_USER", "a"), users[0], users[1], users[2]],
        "/no",
    );
}

#[test]
fn bitnami_tls() {
    let plan = planned(&[
        ("ALLOW_EMPTY_PASSWORD", "yes"),
        ("ZOO_TLS_CLIENT_ENABLE", "true"),
        ("ZOO_TLS_CLIENT_KEYSTORE_FILE", "/k.jks"),
        ("ZOO_TLS_CLIENT_KEYSTORE_PASSWORD", "a\\b"),
        ("ZOO_TLS_CLIENT_TRUSTSTORE_FILE", "/t.jks"),
        ("ZOO_TLS_QUORUM_ENABLE", "true"),
        ("ZOO_TLS_QUORUM_KEYSTORE_FILE", "/qk.p12"),
        ("ZOO_TLS_QUORUM_KEYSTORE_TYPE", "PKCS12"),
        ("ZOO_TLS_QUORUM_TRUSTSTORE_FILE", "/qt.p12"),
    ]);
    let lines = text(&plan);
    assert!(!lines.contains("clientPort=2181"));
    for line in [
        "secureClientPort=3181\n",
        "ssl.clientAuth=need\n",
        "ssl.keyStore.location=/k.jks\n",
        "ssl.keyStore.password=a\\\\b\n",
        "ssl.trustStore.location=/t.jks\n",
        "sslQuorum=true\n",
        "ssl.quorum.clientAuth=need\n",
        "ssl.quorum.keyStore.type=PKCS12\n",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
    let shown: Vec<String> = plan.lines.iter().map(ConfigLine::shown).collect();
    assert!(shown.contains(&"ssl.keyStore.password=***".to_owned()));
}

#[test]
fn confluent_variables() {
    let plan = planned(&[
        ("ZOOKEEPER_CLIENT_PORT", "2181"),
        ("ZOOKEEPER_SERVER_ID", "2"),
        ("ZOOKEEPER_SERVERS", "zk1:2888:3888;zk2:2888:3888"),
        ("ZOOKEEPER_TICK_TIME", "1500"),
        ("ZOOKEEPER_SSL_KEYSTORE_PASSWORD", "x"),
        ("KAFKA_OPTS", "-Xmx1g -Dzookeeper.4lw.commands.whitelist=*"),
    ]);
    assert_eq!(
        text(&plan),
        "dataDir=/var/lib/zookeeper/data\ndataLogDir=/var/lib/zookeeper/log\nclientPort=2181\ntickTime=1500\n\
         ssl.keyStore.password=x\nserver.1=zk1:2888:3888\nserver.2=zk2:2888:3888\ninitLimit=10\nsyncLimit=5\n"
    );
    assert_eq!(plan.properties, ["zookeeper.4lw.commands.whitelist=*"]);
    assert_eq!((plan.style, plan.my_id.as_deref()), (ContainerStyle::Confluent, Some("2")));
    let found = errors(&[("ZOOKEEPER_CLIENT_PORT", "2181"), ("ZOOKEEPER_SERVERS", "a:1:2")]);
    assert!(found[0].contains("ZOOKEEPER_SERVER_ID"));
}

#[test]
fn whose_variables_are_meant() {
    let style = |pairs: &[(&str, &str)]| style::choose(&variables(pairs));
    assert_eq!(style(&[]), Ok(ContainerStyle::Official));
    assert_eq!(style(&[("ZOO_TICK_TIME", "1")]), Ok(ContainerStyle::Official));
    assert_eq!(style(&[("ZOO_SERVERS", "zk1:1:2,zk2:1:2")]), Ok(ContainerStyle::Bitnami));
    assert_eq!(style(&[("ZOO_SERVERS", "server.1=zk1:1:2;3")]), Ok(ContainerStyle::Official));
    assert_eq!(style(&[("ZOO_MY_ID", "1"), ("ZOO_SERVER_ID", "1")]), Ok(ContainerStyle::Official));
    assert_eq!(style(&[("ZOO_SERVER_ID_FILE", "/id")]), Ok(ContainerStyle::Bitnami));
    // Kubernetes sets this one for a service that is called zookeeper.
    assert_eq!(style(&[("ZOOKEEPER_PORT", "tcp://10.0.0.1:2181")]), Ok(ContainerStyle::Official));
    assert_eq!(style(&[(STYLE_VARIABLE, "bitnami")]), Ok(ContainerStyle::Bitnami));
    assert!(style(&[(STYLE_VARIABLE, "other")]).unwrap_err().contains("official, bitnami, confluent"));
}

#[test]
fn variables_without_effect_are_named() {
    let plan = planned(&[
        ("ZOO_MY_ID", "1"),
        ("ZOO_SERVER_ID", "2"),
        ("ZOO_TICKTIME", "1"),
        ("ZOO_WHAT_IS_IT", "1"),
    ]);
    assert_eq!(plan.warnings.len(), 3, "{:?}", plan.warnings);
    assert!(
        plan.warnings[0].starts_with("ZOO_SERVER_ID has no effect: it is a variable of the bitnami image")
    );
    assert_eq!(plan.warnings[1], "ZOO_TICKTIME is not known; did you mean ZOO_TICK_TIME?");
    assert_eq!(plan.warnings[2], "ZOO_WHAT_IS_IT is not known and has no effect");
}

#[test]
fn official_mistakes() {
    assert!(
        errors(&[("ZOO_SERVERS", "zk1:2888:3888 server.2=zk2:2888:3888;2181")])[0].contains("server.1=zk1")
    );
    assert!(errors(&[("ZOO_CFG_EXTRA", "a=b c")])[0].starts_with("ZOO_CFG_EXTRA: \"c\""));
    assert!(errors(&[("ZOO_MY_ID", "x")])[0].contains("is not a server id"));
}

#[test]
fn ids_of_pods() {
    let id = |host: &'static str, first: &str| {
        plan(&variables(&[(FIRST_ID_VARIABLE, first)]), &Files(&[], host)).map(|plan| plan.my_id.unwrap())
    };
    assert_eq!(id("zebu-0", "1"), Ok("1".to_owned()));
    assert_eq!(id("zebu-12.zebu.default.svc", "1"), Ok("13".to_owned()));
    assert_eq!(id("my-zk-2", "0"), Ok("2".to_owned()));
    assert!(id("zebu", "1").unwrap_err()[0].contains("StatefulSet"));
    assert!(id("zebu-0", "one").unwrap_err()[0].contains("is not a number"));
}
