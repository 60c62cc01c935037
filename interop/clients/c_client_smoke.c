/* Drives a ZooKeeper-compatible server with the unmodified C client (libzookeeper_mt).
 *
 *     c_client_smoke HOST:PORT
 *
 * Prints one line per check, as interop/README.md says. The first wrong result ends the program with
 * status 1. It writes "@restart" to have the server restarted and waits for "@restarted" on standard
 * input.
 *
 * Build: gcc -DTHREADED -Wall -Wextra -o c_client_smoke c_client_smoke.c -lzookeeper_mt -lpthread
 */

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>
#include <zookeeper/zookeeper_version.h>

#define PATIENCE_SECONDS 20
#define PATH_SIZE 256
#define PIPELINE 100

static const char *server_address;
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
    server_address = arguments[1];
    printf("version libzookeeper_mt %s\n", ZOO_VERSION);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    zoo_set_log_stream(fopen("/dev/null", "w"));
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
    check_restart(handle, &seen);
    delete_tree(handle, root);
    expect_code("close", zookeeper_close(handle), ZOK);
    printf("%d checks passed\n", checks_passed);
    return 0;
}
