/*
 * What the benchmark's programs share: how they tell what they were given, and when. The other side is
 * Stamp.swift.
 */
#ifndef STAMP_H
#define STAMP_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct Stamp {
    int64_t object;       /* the key of the last row */
    int64_t transactions; /* how many there were */
    int64_t time;         /* when, in nanoseconds of CLOCK_MONOTONIC, which is the same in all processes */
} Stamp;

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Less than PIPE_BUF, so that it is written whole or not at all (pipe(7)). */
static inline void sendStamp(int to, int64_t object, int64_t transactions, int64_t time) {
    Stamp stamp = {object, transactions, time};
    if (write(to, &stamp, sizeof stamp) != sizeof stamp) fail("write a stamp");
}

static inline void writeAll(int to, const char *bytes, size_t count) {
    while (count > 0) {
        ssize_t written = write(to, bytes, count);
        if (written < 0 && errno != EINTR) fail("write");
        if (written > 0) bytes += written, count -= (size_t)written;
    }
}

#endif
