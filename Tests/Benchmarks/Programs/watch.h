/*
 * How the benchmark's programs in C watch a store: one thread, inotify(7), the question whether a writer is active.
 */
#ifndef WATCH_H
#define WATCH_H

#include "stamp.h"

#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/prctl.h>

static int storeFile, shmFile;

static int isLocked(int file, off_t start, off_t count) {
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = start, .l_len = count};
    return file >= 0 && fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

/* WAL_WRITE_LOCK, or RESERVED, PENDING and EXCLUSIVE of a store with a rollback journal. */
static int isWriterActive(void) {
    return isLocked(shmFile, 120, 1) || isLocked(storeFile, 0x40000000, 512);
}

/* A commit is heard of before it can be seen. First the question, then the look: the other way round, it
 * may slip through. While a writer is at work, again after an eighth of the time waited so far. */
static void awaitVisibility(int asksForWriters, int64_t (*look)(void)) {
    int64_t since = now();
    while (1) {
        int isActive = asksForWriters && isWriterActive();
        int64_t found = look();
        if (!isActive) return;
        int64_t time = now();
        if (found > 0) since = time;
        int64_t delay = (time - since) / 8;
        if (delay < 30000) delay = 30000;
        if (delay > 100000000) delay = 100000000;
        struct timespec pause = {0, (long)delay};
        nanosleep(&pause, NULL);
    }
}

/* Calls `begin` when nothing is missed any more, and `look` after each commit. `look` returns how much it found. */
static void watchStore(const char *path, int asksForWriters, void (*begin)(void), int64_t (*look)(void)) {
    char name[4096], events[4096] __attribute__((aligned(8)));
    int inotify = inotify_init1(IN_CLOEXEC);
    const char *const files[] = {"", "-wal", "-journal"};
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s%s", path, files[i]);
        if (inotify_add_watch(inotify, name, IN_MODIFY) < 0 && errno != ENOENT) fail(name);
    }
    storeFile = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "%s-shm", path);
    shmFile = open(name, O_RDONLY | O_CLOEXEC);
    prctl(PR_SET_TIMERSLACK, 1UL);
    begin();
    while (read(inotify, events, sizeof events) > 0) awaitVisibility(asksForWriters, look);
    fail("read from inotify");
}

#endif
