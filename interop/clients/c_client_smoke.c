/* Drives a ZooKeeper-compatible server with the unmodified C client (libzookeeper_mt): every function of
 * zookeeper.h, except those for TLS and SASL and those of the single-threaded library.
 *
 *     c_client_smoke HOST:PORT
 *
 * Prints one line per check, as interop/README.md says. The first wrong result ends the program with
 * status 1. It writes "@restart" to have the server restarted and waits for "@restarted" on standard
 * input.
 *
 * Build: gcc -DTHREADED -Wall -Wextra -o c_client_smoke c_client_smoke.c -lzookeeper_mt -lpthread
 */

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>
#include <zookeeper/zookeeper_version.h>

#define PATIENCE_SECONDS 20
#define PATH_SIZE 256
#define PIPELINE 100

static const char *server_address;
static const char *own_program;
static char root[64];
static int checks_passed;

/* One mutex and one condition guard everything that the client's threads write. */
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void wrong(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("not ok ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    _exit(1);
}

static void expect_code(const char *what, int actual, int expected) {
    if (actual != expected)
        wrong("%s: expected %s (%d), got %s (%d)", what, zerror(expected), expected, zerror(actual), actual);
}

static void expect_number(const char *what, long long actual, long long expected) {
    if (actual != expected)
        wrong("%s: expected %lld, got %lld", what, expected, actual);
}

static void expect_text(const char *what, const char *actual, const char *expected) {
    if (strcmp(actual, expected) != 0)
        wrong("%s: expected \"%s\", got \"%s\"", what, expected, actual);
}

static void passed(const char *name) {
    checks_passed++;
    printf("ok %s\n", name);
    fflush(stdout);
}

/* Waits until *value reaches at_least. The bound is a limit for a broken server, not a delay. */
static void wait_for(const char *what, const int *value, int at_least) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += PATIENCE_SECONDS;
    pthread_mutex_lock(&guard);
    while (*value < at_least) {
        if (pthread_cond_timedwait(&changed, &guard, &end) != 0)
            wrong("%s: did not happen within %d s", what, PATIENCE_SECONDS);
    }
    pthread_mutex_unlock(&guard);
}

/* What the watchers and the completions of one connection have seen. */
struct seen {
    int connected;
    int connecting;
    int expired;
    int events;
    int last_type;
    char last_path[PATH_SIZE];
    int completions;
    int last_code;
    int last_version;
    int out_of_order;
    int children;
    int answered;
    char text[PATH_SIZE];
};

