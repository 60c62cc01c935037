"""KeeperMap tables of ClickHouse, embedded by chdb, on a server: queries.py HOST:PORT DIRECTORY.

Prints "ok" or "not ok" for each query. ClickHouse's own client of Keeper sends the requests.
"""

import pathlib
import re
import sys

from chdb import session

CONFIG = """<clickhouse>
  <logger><level>trace</level><log>{directory}/clickhouse.log</log></logger>
  <zookeeper><node><host>{host}</host><port>{port}</port></node><session_timeout_ms>10000</session_timeout_ms></zookeeper>
  <keeper_map_path_prefix>/keeper_map</keeper_map_path_prefix>
</clickhouse>
"""

TABLE = "(key String, v UInt64) ENGINE = KeeperMap('/m') PRIMARY KEY key"
QUERIES = [
    ("a table is created", f"CREATE TABLE d.one {TABLE}", ""),
    ("another one on the same nodes", f"CREATE TABLE d.two {TABLE}", ""),
    ("rows go in", "INSERT INTO d.one VALUES ('a', 1), ('b', 2), ('c', 3)", ""),
    ("and are seen by the other", "SELECT key, v FROM d.two ORDER BY key", '"a",1\n"b",2\n"c",3'),
    ("a row is found by its key", "SELECT v FROM d.two WHERE key = 'b'", "2"),
    ("keys without rows", "SELECT count() FROM d.two WHERE key IN ('x', 'b', 'y')", "1"),
    ("a row is changed", "ALTER TABLE d.one UPDATE v = 30 WHERE key = 'a' SETTINGS mutations_sync = 2", ""),
    ("a row is deleted", "DELETE FROM d.one WHERE key = 'b'", ""),
    ("both are seen", "SELECT key, v FROM d.two ORDER BY key", '"a",30\n"c",3'),
    ("many rows", "INSERT INTO d.one SELECT toString(number), number FROM numbers(500)", ""),
    ("are counted", "SELECT count(), sum(v) FROM d.two", "502,124783"),
    ("a table is emptied", "TRUNCATE TABLE d.one", ""),
    ("and is empty", "SELECT count() FROM d.two", "0"),
    ("a replicated table is created", "CREATE TABLE d.r (a UInt8) ENGINE = ReplicatedMergeTree('/r', 'one') ORDER BY a", ""),
    ("and dropped", "DROP TABLE d.r SYNC", ""),
    ("a table goes", "DROP TABLE d.one SYNC", ""),
    ("the last one goes", "DROP TABLE d.two SYNC", ""),
    ("the session lasts", "SELECT zookeeperSessionUptime() >= 0", "1"),
]


def run(connection, query):
    try:
        return str(connection.query(query)).strip()
    except Exception as fault:  # chdb has no other type
        return str(fault).splitlines()[0]


def main():
    (host, port), directory = sys.argv[1].rsplit(":", 1), pathlib.Path(sys.argv[2])
    config = directory / "config.xml"
    config.write_text(CONFIG.format(directory=directory, host=host, port=port))
    connection = session.Session(f"{directory}/data?config-file={config}")
    print("version ClickHouse", run(connection, "SELECT version()").strip('"'), flush=True)
    run(connection, "CREATE DATABASE d")
    for name, query, expected in QUERIES:
        seen = run(connection, query)
        print(f"ok {name}" if seen == expected else f"not ok {name}: {seen} instead of {expected}", flush=True)
    flags = re.findall(r"Keeper feature flag (\w+): (\w+)", (directory / "clickhouse.log").read_text())
    off = [name for name, state in flags if state != "enabled"]
    shown = len({name for name, _ in flags})
    name = "ClickHouse finds all features"
    print(f"ok {name}" if shown >= 15 and not off else f"not ok {name}: {shown} found, off: {off}", flush=True)


main()
