/* Loaded before the C library: the monotonic clocks are behind by as many nanoseconds as a file says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *behind;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("ZEBU_TEST_PRELOADED_FILE");
    int file = path == NULL ? -1 : open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(int64_t)) != 0) return;
    void *place = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (place != MAP_FAILED) behind = place;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (real == NULL) begin();
    int result = real(clock, now);
    if (result != 0 || behind == NULL || (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)) return result;
    int64_t nanos = (int64_t)now->tv_sec * 1000000000 + now->tv_nsec - *behind;
    now->tv_sec = nanos / 1000000000;
    now->tv_nsec = nanos % 1000000000;
    return 0;
}
