/* Loaded before the C library: every sync fails while a file is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int is_broken(void) {
    const char *trigger = getenv("ZEBU_INTEROP_FAILING_SYNC");
    return trigger != NULL && access(trigger, F_OK) == 0;
}

static int sync_by(const char *name, int file) {
    int saved = errno;
    if (is_broken()) {
        errno = EIO;
        return -1;
    }
    errno = saved;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return real(file);
}

int fsync(int file) { return sync_by("fsync", file); }

int fdatasync(int file) { return sync_by("fdatasync", file); }
