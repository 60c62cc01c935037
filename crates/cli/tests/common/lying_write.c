/* Loaded before the C library: a write into a file says that it wrote more than it was given, while the file that
   ZEBU_TEST_PRELOADED_FILE names holds a part of the path. No kernel does that: the caller panics. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int lies_about(int file) {
    char link[64], path[4096], part[256];
    const char *trigger = getenv("ZEBU_TEST_PRELOADED_FILE");
    int opened = trigger == NULL ? -1 : open(trigger, O_RDONLY);
    if (opened < 0) return 0;
    ssize_t length = read(opened, part, sizeof part - 1);
    close(opened);
    if (length <= 0) return 0;
    part[length] = 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t named = readlink(link, path, sizeof path - 1);
    if (named <= 0) return 0;
    path[named] = 0;
    return strstr(path, part) != NULL;
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t offset) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (real == NULL) real = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    ssize_t written = real(file, bytes, count, offset);
    return written >= 0 && lies_about(file) ? written + 1 : written;
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t offset) {
    return pwrite64(file, bytes, count, offset);
}
