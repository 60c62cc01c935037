/* Loaded before the C library by tests: syncs of files take as many milliseconds longer as the file named by
   ZEBU_SLOW_SYNC says. Without that file, or while it is empty, they are as fast as the disk. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int slow_sync(const char *name, int file)
{
    const char *path = getenv("ZEBU_SLOW_SYNC");
    FILE *setting = path ? fopen(path, "r") : NULL;
    long ms = 0;
    if (setting != NULL) {
        if (fscanf(setting, "%ld", &ms) != 1)
            ms = 0;
        fclose(setting);
    }
    if (ms > 0)
        usleep((useconds_t)ms * 1000);
    int (*sync)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return sync(file);
}

int fsync(int file) { return slow_sync("fsync", file); }

int fdatasync(int file) { return slow_sync("fdatasync", file); }
