//! The variables of the official image, `zookeeper`.

use super::ContainerPlan;
use super::variables::Variables;

/// Every variable that the image or its scripts read.
pub(super) const NAMES: &[&str] = &[
    "ZOO_CONF_DIR",
    "ZOO_DATA_DIR",
    "ZOO_DATA_LOG_DIR",
    "ZOO_LOG_DIR",
    "ZOO_TICK_TIME",
    "ZOO_INIT_LIMIT",
    "ZOO_SYNC_LIMIT",
    "ZOO_AUTOPURGE_SNAPRETAINCOUNT",
    "ZOO_AUTOPURGE_PURGEINTERVAL",
    "ZOO_MAX_CLIENT_CNXNS",
    "ZOO_STANDALONE_ENABLED",
    "ZOO_ADMINSERVER_ENABLED",
    "ZOO_SERVERS",
    "ZOO_4LW_COMMANDS_WHITELIST",
    "ZOO_CFG_EXTRA",
    "ZOO_MY_ID",
    // Read by ZooKeeper's scripts; the server takes the -D words, and the rest is for a Java machine.
    "JVMFLAGS",
    "SERVER_JVMFLAGS",
    "CLIENT_JVMFLAGS",
    "ZK_SERVER_HEAP",
    "ZK_CLIENT_HEAP",
    "ZOO_LOG4J_PROP",
    "ZOO_LOG_FILE",
    "ZOO_DATADIR_AUTOCREATE_DISABLE",
    "ZOOCFGDIR",
    "ZOOCFG",
    "ZOOPIDFILE",
    "JMXPORT",
    "JMXDISABLE",
];

/// One server that is alone: with `standaloneEnabled=true` it needs no other.
const SERVERS_DEFAULT: &str = "server.1=localhost:2888:3888;2181";

/// The lines have the order of the image, so that files of both can be compared.
pub(super) fn plan(variables: &mut Variables<'_>) -> ContainerPlan {
    let conf_dir = variables.directory("ZOO_CONF_DIR", "/conf");
    let data_dir = variables.directory("ZOO_DATA_DIR", "/data");
    let log_dir = variables.directory("ZOO_DATA_LOG_DIR", "/datalog");
    variables.copy("dataDir", "ZOO_DATA_DIR", "/data");
    variables.copy("dataLogDir", "ZOO_DATA_LOG_DIR", "/datalog");
    for (key, name, default) in [
        ("tickTime", "ZOO_TICK_TIME", "2000"),
        ("initLimit", "ZOO_INIT_LIMIT", "5"),
        ("syncLimit", "ZOO_SYNC_LIMIT", "2"),
        ("autopurge.snapRetainCount", "ZOO_AUTOPURGE_SNAPRETAINCOUNT", "3"),
        ("autopurge.purgeInterval", "ZOO_AUTOPURGE_PURGEINTERVAL", "0"),
        ("maxClientCnxns", "ZOO_MAX_CLIENT_CNXNS", "60"),
        ("standaloneEnabled", "ZOO_STANDALONE_ENABLED", "true"),
        ("admin.enableServer", "ZOO_ADMINSERVER_ENABLED", "true"),
    ] {
        variables.copy(key, name, default);
    }
    let servers = variables.get_or("ZOO_SERVERS", SERVERS_DEFAULT);
    for server in servers.split_ascii_whitespace() {
        if !server.starts_with("server.") || !server.contains('=') {
            variables.error(format!(
                "ZOO_SERVERS: \"{server}\" is not of the form server.1=zk1:2888:3888;2181 (words are separated by \
                 blanks)"
            ));
        }
        variables.add_line(server);
    }
    variables.copy_if_set("4lw.commands.whitelist", "ZOO_4LW_COMMANDS_WHITELIST");
    let extra = variables.get("ZOO_CFG_EXTRA").unwrap_or_default();
    for line in extra.split_ascii_whitespace() {
        if !line.contains('=') {
            variables.error(format!(
                "ZOO_CFG_EXTRA: \"{line}\" is not of the form key=value. Words are separated by blanks, so values \
                 cannot contain any; mount a zoo.cfg for such a value"
            ));
        }
        variables.add_line(line);
    }
    let my_id = variables.id("ZOO_MY_ID", "1");
    ContainerPlan { directories: vec![log_dir], my_id: Some(my_id), ..variables.plan(&conf_dir, &data_dir) }
}