static void session_watcher(zhandle_t *handle, int type, int state, const char *path, void *context) {
    struct seen *seen = context;
    (void)handle;
    (void)path;
    pthread_mutex_lock(&guard);
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
        seen->connected++;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTING_STATE)
        seen->connecting++;
    if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE)
        seen->expired++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void node_watcher(zhandle_t *handle, int type, int state, const char *path, void *context) {
    struct seen *seen = context;
    (void)handle;
    (void)state;
    if (type == ZOO_SESSION_EVENT)
        return;
    pthread_mutex_lock(&guard);
    seen->events++;
    seen->last_type = type;
    snprintf(seen->last_path, sizeof seen->last_path, "%s", path);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static zhandle_t *connect_to_server(struct seen *seen) {
    memset(seen, 0, sizeof *seen);
    zhandle_t *handle = zookeeper_init(server_address, session_watcher, 10000, NULL, seen, 0);
    if (handle == NULL)
        wrong("zookeeper_init gave no handle");
    wait_for("connection", &seen->connected, 1);
    return handle;
}

static void join(char *out, const char *name) { snprintf(out, PATH_SIZE, "%s/%s", root, name); }

static void create_open(zhandle_t *handle, const char *path, const char *data) {
    int code = zoo_create(handle, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    if (code != ZOK)
        wrong("create %s: %s", path, zerror(code));
}

static void check_create_get_set_delete(zhandle_t *handle) {
    char path[PATH_SIZE], made[PATH_SIZE], data[64], child[PATH_SIZE + 8];
    struct Stat stat;
    int length = sizeof data;
    join(path, "plain");
    expect_code("create", zoo_create(handle, path, "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made), ZOK);
    expect_text("created path", made, path);
    expect_code("get", zoo_get(handle, path, 0, data, &length, &stat), ZOK);
    expect_number("length", length, 3);
    if (memcmp(data, "one", 3) != 0)
        wrong("get: the data is not \"one\"");
    expect_number("version", stat.version, 0);
    expect_number("dataLength", stat.dataLength, 3);
    expect_number("czxid equals mzxid", stat.czxid, stat.mzxid);
    expect_code("set", zoo_set2(handle, path, "three", 5, 0, &stat), ZOK);
    expect_number("version after set", stat.version, 1);
    expect_number("dataLength after set", stat.dataLength, 5);
    expect_code("set with an old version", zoo_set(handle, path, "x", 1, 0), ZBADVERSION);
    expect_code("create again", zoo_create(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZNODEEXISTS);
    expect_code("exists", zoo_exists(handle, path, 0, &stat), ZOK);
    expect_number("version by exists", stat.version, 1);
    expect_code("delete with an old version", zoo_delete(handle, path, 0), ZBADVERSION);
    snprintf(child, sizeof child, "%s/child", path);
    create_open(handle, child, "");
    expect_code("delete of a parent", zoo_delete(handle, path, -1), ZNOTEMPTY);
    expect_code("delete the child", zoo_delete(handle, child, -1), ZOK);
    expect_code("delete", zoo_delete(handle, path, 1), ZOK);
    expect_code("exists after delete", zoo_exists(handle, path, 0, &stat), ZNONODE);
    expect_code("create below nothing", zoo_create(handle, child, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZNONODE);
    expect_code("set on nothing", zoo_set(handle, path, "", 0, -1), ZNONODE);
    passed("create get set delete");
}

static void check_null_and_empty_data(zhandle_t *handle) {
    char path[PATH_SIZE], data[8];
    int length = sizeof data;
    join(path, "null-data");
    expect_code("create with null data", zoo_create(handle, path, NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    expect_code("get null data", zoo_get(handle, path, 0, data, &length, NULL), ZOK);
    expect_number("length of null data", length, -1);
    expect_code("set empty data", zoo_set(handle, path, "", 0, -1), ZOK);
    length = sizeof data;
    expect_code("get empty data", zoo_get(handle, path, 0, data, &length, NULL), ZOK);
    expect_number("length of empty data", length, 0);
    passed("null and empty data");
}

static void check_create2_and_children(zhandle_t *handle) {
    char path[PATH_SIZE], child[PATH_SIZE + 8], made[PATH_SIZE];
    struct Stat stat;
    struct String_vector names = {0, NULL};
    join(path, "parent");
    expect_code("create2", zoo_create2(handle, path, "p", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made, &stat), ZOK);
    expect_number("dataLength of create2", stat.dataLength, 1);
    for (char name = 'a'; name <= 'c'; name++) {
        snprintf(child, sizeof child, "%s/%c", path, name);
        create_open(handle, child, "");
    }
    expect_code("children", zoo_get_children(handle, path, 0, &names), ZOK);
    expect_number("number of children", names.count, 3);
    deallocate_String_vector(&names);
    expect_code("children2", zoo_get_children2(handle, path, 0, &names, &stat), ZOK);
    expect_number("number by stat", stat.numChildren, 3);
    expect_number("cversion", stat.cversion, 3);
    deallocate_String_vector(&names);
    passed("create2 and children");
}

static void check_sequence_and_ephemeral(zhandle_t *handle) {
    char parent[PATH_SIZE], prefix[PATH_SIZE + 8], made[PATH_SIZE], expected[PATH_SIZE + 32], path[PATH_SIZE];
    struct Stat stat;
    struct seen seen, watching;
    join(parent, "sequence");
    create_open(handle, parent, "");
    snprintf(prefix, sizeof prefix, "%s/n-", parent);
    for (int number = 0; number < 3; number++) {
        int code = zoo_create(handle, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, made, sizeof made);
        expect_code("create with a sequence", code, ZOK);
        snprintf(expected, sizeof expected, "%s%010d", prefix, number);
        expect_text("sequence name", made, expected);
    }
    zhandle_t *other = connect_to_server(&seen);
    join(path, "ephemeral");
    int flags = ZOO_EPHEMERAL;
    expect_code("create ephemeral", zoo_create(other, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, flags, NULL, 0), ZOK);
    memset(&watching, 0, sizeof watching);
    expect_code("exists with a watch", zoo_wexists(handle, path, node_watcher, &watching, &stat), ZOK);
    expect_number("owner", stat.ephemeralOwner, zoo_client_id(other)->client_id);
    snprintf(prefix, sizeof prefix, "%s/x", path);
    int code = zoo_create(handle, prefix, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    expect_code("child of an ephemeral", code, ZNOCHILDRENFOREPHEMERALS);
    expect_code("close", zookeeper_close(other), ZOK);
    wait_for("event when the session closes", &watching.events, 1);
    expect_number("its type", watching.last_type, ZOO_DELETED_EVENT);
    expect_code("exists after close", zoo_exists(handle, path, 0, &stat), ZNONODE);
    passed("sequence and ephemeral");
}

static void check_containers_and_ttl(zhandle_t *handle) {
    char path[PATH_SIZE];
    struct Stat stat;
    join(path, "container");
    int code = zoo_create(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, NULL, 0);
    expect_code("create a container", code, ZOK);
    join(path, "ttl");
    code = zoo_create2_ttl(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL, 3600000, NULL, 0, &stat);
    if (code == ZUNIMPLEMENTED) {
        printf("skip TTL nodes: the server has extendedTypesEnabled=false\n");
    } else {
        expect_code("create a node with a TTL", code, ZOK);
    }
    passed("containers and TTL");
}

static void check_watches(zhandle_t *handle) {
    char path[PATH_SIZE], child[PATH_SIZE + 8], data[8];
    struct String_vector names = {0, NULL};
    struct seen seen;
    struct Stat stat;
    int length = sizeof data;
    memset(&seen, 0, sizeof seen);
    join(path, "watched");
    expect_code("exists", zoo_wexists(handle, path, node_watcher, &seen, &stat), ZNONODE);
    create_open(handle, path, "1");
    wait_for("created event", &seen.events, 1);
    expect_number("created", seen.last_type, ZOO_CREATED_EVENT);
    expect_text("path of the event", seen.last_path, path);
    expect_code("get", zoo_wget(handle, path, node_watcher, &seen, data, &length, &stat), ZOK);
    expect_code("set", zoo_set(handle, path, "2", 1, -1), ZOK);
    wait_for("changed event", &seen.events, 2);
    expect_number("changed", seen.last_type, ZOO_CHANGED_EVENT);
    expect_code("set again", zoo_set(handle, path, "3", 1, -1), ZOK);
    expect_code("children", zoo_wget_children(handle, path, node_watcher, &seen, &names), ZOK);
    deallocate_String_vector(&names);
    snprintf(child, sizeof child, "%s/c", path);
    create_open(handle, child, "");
    wait_for("child event", &seen.events, 3);
    expect_number("child", seen.last_type, ZOO_CHILD_EVENT);
    expect_code("exists", zoo_wexists(handle, child, node_watcher, &seen, &stat), ZOK);
    expect_code("delete", zoo_delete(handle, child, -1), ZOK);
    wait_for("deleted event", &seen.events, 4);
    expect_number("deleted", seen.last_type, ZOO_DELETED_EVENT);
    expect_code("exists", zoo_wexists(handle, path, node_watcher, &seen, &stat), ZOK);
    int code = zoo_remove_watches(handle, path, ZWATCHTYPE_DATA, node_watcher, &seen, 0);
    expect_code("remove a watch", code, ZOK);
    expect_code("set without a watch", zoo_set(handle, path, "4", 1, -1), ZOK);
    expect_code("sync point", zoo_exists(handle, path, 0, &stat), ZOK);
    expect_number("number of events", seen.events, 4);
    passed("watches");
}

static void check_multi(zhandle_t *handle) {
    char path[PATH_SIZE], made[PATH_SIZE], child[PATH_SIZE + 8], never[PATH_SIZE + 8];
    zoo_op_t ops[5];
    zoo_op_result_t results[5];
    struct Stat stat;
    join(path, "multi");
    snprintf(child, sizeof child, "%s/c", path);
    snprintf(never, sizeof never, "%s/never", path);
    zoo_create_op_init(&ops[0], path, "m", 1, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made);
    zoo_create_op_init(&ops[1], child, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_set_op_init(&ops[2], path, "mm", 2, 0, &stat);
    zoo_check_op_init(&ops[3], path, 1);
    zoo_delete_op_init(&ops[4], child, 0);
    expect_code("multi", zoo_multi(handle, 5, ops, results), ZOK);
    for (int index = 0; index < 5; index++)
        expect_code("result of a part", results[index].err, ZOK);
    expect_text("created path", made, path);
    expect_number("version in the reply", stat.version, 1);
    expect_code("the child is gone", zoo_exists(handle, child, 0, &stat), ZNONODE);

    zoo_create_op_init(&ops[0], never, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_check_op_init(&ops[1], path, 99);
    zoo_set_op_init(&ops[2], path, "x", 1, -1, &stat);
    expect_code("a multi that fails", zoo_multi(handle, 3, ops, results), ZBADVERSION);
    expect_code("part before the failure", results[0].err, ZOK);
    expect_code("part that fails", results[1].err, ZBADVERSION);
    expect_code("part after the failure", results[2].err, ZRUNTIMEINCONSISTENCY);
    expect_code("nothing of it happened", zoo_exists(handle, never, 0, &stat), ZNONODE);
    passed("multi");
}

static void auth_completion(int code, const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&guard);
    seen->completions++;
    seen->last_code = code;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void check_auth_and_acl(zhandle_t *handle) {
    char path[PATH_SIZE], data[16];
    int length = sizeof data;
    struct seen seen, other_seen;
    struct ACL_vector acl = {0, NULL};
    struct Stat stat;
    memset(&seen, 0, sizeof seen);
    join(path, "acl");
    zhandle_t *other = connect_to_server(&other_seen);
    expect_code("add auth", zoo_add_auth(other, "digest", "ann:secret", 10, auth_completion, &seen), ZOK);
    wait_for("answer to auth", &seen.completions, 1);
    expect_code("auth", seen.last_code, ZOK);
    expect_code("create for its creator", zoo_create(other, path, "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK);
    expect_code("a stranger reads", zoo_get(handle, path, 0, data, &length, NULL), ZNOAUTH);
    expect_code("a stranger writes", zoo_set(handle, path, "y", 1, -1), ZNOAUTH);
    expect_code("get ACL", zoo_get_acl(other, path, &acl, &stat), ZOK);
    expect_number("entries", acl.count, 1);
    expect_text("scheme", acl.data[0].id.scheme, "digest");
    expect_number("permissions", acl.data[0].perms, ZOO_PERM_ALL);
    if (strncmp(acl.data[0].id.id, "ann:", 4) != 0)
        wrong("id in the ACL: expected ann:HASH, got %s", acl.data[0].id.id);
    deallocate_ACL_vector(&acl);
    expect_code("set ACL", zoo_set_acl(other, path, 0, &ZOO_READ_ACL_UNSAFE), ZOK);
    length = sizeof data;
    expect_code("a stranger reads now", zoo_get(handle, path, 0, data, &length, NULL), ZOK);
    expect_code("the creator cannot write now", zoo_set(other, path, "z", 1, -1), ZNOAUTH);
    expect_code("close", zookeeper_close(other), ZOK);
    passed("auth and ACL");
}

static void set_completion(int code, const struct Stat *stat, const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&guard);
    seen->completions++;
    if (code != ZOK)
        seen->last_code = code;
    else if (stat->version != seen->last_version + 1)
        seen->out_of_order++;
    if (stat != NULL)
        seen->last_version = stat->version;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void data_completion(int code, const char *value, int length, const struct Stat *stat, const void *context) {
    struct seen *seen = (struct seen *)context;
    (void)stat;
    pthread_mutex_lock(&guard);
    seen->completions++;
    seen->last_code = code;
    snprintf(seen->text, sizeof seen->text, "%.*s", length < 0 ? 0 : length, value == NULL ? "" : value);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void string_completion(int code, const char *value, const void *context) {
    data_completion(code, value, value == NULL ? 0 : (int)strlen(value), NULL, context);
}

static void void_completion(int code, const void *context) { data_completion(code, NULL, 0, NULL, context); }

static void strings_completion(int code, const struct String_vector *names, const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&guard);
    seen->completions++;
    seen->last_code = code;
    seen->children = names == NULL ? -1 : names->count;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&guard);
}

static void check_async(zhandle_t *handle) {
    char path[PATH_SIZE], number[16];
    struct seen seen, reading;
    memset(&seen, 0, sizeof seen);
    memset(&reading, 0, sizeof reading);
    join(path, "async");
    int code = zoo_acreate(handle, path, "0", 1, &ZOO_OPEN_ACL_UNSAFE, 0, string_completion, &reading);
    expect_code("acreate", code, ZOK);
    for (int index = 1; index <= PIPELINE; index++) {
        snprintf(number, sizeof number, "%d", index);
        expect_code("aset", zoo_aset(handle, path, number, (int)strlen(number), -1, set_completion, &seen), ZOK);
    }
    expect_code("aget", zoo_aget(handle, path, 0, data_completion, &reading), ZOK);
    wait_for("answers to the writes", &seen.completions, PIPELINE);
    wait_for("answers to create and get", &reading.completions, 2);
    expect_code("every write", seen.last_code, ZOK);
    expect_number("answers out of order", seen.out_of_order, 0);
    expect_number("last version", seen.last_version, PIPELINE);
    snprintf(number, sizeof number, "%d", PIPELINE);
    expect_text("the read sees the last write", reading.text, number);
    expect_code("aget_children", zoo_aget_children(handle, root, 0, strings_completion, &reading), ZOK);
    wait_for("answer to aget_children", &reading.completions, 3);
    if (reading.last_code != ZOK || reading.children < 1)
        wrong("aget_children: code %d, %d children", reading.last_code, reading.children);
    expect_code("async", zoo_async(handle, path, string_completion, &reading), ZOK);
    wait_for("answer to sync", &reading.completions, 4);
    expect_text("path of sync", reading.text, path);
    expect_code("adelete", zoo_adelete(handle, path, -1, void_completion, &reading), ZOK);
    wait_for("answer to adelete", &reading.completions, 5);
    expect_code("adelete", reading.last_code, ZOK);
    expect_code("adelete again", zoo_adelete(handle, path, -1, void_completion, &reading), ZOK);
    wait_for("answer to the second adelete", &reading.completions, 6);
    expect_code("second adelete", reading.last_code, ZNONODE);
    passed("async");
}

static void string_stat_completion(int code, const char *value, const struct Stat *stat, const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&guard);
    seen->last_version = stat == NULL ? -1 : stat->dataLength;
    pthread_mutex_unlock(&guard);
    string_completion(code, value, context);
}

static void stat_completion(int code, const struct Stat *stat, const void *context) {
    string_stat_completion(code, NULL, stat, context);
}

static void strings_stat_completion(int code, const struct String_vector *names, const struct Stat *stat,
                                    const void *context) {
    struct seen *seen = (struct seen *)context;
    pthread_mutex_lock(&guard);
    seen->last_version = stat == NULL ? -1 : stat->numChildren;
    pthread_mutex_unlock(&guard);
    strings_completion(code, names, context);
}

static void acl_completion(int code, struct ACL_vector *acl, struct Stat *stat, const void *context) {
    string_stat_completion(code, acl == NULL || acl->count == 0 ? NULL : acl->data[0].id.scheme, stat, context);
}

/* Waits for the next completion and compares its code. */
static void answer(struct seen *seen, const char *what, int expected) {
    int before = seen->answered;
    wait_for(what, &seen->completions, before + 1);
    seen->answered = before + 1;
    expect_code(what, seen->last_code, expected);
}

static void check_async_nodes(zhandle_t *handle) {
    char path[PATH_SIZE], child[PATH_SIZE + 8];
    const struct ACL_vector *open_acl = &ZOO_OPEN_ACL_UNSAFE;
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    join(path, "async-nodes");
    expect_code("acreate2", zoo_acreate2(handle, path, "12", 2, open_acl, 0, string_stat_completion, &seen), ZOK);
    answer(&seen, "acreate2", ZOK);
    expect_text("path of acreate2", seen.text, path);
    expect_number("dataLength of acreate2", seen.last_version, 2);
    expect_code("aexists", zoo_aexists(handle, path, 0, stat_completion, &seen), ZOK);
    answer(&seen, "aexists", ZOK);
    expect_number("dataLength of aexists", seen.last_version, 2);
    snprintf(child, sizeof child, "%s/c", path);
    expect_code("aexists of nothing", zoo_aexists(handle, child, 0, stat_completion, &seen), ZOK);
    answer(&seen, "aexists of nothing", ZNONODE);
    create_open(handle, child, "");
    expect_code("aget_children2", zoo_aget_children2(handle, path, 0, strings_stat_completion, &seen), ZOK);
    answer(&seen, "aget_children2", ZOK);
    expect_number("children", seen.children, 1);
    expect_number("numChildren", seen.last_version, 1);
    expect_code("aget_acl", zoo_aget_acl(handle, path, acl_completion, &seen), ZOK);
    answer(&seen, "aget_acl", ZOK);
    expect_text("scheme", seen.text, "world");
    expect_code("delete", zoo_delete(handle, child, -1), ZOK);
    int code = zoo_aset_acl(handle, path, 0, &ZOO_READ_ACL_UNSAFE, void_completion, &seen);
    expect_code("aset_acl", code, ZOK);
    answer(&seen, "aset_acl", ZOK);
    code = zoo_aset_acl(handle, path, 0, &ZOO_READ_ACL_UNSAFE, void_completion, &seen);
    expect_code("aset_acl again", code, ZOK);
    answer(&seen, "aset_acl without the right", ZNOAUTH);
    passed("async create2, exists, children2, ACL");
}

static void check_async_ttl(zhandle_t *handle) {
    char path[PATH_SIZE], made[PATH_SIZE];
    const struct ACL_vector *acl = &ZOO_OPEN_ACL_UNSAFE;
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    join(path, "ttl-sync");
    int code = zoo_create_ttl(handle, path, "", 0, acl, ZOO_PERSISTENT_WITH_TTL, 3600000, made, sizeof made);
    if (code == ZUNIMPLEMENTED) {
        printf("skip asynchronous TTL: the server has extendedTypesEnabled=false\n");
        return;
    }
    expect_code("create_ttl", code, ZOK);
    expect_text("path of create_ttl", made, path);
    int mode = ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL;
    expect_code("acreate_ttl", zoo_acreate_ttl(handle, path, "", 0, acl, mode, 1000000, string_completion, &seen), ZOK);
    answer(&seen, "acreate_ttl", ZOK);
    expect_number("length of a sequential name", strlen(seen.text), strlen(path) + 10);
    join(path, "ttl-async");
    mode = ZOO_PERSISTENT_WITH_TTL;
    code = zoo_acreate2_ttl(handle, path, "1", 1, acl, mode, 1000000, string_stat_completion, &seen);
    expect_code("acreate2_ttl", code, ZOK);
    answer(&seen, "acreate2_ttl", ZOK);
    expect_number("dataLength of acreate2_ttl", seen.last_version, 1);
    join(path, "ttl-bad");
    code = zoo_create_ttl(handle, path, "", 0, acl, ZOO_PERSISTENT_WITH_TTL, -5, NULL, 0);
    expect_code("a TTL below zero", code, ZBADARGUMENTS);
    passed("TTL in every variant");
}

static void check_async_watches(zhandle_t *handle) {
    char path[PATH_SIZE], child[PATH_SIZE + 8];
    struct seen seen, events;
    struct String_vector names = {0, NULL};
    struct Stat stat;
    memset(&seen, 0, sizeof seen);
    memset(&events, 0, sizeof events);
    join(path, "async-watched");
    snprintf(child, sizeof child, "%s/c", path);
    int code = zoo_awexists(handle, path, node_watcher, &events, stat_completion, &seen);
    expect_code("awexists", code, ZOK);
    answer(&seen, "awexists", ZNONODE);
    create_open(handle, path, "");
    wait_for("created event", &events.events, 1);
    expect_number("created", events.last_type, ZOO_CREATED_EVENT);
    expect_code("awget", zoo_awget(handle, path, node_watcher, &events, data_completion, &seen), ZOK);
    answer(&seen, "awget", ZOK);
    expect_code("set", zoo_set(handle, path, "x", 1, -1), ZOK);
    wait_for("changed event", &events.events, 2);
    expect_number("changed", events.last_type, ZOO_CHANGED_EVENT);
    code = zoo_awget_children(handle, path, node_watcher, &events, strings_completion, &seen);
    expect_code("awget_children", code, ZOK);
    answer(&seen, "awget_children", ZOK);
    create_open(handle, child, "");
    wait_for("child event", &events.events, 3);
    expect_number("child", events.last_type, ZOO_CHILD_EVENT);
    code = zoo_awget_children2(handle, path, node_watcher, &events, strings_stat_completion, &seen);
    expect_code("awget_children2", code, ZOK);
    answer(&seen, "awget_children2", ZOK);
    expect_code("delete", zoo_delete(handle, child, -1), ZOK);
    wait_for("child event", &events.events, 4);
    expect_code("wget_children2", zoo_wget_children2(handle, path, node_watcher, &events, &names, &stat), ZOK);
    expect_number("children", names.count, 0);
    deallocate_String_vector(&names);
    expect_code("delete", zoo_delete(handle, path, -1), ZOK);
    wait_for("deleted event", &events.events, 5);
    expect_number("deleted", events.last_type, ZOO_DELETED_EVENT);
    passed("watches of the async variants");
}

static void check_removal_of_watches(zhandle_t *handle) {
    char path[PATH_SIZE];
    struct seen seen, one, two;
    struct String_vector names = {0, NULL};
    struct Stat stat;
    /* The header asks for a pointer to a function pointer and the library calls the function itself. */
    void_completion_t *done = (void_completion_t *)void_completion;
    memset(&seen, 0, sizeof seen);
    memset(&one, 0, sizeof one);
    memset(&two, 0, sizeof two);
    join(path, "removal");
    create_open(handle, path, "");
    expect_code("wexists", zoo_wexists(handle, path, node_watcher, &one, &stat), ZOK);
    expect_code("wexists", zoo_wexists(handle, path, node_watcher, &two, &stat), ZOK);
    expect_code("wget_children", zoo_wget_children(handle, path, node_watcher, &one, &names), ZOK);
    deallocate_String_vector(&names);
    int code = zoo_aremove_watches(handle, path, ZWATCHTYPE_DATA, node_watcher, &one, 0, done, &seen);
    expect_code("aremove_watches", code, ZOK);
    answer(&seen, "aremove_watches", ZOK);
    expect_code("set", zoo_set(handle, path, "1", 1, -1), ZOK);
    wait_for("the other watch fires", &two.events, 1);
    expect_number("events of the removed watch", one.events, 0);
    code = zoo_aremove_all_watches(handle, path, ZWATCHTYPE_CHILD, 0, done, &seen);
    expect_code("aremove_all_watches", code, ZOK);
    answer(&seen, "aremove_all_watches", ZOK);
    code = zoo_remove_all_watches(handle, path, ZWATCHTYPE_DATA, 0);
    expect_code("remove_all_watches without a watch", code, ZNOWATCHER);
    expect_code("wexists", zoo_wexists(handle, path, node_watcher, &one, &stat), ZOK);
    expect_code("remove_all_watches", zoo_remove_all_watches(handle, path, ZWATCHTYPE_DATA, 0), ZOK);
    expect_code("set", zoo_set(handle, path, "2", 1, -1), ZOK);
    expect_code("sync point", zoo_exists(handle, path, 0, &stat), ZOK);
    expect_number("events of the removed watches", one.events, 0);
    passed("removal of watches");
}

static void check_async_multi(zhandle_t *handle) {
    char path[PATH_SIZE], made[PATH_SIZE];
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    struct seen seen;
    struct Stat stat;
    memset(&seen, 0, sizeof seen);
    join(path, "async-multi");
    int flags = ZOO_EPHEMERAL | ZOO_SEQUENCE;
    zoo_create_op_init(&ops[0], path, "m", 1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_create_op_init(&ops[1], path, "e", 1, &ZOO_OPEN_ACL_UNSAFE, flags, made, sizeof made);
    zoo_set_op_init(&ops[2], path, "mm", 2, 0, &stat);
    expect_code("amulti", zoo_amulti(handle, 3, ops, results, void_completion, &seen), ZOK);
    answer(&seen, "amulti", ZOK);
    expect_number("length of a sequential name", strlen(made), strlen(path) + 10);
    expect_number("version in the reply", stat.version, 1);
    zoo_delete_op_init(&ops[0], path, 9);
    expect_code("amulti", zoo_amulti(handle, 1, ops, results, void_completion, &seen), ZOK);
    answer(&seen, "amulti that fails", ZBADVERSION);
    expect_code("its part", results[0].err, ZBADVERSION);
    passed("async multi");
}

static void check_configuration(zhandle_t *handle) {
    char data[4096];
    int length = sizeof data;
    struct seen seen, events;
    struct Stat stat;
    memset(&seen, 0, sizeof seen);
    memset(&events, 0, sizeof events);
    expect_code("getconfig", zoo_getconfig(handle, 0, data, &length, &stat), ZOK);
    expect_number("length", stat.dataLength, length < 0 ? 0 : length);
    length = sizeof data;
    expect_code("wgetconfig", zoo_wgetconfig(handle, node_watcher, &events, data, &length, &stat), ZOK);
    expect_code("agetconfig", zoo_agetconfig(handle, 0, data_completion, &seen), ZOK);
    answer(&seen, "agetconfig", ZOK);
    expect_code("awgetconfig", zoo_awgetconfig(handle, node_watcher, &events, data_completion, &seen), ZOK);
    answer(&seen, "awgetconfig", ZOK);
    length = sizeof data;
    const char *joining = "server.9=127.0.0.1:2888:3888;2181";
    int code = zoo_reconfig(handle, joining, NULL, NULL, -1, data, &length, &stat);
    if (code != ZRECONFIGDISABLED && code != ZUNIMPLEMENTED)
        wrong("reconfig: expected a refusal, got %s (%d)", zerror(code), code);
    int again = zoo_areconfig(handle, NULL, "1", NULL, -1, data_completion, &seen);
    expect_code("areconfig", again, ZOK);
    answer(&seen, "areconfig", code);
    passed("configuration and reconfiguration");
}

static void ignore_log(const char *message) { (void)message; }

static void check_handle(zhandle_t *handle) {
    char list[PATH_SIZE];
    struct seen seen, other_seen;
    struct sockaddr_in host;
    socklen_t size = sizeof host;
    expect_number("state", zoo_state(handle), ZOO_CONNECTED_STATE);
    expect_number("recv_timeout", zoo_recv_timeout(handle), 10000);
    if (zookeeper_get_connected_host(handle, (struct sockaddr *)&host, &size) == NULL)
        wrong("get_connected_host: no host");
    const char *colon = strrchr(server_address, ':');
    expect_number("port of the host", ntohs(host.sin_port), atoi(colon + 1));
    memset(&seen, 0, sizeof seen);
    memset(&other_seen, 0, sizeof other_seen);
    zoo_deterministic_conn_order(1);
    snprintf(list, sizeof list, "127.0.0.1:1,%s", server_address);
    zhandle_t *other = zookeeper_init2(list, session_watcher, 10000, NULL, &seen, 0, ignore_log);
    if (other == NULL)
        wrong("zookeeper_init2 gave no handle");
    wait_for("connection to the second server of the list", &seen.connected, 1);
    expect_text("current server", zoo_get_current_server(other), server_address);
    if (zoo_get_context(other) != &seen || zoo_get_log_callback(other) != ignore_log)
        wrong("context or log callback: not what was given");
    zoo_set_log_callback(other, NULL);
    zoo_set_log_callback(other, ignore_log);
    if (zoo_set_watcher(other, node_watcher) != session_watcher)
        wrong("set_watcher: not the watcher before");
    zoo_set_watcher(other, session_watcher);
    zoo_set_context(other, &other_seen);
    expect_code("set_servers_resolution_delay", zoo_set_servers_resolution_delay(other, -1), ZOK);
    expect_code("set_servers", zoo_set_servers(other, server_address), ZOK);
    zoo_cycle_next_server(other);
    struct Stat stat;
    expect_code("exists", zoo_exists(other, root, 0, &stat), ZOK);
    expect_code("close", zookeeper_close(other), ZOK);
    expect_code("is unrecoverable", is_unrecoverable(handle), ZOK);
    passed("functions of the handle");
}

static void check_chroot(zhandle_t *handle) {
    char address[PATH_SIZE], path[PATH_SIZE], made[PATH_SIZE];
    struct seen seen, events;
    struct Stat stat;
    join(path, "chroot");
    create_open(handle, path, "");
    memset(&seen, 0, sizeof seen);
    memset(&events, 0, sizeof events);
    snprintf(address, sizeof address, "%s%s", server_address, path);
    zhandle_t *inside = zookeeper_init(address, session_watcher, 10000, NULL, &seen, ZOO_READONLY);
    wait_for("connection", &seen.connected, 1);
    expect_number("a server that writes gives a full session", zoo_state(inside), ZOO_CONNECTED_STATE);
    expect_code("create", zoo_create(inside, "/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, made, sizeof made), ZOK);
    expect_text("path inside", made, "/a");
    expect_code("wexists", zoo_wexists(inside, "/a", node_watcher, &events, &stat), ZOK);
    join(path, "chroot/a");
    expect_code("delete from outside", zoo_delete(handle, path, -1), ZOK);
    wait_for("event inside", &events.events, 1);
    expect_text("path of the event", events.last_path, "/a");
    expect_code("close", zookeeper_close(inside), ZOK);
    passed("chroot and read-only flag");
}

/* The child process of check_expiry: holds an ephemeral node until it is killed. */
static int hold_ephemeral(const char *path) {
    struct seen seen;
    memset(&seen, 0, sizeof seen);
    zhandle_t *handle = zookeeper_init(server_address, session_watcher, 4000, NULL, &seen, 0);
    wait_for("connection of the child", &seen.connected, 1);
    expect_code("create", zoo_create(handle, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0), ZOK);
    if (write(STDOUT_FILENO, zoo_client_id(handle), sizeof(clientid_t)) != sizeof(clientid_t))
        return 1;
    for (;;)
        pause();
}

/* Starts the child and gives its session; it is killed and waited for with end_holder. */
static pid_t start_holder(const char *path, clientid_t *id) {
    int ends[2];
    if (pipe(ends) != 0)
        wrong("no pipe for a child process");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(own_program, own_program, server_address, "--hold", path, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    if (child < 0 || read(ends[0], id, sizeof *id) != sizeof *id)
        wrong("the child process did not come up");
    close(ends[0]);
    return child;
}

static void end_holder(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void check_expiry(zhandle_t *handle) {
    char path[PATH_SIZE];
    clientid_t id;
    struct seen events, late;
    struct Stat stat;
    join(path, "expiry");
    pid_t child = start_holder(path, &id);
    memset(&events, 0, sizeof events);
    memset(&late, 0, sizeof late);
    expect_code("exists", zoo_wexists(handle, path, node_watcher, &events, &stat), ZOK);
    expect_number("owner", stat.ephemeralOwner, id.client_id);
    end_holder(child);
    wait_for("the session expires", &events.events, 1);
    expect_number("deleted", events.last_type, ZOO_DELETED_EVENT);
    zhandle_t *again = zookeeper_init(server_address, session_watcher, 10000, &id, &late, 0);
    wait_for("the expired session is refused", &late.expired, 1);
    expect_code("is unrecoverable", is_unrecoverable(again), ZINVALIDSTATE);
    zookeeper_close(again);
    passed("expiry of a session");
}

static void check_reattachment(zhandle_t *handle) {
    char path[PATH_SIZE];
    clientid_t id;
    struct seen seen;
    struct Stat stat;
    join(path, "reattachment");
    pid_t child = start_holder(path, &id);
    /* Two living clients would take the session from each other without end. */
    end_holder(child);
    memset(&seen, 0, sizeof seen);
    zhandle_t *second = zookeeper_init(server_address, session_watcher, 10000, &id, &seen, 0);
    wait_for("connection with the same session", &seen.connected, 1);
    expect_number("session", zoo_client_id(second)->client_id, id.client_id);
    expect_code("the node is there", zoo_exists(second, path, 0, &stat), ZOK);
    expect_number("owner", stat.ephemeralOwner, id.client_id);
    expect_code("close", zookeeper_close(second), ZOK);
    expect_code("the node is gone", zoo_exists(handle, path, 0, &stat), ZNONODE);
    passed("re-attachment to a session");
}

static void check_refused_authentication(void) {
    struct seen seen, answers;
    memset(&answers, 0, sizeof answers);
    zhandle_t *other = connect_to_server(&seen);
    expect_code("add auth", zoo_add_auth(other, "nonsense", "x", 1, auth_completion, &answers), ZOK);
    wait_for("answer", &answers.completions, 1);
    expect_code("auth with an unknown scheme", answers.last_code, ZAUTHFAILED);
    zookeeper_close(other);
    passed("refused authentication");
}

/* The C client registers its watches again (setWatches) when it comes back. */
static void check_restart(zhandle_t *handle, struct seen *seen) {
    char path[PATH_SIZE], later[PATH_SIZE], answer[64], data[8];
    struct Stat before, after;
    struct seen watching;
    int length = sizeof data;
    memset(&watching, 0, sizeof watching);
    join(path, "restart");
    join(later, "restart-later");
    create_open(handle, path, "kept");
    expect_code("get", zoo_wget(handle, path, node_watcher, &watching, data, &length, &before), ZOK);
    expect_code("exists", zoo_wexists(handle, later, node_watcher, &watching, &after), ZNONODE);
    int64_t session = zoo_client_id(handle)->client_id;
    int connected = seen->connected;
    printf("@restart\n");
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) == NULL)
        wrong("restart: the caller did not answer");
    if (strcmp(answer, "@restarted\n") != 0) {
        printf("skip restart: the caller cannot restart this server\n");
        return;
    }
    wait_for("the client is back", &seen->connected, connected + 1);
    length = sizeof data;
    expect_code("get after a restart", zoo_get(handle, path, 0, data, &length, &after), ZOK);
    expect_number("length after a restart", length, 4);
    expect_number("mzxid after a restart", after.mzxid, before.mzxid);
    expect_number("session after a restart", zoo_client_id(handle)->client_id, session);
    create_open(handle, later, "");
    wait_for("an old exists watch fires", &watching.events, 1);
    expect_number("its type", watching.last_type, ZOO_CREATED_EVENT);
    expect_code("set", zoo_set(handle, path, "new", 3, -1), ZOK);
    wait_for("an old data watch fires", &watching.events, 2);
    expect_number("its type", watching.last_type, ZOO_CHANGED_EVENT);
    expect_number("the session did not expire", seen->expired, 0);
    passed("restart keeps data, session and watches");
}

static void delete_tree(zhandle_t *handle, const char *path) {
    struct String_vector names = {0, NULL};
    char child[1024];
    if (zoo_get_children(handle, path, 0, &names) == ZOK) {
        for (int index = 0; index < names.count; index++) {
            snprintf(child, sizeof child, "%s/%s", path, names.data[index]);
            delete_tree(handle, child);
        }
        deallocate_String_vector(&names);
    }
    expect_code(path, zoo_delete(handle, path, -1), ZOK);
}

int main(int count, char **arguments) {
    struct seen seen;
    if (count < 2) {
        fprintf(stderr, "usage: c_client_smoke HOST:PORT\n");
        return 2;
    }
    own_program = arguments[0];
    server_address = arguments[1];
    printf("version libzookeeper_mt %s\n", ZOO_VERSION);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zoo_set_log_stream(fopen("/dev/null", "w"));
    if (count > 3 && strcmp(arguments[2], "--hold") == 0)
        return hold_ephemeral(arguments[3]);
    zhandle_t *handle = connect_to_server(&seen);
    snprintf(root, sizeof root, "/c-client-%lld-%d", (long long)time(NULL), (int)getpid());
    create_open(handle, root, "");
    check_create_get_set_delete(handle);
    check_null_and_empty_data(handle);
    check_create2_and_children(handle);
    check_sequence_and_ephemeral(handle);
    check_containers_and_ttl(handle);
    check_watches(handle);
    check_multi(handle);
    check_auth_and_acl(handle);
    check_async(handle);
    check_async_nodes(handle);
    check_async_ttl(handle);
    check_async_watches(handle);
    check_removal_of_watches(handle);
    check_async_multi(handle);
    check_configuration(handle);
    check_handle(handle);
    check_chroot(handle);
    check_reattachment(handle);
    check_refused_authentication();
    check_expiry(handle);
    check_restart(handle, &seen);
    delete_tree(handle, root);
    expect_code("close", zookeeper_close(handle), ZOK);
    printf("%d checks passed\n", checks_passed);
    return 0;
}
