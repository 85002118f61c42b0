#include "CSQLiteHistory.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A database as it was after one of the commits in its write-ahead log: the log appears to end with that
 * commit. SQLite reads a page from the log up to there, or else from the database.
 *
 * A checkpoint may already have copied a later version of a page to the database. Reading such a page there
 * fails, so that whatever is read is certain. */

struct past {
    const sqlite3_io_methods *base;
    sqlite3_io_methods methods;
    /* Of the database: where its log appears to end, and the pages that cannot be read from it. */
    sqlite3_int64 logSize;
    int pageSize;
    uint32_t *lost;
    size_t count;
    /* Of the log. */
    struct past *store;
};

static sqlite3_vfs vfs;
static sqlite3_vfs *still;
static size_t offset;
static const char *name;

static struct past *pastOf(sqlite3_file *file) { return (struct past *)((char *)file + offset); }

static int compare(const void *a, const void *b) {
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

static int readStore(sqlite3_file *file, void *bytes, int count, sqlite3_int64 start) {
    struct past *past = pastOf(file);
    /* Less than a page is a part of the header, which is the same in all versions. */
    if (count < 512 || !past->pageSize) return past->base->xRead(file, bytes, count, start);
    uint32_t page = (uint32_t)(start / past->pageSize + 1);
    if (past->count && bsearch(&page, past->lost, past->count, sizeof page, compare)) return SQLITE_IOERR_READ;
    int rc = past->base->xRead(file, bytes, count, start);
    /* A checkpoint may also have truncated the database. */
    return rc == SQLITE_IOERR_SHORT_READ ? SQLITE_IOERR_READ : rc;
}

static int sizeOfLog(sqlite3_file *file, sqlite3_int64 *size) {
    struct past *past = pastOf(file);
    int rc = past->base->xFileSize(file, size);
    if (rc == SQLITE_OK && *size > past->store->logSize) *size = past->store->logSize;
    return rc;
}

static int closeFile(sqlite3_file *file) {
    free(pastOf(file)->lost);
    pastOf(file)->lost = 0;
    return pastOf(file)->base->xClose(file);
}

static int openPast(sqlite3_vfs *own, const char *path, sqlite3_file *file, int flags, int *result) {
    (void)own;
    int rc = still->xOpen(still, path, file, flags, result);
    int isLog = (flags & SQLITE_OPEN_WAL) != 0;
    if (rc != SQLITE_OK || !file->pMethods || !(isLog || flags & SQLITE_OPEN_MAIN_DB)) return rc;
    struct past *past = pastOf(file);
    memset(past, 0, sizeof *past);
    past->base = file->pMethods;
    past->methods = *past->base;
    past->methods.iVersion = 2; /* The last version in which SQLite does not map the database itself. */
    past->methods.xClose = closeFile;
    if (isLog) {
        past->store = pastOf(sqlite3_database_file_object(path));
        past->methods.xFileSize = sizeOfLog;
    } else {
        past->methods.xRead = readStore;
    }
    file->pMethods = &past->methods;
    return SQLITE_OK;
}

static void makePast(void) {
    const char *base = history_untouching_vfs(1);
    still = base ? sqlite3_vfs_find(base) : 0;
    if (!still) return;
    vfs = *still;
    vfs.pNext = 0;
    vfs.zName = "historyd-past";
    vfs.xOpen = openPast;
    offset = ((size_t)still->szOsFile + 15) & ~(size_t)15;
    vfs.szOsFile = (int)(offset + sizeof(struct past));
    if (sqlite3_vfs_register(&vfs, 0) == SQLITE_OK) name = vfs.zName;
}

const char *history_past_vfs(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, makePast);
    return name;
}

int history_look_back(
    sqlite3 *db, long long log_size, int page_size, const unsigned *lost_pages, unsigned long count
) {
    sqlite3_file *file = 0;
    sqlite3_file_control(db, 0, SQLITE_FCNTL_FILE_POINTER, &file);
    if (!file || !file->pMethods || file->pMethods->xRead != readStore) return SQLITE_NOTFOUND;
    struct past *past = pastOf(file);
    uint32_t *lost = count ? malloc(count * sizeof *lost) : 0;
    if (count && !lost) return SQLITE_NOMEM;
    if (count) memcpy(lost, lost_pages, count * sizeof *lost);
    free(past->lost);
    past->lost = lost;
    past->count = count;
    past->logSize = log_size;
    past->pageSize = page_size;
    return SQLITE_OK;
}
