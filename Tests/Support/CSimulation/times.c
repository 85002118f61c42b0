// When files were last written, in simulated time, and in ticks as the kernel has it: two writes within one have the same
// time. What was not written in the simulation is as old as that.
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static const int64_t second = 1000000000, tick = 4000000;

static struct file_time *time_of(ino_t inode) {
    struct file_time *times = ((struct shared_page *)shared)->times;
    for (size_t i = 0; i < most_files; i++) {
        struct file_time *time = &times[(inode + i) % most_files];
        if (time->inode == inode || !time->inode) return time;
    }
    abort();
}

static void note(ino_t inode) {
    int64_t now = BEGINNING + shared->now + shared->clock_step;
    *time_of(inode) = (struct file_time){.inode = inode, .time = now - now % tick};
}

void was_written(int descriptor) {
    struct stat status;
    if (!shared || KERNEL(SYS_fstat, descriptor, &status, 0, 0) < 0 || !S_ISREG(status.st_mode)) return;
    note(status.st_ino);
}

static int result_of(long result, struct stat *status) {
    if (result < 0) {
        errno = (int)-result;
        return -1;
    }
    if (!shared) return 0;
    struct file_time *time = time_of(status->st_ino);
    int64_t written = time->inode ? time->time : BEGINNING;
    status->st_mtim = (struct timespec){written / second, written % second};
    return 0;
}

int fstatat(int folder, const char *path, struct stat *status, int flags) {
    return result_of(KERNEL(SYS_newfstatat, folder, path, status, flags), status);
}

int stat(const char *path, struct stat *status) { return fstatat(AT_FDCWD, path, status, 0); }
int lstat(const char *path, struct stat *status) { return fstatat(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); }

int fstat(int descriptor, struct stat *status) {
    return result_of(KERNEL(SYS_fstat, descriptor, status, 0, 0), status);
}

// Whatever the time that is given: the program gives none but the present one.
int utimensat(int folder, const char *path, const struct timespec times[2], int flags) {
    struct stat status;
    long result = KERNEL(SYS_utimensat, folder, path, times, flags);
    if (result >= 0 && shared && KERNEL(SYS_newfstatat, folder, path, &status, flags) == 0) note(status.st_ino);
    if (result >= 0) return 0;
    errno = (int)-result;
    return -1;
}
