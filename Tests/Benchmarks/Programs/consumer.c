/*
 * The least that can hear of a store's commits and find them: one thread, inotify(7), the question whether
 * a writer is at work, a SELECT. No filters, no state, no hooks, no JSON. It is what historyd is compared to.
 *
 *   consumer watch STORE      reports each commit as it comes
 *   consumer naive STORE      the same without that question, as most such loops are written
 *   consumer drain STORE      reads the whole history, and ends
 *   … --requests              writes requests for a plugin to standard output, not stamps
 *
 * Kept small on purpose: what it does not do is what the other side is measured to cost.
 */
#define _GNU_SOURCE
#include "watch.h"

#include <sqlite3.h>
#include <string.h>

static sqlite3 *db;
static sqlite3_stmt *select_;
static int64_t last;
static int writesRequests;

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

static void begin(void) {
    beginAtEnd();
    /* From here on nothing is missed. */
    if (writesRequests) {
        writeRequest(0, 0);
        writeRequest(0, -1);
    } else {
        sendStamp(STDOUT_FILENO, 0, 0, now());
    }
}

int main(int count, char **arguments) {
    if (count < 3) return fprintf(stderr, "usage: consumer watch|naive|drain STORE [--requests]\n"), 64;
    writesRequests = count > 3 && strcmp(arguments[3], "--requests") == 0;
    openStore(arguments[2]);
    if (strcmp(arguments[1], "drain") == 0)
        look();
    else
        watchStore(arguments[2], strcmp(arguments[1], "naive") != 0, begin, look);
    return 0;
}
