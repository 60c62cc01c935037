/* Pipelined operations with Apache's C client, libzookeeper_mt: throughput HOST:PORT OPERATION SECONDS IN_FLIGHT
 * Prints `OPERATIONS WALL_SECONDS CPU_SECONDS`. Every answer sends the next request, so that IN_FLIGHT are always on
 * the way. OPERATION is get, exists, set or create; the node /throughput/node must be there. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum operation { GET, EXISTS, SET, CREATE };

static const char *const NODE = "/throughput/node";
static zhandle_t *handle;
static enum operation operation;
static char data[100];
static atomic_int stopping;
static atomic_long answered, in_flight;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static double processor_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void must(int code) {
    if (code != ZOK) {
        fprintf(stderr, "throughput: %s\n", zerror(code));
        exit(1);
    }
}

static void next(void);

static void finished(int code) {
    must(code);
    atomic_fetch_add_explicit(&answered, 1, memory_order_relaxed);
    if (atomic_load_explicit(&stopping, memory_order_relaxed))
        atomic_fetch_sub(&in_flight, 1);
    else
        next();
}

static void got(int code, const char *value, int length, const struct Stat *stat, const void *context) {
    (void)value, (void)length, (void)stat, (void)context;
    finished(code);
}

static void told(int code, const struct Stat *stat, const void *context) {
    (void)stat, (void)context;
    finished(code);
}

static void created(int code, const char *path, const void *context) {
    (void)path, (void)context;
    finished(code);
}

static void next(void) {
    switch (operation) {
    case GET: must(zoo_aget(handle, NODE, 0, got, NULL)); break;
    case EXISTS: must(zoo_aexists(handle, NODE, 0, told, NULL)); break;
    case SET: must(zoo_aset(handle, NODE, data, sizeof data, -1, told, NULL)); break;
    case CREATE:
        must(zoo_acreate(handle, "/throughput/c-", data, sizeof data, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, created,
                         NULL));
        break;
    }
}

static enum operation parse(const char *name) {
    const char *const names[] = {"get", "exists", "set", "create"};
    for (int i = 0; i < 4; i++)
        if (strcmp(name, names[i]) == 0) return (enum operation)i;
    fprintf(stderr, "throughput: the operation is get, exists, set or create\n");
    exit(1);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: throughput HOST:PORT OPERATION SECONDS IN_FLIGHT\n");
        return 1;
    }
    operation = parse(arguments[2]);
    double seconds = atof(arguments[3]);
    int window = atoi(arguments[4]);
    memset(data, 'x', sizeof data);
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    handle = zookeeper_init(arguments[1], NULL, 30000, NULL, NULL, 0);
    /* By default this release resolves the host name before every wait for the socket. */
    if (handle) zoo_set_servers_resolution_delay(handle, -1);
    for (int i = 0; i < 3000 && (!handle || zoo_state(handle) != ZOO_CONNECTED_STATE); i++) usleep(10000);
    double processor = processor_seconds(), start = now();
    atomic_store(&in_flight, window);
    for (int i = 0; i < window; i++) next();
    while (now() - start < seconds) usleep(10000);
    atomic_store(&stopping, 1);
    while (atomic_load(&in_flight) > 0) usleep(1000);
    printf("%ld %.3f %.3f\n", atomic_load(&answered), now() - start, processor_seconds() - processor);
    zookeeper_close(handle);
    return 0;
}
