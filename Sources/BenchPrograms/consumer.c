/*
 * The least that can hear of a store's commits and find them: one thread, inotify(7), the question whether
 * a writer is at work, a SELECT. No filters, no state, no hooks, no JSON. It is what historyd is compared to.
 *
 *   consumer watch STORE      tells of each commit as it comes
 *   consumer naive STORE      the same without that question, as most such loops are written
 *   consumer drain STORE      reads the whole history, and ends
 *   … --requests              writes requests for a plugin to standard output, not stamps
 *
 * Kept small on purpose: what it does not do is what the other side is measured to cost.
 */
#define _GNU_SOURCE
#include "stamp.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>

static sqlite3 *db;
static sqlite3_stmt *select_;
static int64_t last;
static int asksForWriters, writesRequests;
static int storeFile, shmFile;

static void failSQL(const char *what) {
    fprintf(stderr, "%s: %s\n", what, sqlite3_errmsg(db));
    exit(1);
}

static void openStore(const char *path) {
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL)) failSQL("open");
    if (sqlite3_prepare_v3(db,
                           "SELECT id, origin, kind, object, detail FROM historyd_change"
                           " WHERE id > ?1 ORDER BY id",
                           -1, SQLITE_PREPARE_PERSISTENT, &select_, NULL))
        failSQL("prepare");
}

static void beginAtEnd(void) {
    sqlite3_stmt *end;
    if (sqlite3_prepare_v2(db, "SELECT max(id) FROM historyd_change", -1, &end, NULL)) failSQL("prepare");
    if (sqlite3_step(end) == SQLITE_ROW) last = sqlite3_column_int64(end, 0);
    sqlite3_finalize(end);
}

/* Requests of the size that historyd's have, made with as little work as can be. */
static void writeRequest(int64_t number, int64_t object) {
    static char buffer[1 << 16];
    static size_t used;
    static int64_t id;
    if (object >= 0)
        used += (size_t)snprintf(
            buffer + used, sizeof buffer - used,
            "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"method\":\"observe\",\"params\":{\"store\":\"store\","
            "\"consumer\":\"Reader\",\"hook\":\"bench/items\",\"hookID\":\"00000000-0000-0000-0000-"
            "000000000000\",\"delivery\":\"00000000-0000-0000-0000-000000000000:%lld/Reader/bench/items/0\","
            "\"transaction\":{\"token\":\"00000000-0000-0000-0000-000000000000:%lld\",\"author\":\"Writer\","
            "\"context\":null,\"processID\":1000,\"timestamp\":\"2026-01-01T00:00:00.000Z\"},\"contexts\":"
            "[{\"entityName\":\"item\",\"operation\":\"insert\",\"objectID\":{\"id\":%lld},\"objectIDURL\":"
            "\"x-history://00000000-0000-0000-0000-000000000000/item/p%lld\",\"timestamp\":"
            "\"2026-01-01T00:00:00.000Z\",\"author\":\"Writer\"}]}}\n",
            (long long)++id, (long long)number, (long long)number, (long long)object, (long long)object);
    if (used > 0 && (object < 0 || used > sizeof buffer - 1024)) {
        writeAll(STDOUT_FILENO, buffer, used);
        used = 0;
    }
}

/* A transaction is the longest run of rows with one origin. How many there were. */
static int64_t look(void) {
    char origin[1024];
    int length = -1, result;
    int64_t count = 0, object = 0;
    sqlite3_bind_int64(select_, 1, last);
    while ((result = sqlite3_step(select_)) == SQLITE_ROW) {
        last = sqlite3_column_int64(select_, 0);
        const void *text = sqlite3_column_blob(select_, 1);
        int bytes = sqlite3_column_bytes(select_, 1);
        object = sqlite3_column_int64(select_, 3);
        if (bytes == length && memcmp(origin, text, (size_t)bytes) == 0) continue;
        if ((size_t)bytes > sizeof origin) bytes = sizeof origin;
        if (bytes > 0) memcpy(origin, text, (size_t)bytes);
        length = bytes;
        count++;
        if (writesRequests) writeRequest(last, object);
    }
    if (result != SQLITE_DONE && result != SQLITE_BUSY) failSQL("read");
    int64_t time = now();
    sqlite3_reset(select_);
    if (writesRequests)
        writeRequest(0, -1);
    else if (count > 0)
        sendStamp(STDOUT_FILENO, object, count, time);
    return count;
}

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
static void settle(void) {
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

static void watch(const char *path) {
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
    beginAtEnd();
    /* From here on nothing is missed. */
    if (writesRequests) {
        writeRequest(0, 0);
        writeRequest(0, -1);
    } else {
        sendStamp(STDOUT_FILENO, 0, 0, now());
    }
    while (read(inotify, events, sizeof events) > 0) settle();
    fail("read from inotify");
}

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: consumer watch|naive|drain STORE [--requests]\n"), 64;
    writesRequests = count > 3 && strcmp(arguments[3], "--requests") == 0;
    asksForWriters = strcmp(arguments[1], "naive") != 0;
    openStore(arguments[2]);
    if (strcmp(arguments[1], "drain") == 0)
        look();
    else
        watch(arguments[2]);
    return 0;
}
