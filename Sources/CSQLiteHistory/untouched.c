#include "CSQLiteHistory.h"
#include "mappings.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

/* Two ways to open a foreign database without changing a byte: every file is opened read-only, none is created,
 * and none is removed. Therefore no connection can checkpoint the log, neither in use nor when it closes.
 *
 * "historyd-shared" takes SQLite's locks like any reader. "historyd-still" takes none, and uses no wal-index
 * file: it is for databases that no process uses. */

static sqlite3_vfs shared, still;
static int areThere;
static int (*openBase)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

static int copyName(sqlite3_vfs *vfs, const char *name, int size, char *result) {
    (void)vfs;
    size_t length = strlen(name);
    if (length >= (size_t)size) return SQLITE_CANTOPEN;
    memcpy(result, name, length + 1);
    return SQLITE_OK;
}

static int openForReading(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *result) {
    struct stat status;
    /* Opening a FIFO would wait for its writer forever. */
    if (name && lstat(name, &status) == 0 && !S_ISREG(status.st_mode)) {
        file->pMethods = 0;
        return SQLITE_CANTOPEN;
    }
    if (name) {
        flags &= ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_DELETEONCLOSE);
        flags |= SQLITE_OPEN_READONLY;
    }
    int rc = openBase(vfs, name, file, flags, result);
    if (rc == SQLITE_OK && vfs == &shared && (flags & SQLITE_OPEN_MAIN_DB)) history_guard(file);
    return rc;
}

static int refuseToRemove(sqlite3_vfs *vfs, const char *name, int syncs) {
    (void)vfs, (void)name, (void)syncs;
    return SQLITE_IOERR_DELETE;
}

static int make(sqlite3_vfs *vfs, const char *base, const char *name) {
    sqlite3_vfs *found = sqlite3_vfs_find(base);
    if (!found) return 0;
    *vfs = *found;
    vfs->pNext = 0;
    vfs->zName = name;
    vfs->xFullPathname = copyName;
    vfs->xDelete = refuseToRemove;
    openBase = vfs->xOpen;
    vfs->xOpen = openForReading;
    return 1;
}

static void makeBoth(void) {
    if (!sqlite3_compileoption_used("USE_URI")) return;
    /* Its files keep their guards at the offset that "historyd-shared" will use. */
    history_plain_vfs();
    if (!make(&shared, "unix", "historyd-shared") || !make(&still, "unix-none", "historyd-still")) return;
    shared.szOsFile = history_guarded_size(shared.szOsFile);
    areThere =
        sqlite3_vfs_register(&shared, 0) == SQLITE_OK && sqlite3_vfs_register(&still, 0) == SQLITE_OK;
}

const char *history_untouching_vfs(int is_still) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, makeBoth);
    if (!areThere) return NULL;
    return is_still ? still.zName : shared.zName;
}
