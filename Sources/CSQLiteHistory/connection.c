#include "CSQLiteHistory.h"
#include "mappings.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

/* SQLite calls that need C: sqlite3_db_config() is variadic. */

/* trusted_schema stays on: SQLite 3.40 does not trust json_extract() in an index, and could not open such a
 * store. A schema can only call SQLite's own functions here, and harmless ones of this library: no extension
 * can be loaded, and functions that are not for schemas are SQLITE_DIRECTONLY. */
int history_harden(sqlite3 *db, int runs_schema_code) {
    const struct { int option, value; } settings[] = {
        {SQLITE_DBCONFIG_DEFENSIVE, 1},
        {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
        {SQLITE_DBCONFIG_WRITABLE_SCHEMA, 0},
        {SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0},
        {SQLITE_DBCONFIG_ENABLE_TRIGGER, runs_schema_code},
        {SQLITE_DBCONFIG_ENABLE_VIEW, runs_schema_code},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        int rc = sqlite3_db_config(db, settings[i].option, settings[i].value, (int *)0);
        if (rc != SQLITE_OK) return rc;
    }
    return SQLITE_OK;
}

int history_let_write_schema(sqlite3 *db, int is_allowed) {
    int rc = sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, !is_allowed, (int *)0);
    if (rc != SQLITE_OK) return rc;
    return sqlite3_db_config(db, SQLITE_DBCONFIG_WRITABLE_SCHEMA, is_allowed, (int *)0);
}

/* A file is opened under the name as given: SQLite's own resolution of the full name follows links before the
 * descriptor is opened with O_NOFOLLOW (os_unix.c). */

static sqlite3_vfs plain;
static const char *plainName;

static int copyName(sqlite3_vfs *vfs, const char *name, int size, char *result) {
    (void)vfs;
    size_t length = strlen(name);
    if (length >= (size_t)size) return SQLITE_CANTOPEN;
    memcpy(result, name, length + 1);
    return SQLITE_OK;
}

static int (*openFile)(sqlite3_vfs *, const char *, sqlite3_file *, int, int *);

/* Opening a FIFO in a journal's place would wait for its writer forever. */
static int openPlain(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *result) {
    struct stat status;
    if (name && lstat(name, &status) == 0 && !S_ISREG(status.st_mode)) {
        file->pMethods = 0;
        return SQLITE_CANTOPEN;
    }
    int rc = openFile(vfs, name, file, flags, result);
    if (rc == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB)) history_guard(file);
    return rc;
}

static void makePlain(void) {
    sqlite3_vfs *base = sqlite3_vfs_find(0);
    if (!base || !sqlite3_compileoption_used("USE_URI")) return;
    plain = *base;
    plain.pNext = 0;
    plain.zName = "historyd-plain";
    plain.szOsFile = history_guarded_size(base->szOsFile);
    plain.xFullPathname = copyName;
    openFile = base->xOpen;
    plain.xOpen = openPlain;
    if (sqlite3_vfs_register(&plain, 0) == SQLITE_OK) plainName = plain.zName;
}

const char *history_plain_vfs(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, makePlain);
    return plainName;
}
