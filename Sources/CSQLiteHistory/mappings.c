#define _GNU_SOURCE
#include "mappings.h"
#include "solo.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* SQLite maps the wal-index of a database, the file whose name ends in -shm. Any process with write permission
 * can truncate that file, and an access beyond its end is a SIGBUS, which ends the process. Here such an access
 * finds an empty page instead, and from then on the file is not used any more: each lock, read and write of the
 * connections that have mapped it fails with HISTORY_IOERR_MAPPING_LOST until they are closed. Nothing that was
 * read from the empty page is used: what is not found in the wal-index is read from the database, and that
 * fails.
 *
 * The regions that SQLite maps are known from its VFS (xShmMap, https://www.sqlite.org/c3ref/io_methods.html).
 * A SIGBUS anywhere else ends the process as usual. */

struct region {
    struct region *next;
    char *start;
    size_t size;
};

/* Follows SQLite's own part of an open file. */
struct guard {
    const sqlite3_io_methods *base;
    struct guard *next;
    struct guard **link;
    struct region *regions;
    /* The first region of the wal-index, where its header is. */
    uint32_t volatile *index;
    struct solo solo;
    atomic_int isLost;
    /* Whether SQLite has opened the wal-index for reading alone. */
    int isReadOnly;
};

static size_t guardOffset;
static struct guard *guards;
/* Whether any region was ever lost: a single load, because each read checks it. */
static atomic_int anyIsLost;

/* Held for a few instructions, and never during an access to memory that may be lost. The handler, which
 * interrupts such an access, can therefore take it. */
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void take(void) { while (atomic_flag_test_and_set(&lock)) sched_yield(); }
static void release(void) { atomic_flag_clear(&lock); }

static struct guard *guardOf(sqlite3_file *file) { return (struct guard *)((char *)file + guardOffset); }

static int isLost(sqlite3_file *file) {
    return atomic_load_explicit(&anyIsLost, memory_order_relaxed) && atomic_load(&guardOf(file)->isLost);
}

/* MARK: Lost pages */

/* Marks the start of a page that replaces a lost one. No valid page of a wal-index starts like this: it would
 * be a version, two frames of the same page in a row, or frame numbers that no part of it can have
 * (https://www.sqlite.org/walformat.html). As a frame number it is beyond its part, so that it leads
 * nowhere. */
static const uint16_t mark[4] = {0x1001, 0x1001, 0x1001, 0x1001};

static int replacePage(char *address) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int isFound = 0;
    take();
    for (struct guard *guard = guards; guard; guard = guard->next) {
        for (struct region *region = guard->regions; region; region = region->next) {
            if (address < region->start || address >= region->start + region->size) continue;
            isFound = 1;
            atomic_store(&guard->isLost, 1);
        }
    }
    if (isFound) {
        atomic_store(&anyIsLost, 1);
        void *page = (void *)((uintptr_t)address & ~(uintptr_t)(size - 1));
        page = mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (page == MAP_FAILED) isFound = 0; else memcpy(page, mark, sizeof mark);
    }
    release();
    return isFound;
}

static struct sigaction previous;

static void busError(int number, siginfo_t *info, void *context) {
    (void)context;
    int error = errno;
    int isAccess = info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR;
    if (!isAccess || !replacePage(info->si_addr)) {
        /* The access is repeated under the previous handling; a signal that was sent is sent again. */
        sigaction(SIGBUS, &previous, 0);
        if (info->si_code <= 0) raise(number);
    }
    errno = error;
}

static void install(void) {
    struct sigaction action = {.sa_sigaction = busError, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &previous);
}

void history_survive_lost_mappings(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

/* MARK: Regions */

/* Another connection may have lost the page and been closed since: SQLite shares its mappings. */
static int hasMark(const char *start, size_t size) {
    size_t step = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i + sizeof mark <= size; i += step) {
        if (memcmp(start + i, mark, sizeof mark) == 0) return 1;
    }
    return 0;
}

static int addRegion(struct guard *guard, char *start, size_t size) {
    struct region *region = malloc(sizeof *region);
    if (!region) return SQLITE_IOERR_NOMEM;
    take();
    if (!guard->regions) {
        guard->next = guards;
        guard->link = &guards;
        if (guards) guards->link = &guard->next;
        guards = guard;
    }
    *region = (struct region){guard->regions, start, size};
    guard->regions = region;
    release();
    return SQLITE_OK;
}

static void removeRegions(struct guard *guard) {
    take();
    struct region *region = guard->regions;
    guard->regions = 0;
    if (region) {
        *guard->link = guard->next;
        if (guard->next) guard->next->link = guard->link;
    }
    release();
    while (region) {
        struct region *next = region->next;
        free(region);
        region = next;
    }
}

/* The file has the mapped pages as well, and they are mapped in again when they are read. */
static void forgetRegions(struct guard *guard) {
    take();
    /* Not where a page replaces a lost one. */
    int isLost = atomic_load(&anyIsLost);
    for (struct region *region = guard->regions; region && !isLost; region = region->next) {
        madvise(region->start, region->size, MADV_DONTNEED);
    }
    release();
}

/* MARK: The methods of a file */

static int mapRegion(sqlite3_file *file, int number, int size, int extends, void volatile **address) {
    struct guard *guard = guardOf(file);
    if (isLost(file)) return HISTORY_IOERR_MAPPING_LOST;
    int rc = guard->base->xShmMap(file, number, size, extends, address);
    if (!*address) return rc;
    char *start = (char *)*address;
    int added = addRegion(guard, start, (size_t)size);
    if (added != SQLITE_OK) return added;
    if (number == 0) {
        guard->index = (uint32_t volatile *)start;
        guard->isReadOnly = rc == SQLITE_READONLY;
    }
    if (atomic_load(&anyIsLost) && hasMark(start, (size_t)size)) atomic_store(&guard->isLost, 1);
    return isLost(file) ? HISTORY_IOERR_MAPPING_LOST : rc;
}

static int lockRegions(sqlite3_file *file, int offset, int count, int flags) {
    if (isLost(file) && !(flags & SQLITE_SHM_UNLOCK)) return HISTORY_IOERR_MAPPING_LOST;
    struct guard *guard = guardOf(file);
    return solo_lock(&guard->solo, file, guard->base, offset, count, flags);
}

static int unmapRegions(sqlite3_file *file, int removes) {
    struct guard *guard = guardOf(file);
    solo_leave(&guard->solo, file, guard->base);
    guard->index = 0;
    removeRegions(guard);
    return guard->base->xShmUnmap(file, removes);
}

static int readFile(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    return isLost(file) ? HISTORY_IOERR_MAPPING_LOST : guardOf(file)->base->xRead(file, bytes, count, offset);
}

static int writeFile(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    return isLost(file) ? HISTORY_IOERR_MAPPING_LOST : guardOf(file)->base->xWrite(file, bytes, count, offset);
}

/* Before it reads or writes anything, SQLite looks beside the file's name for a journal left by a crash, rolls
 * it back and removes it. If the name now belongs to another file, for instance after a backup was renamed over
 * it, that journal belongs to a writer of the other file, which would lose its transaction. A file whose name
 * belongs to another file is therefore not used any more. In WAL mode the lock is taken once, and SQLite itself
 * then removes nothing (databaseIsUnmoved, pager.c). */
static int lockFile(sqlite3_file *file, int level) {
    const sqlite3_io_methods *base = guardOf(file)->base;
    int hasMoved = 0;
    int rc = base->xFileControl(file, SQLITE_FCNTL_HAS_MOVED, &hasMoved);
    if (rc == SQLITE_OK && hasMoved) return SQLITE_READONLY_DBMOVED;
    return base->xLock(file, level);
}

static int closeFile(sqlite3_file *file) {
    removeRegions(guardOf(file));
    return guardOf(file)->base->xClose(file);
}

static sqlite3_io_methods guarded;
static const sqlite3_io_methods *guardedBase;

/* The file of a connection's main database; NULL if it has none. */
static sqlite3_file *guardedFile(sqlite3 *db) {
    sqlite3_file *file = 0;
    if (db) sqlite3_file_control(db, 0, SQLITE_FCNTL_FILE_POINTER, &file);
    return file && file->pMethods == &guarded ? file : 0;
}

/* MARK: Memory */

void history_forget_pages(sqlite3 *db) {
    sqlite3_db_release_memory(db);
    sqlite3_file *file = guardedFile(db);
    if (file) forgetRegions(guardOf(file));
}

/* MARK: The only transaction */

int history_enter_solo(
    sqlite3 *db, unsigned staying, int wait, int restarts_log, struct history_readers *readers
) {
    sqlite3_file *file = guardedFile(db);
    if (!file) return SQLITE_NOTFOUND;
    if (isLost(file)) return HISTORY_IOERR_MAPPING_LOST;
    struct guard *guard = guardOf(file);
    /* No lock to write can be had of it, whether others have one or not. */
    if (guard->index && guard->isReadOnly) return SQLITE_READONLY;
    guard->solo.restartsLog = restarts_log;
    return solo_enter(&guard->solo, file, guard->base, guard->index, staying, wait, readers);
}

void history_open_solo(sqlite3 *db) {
    sqlite3_file *file = guardedFile(db);
    if (!file || isLost(file)) return;
    struct guard *guard = guardOf(file);
    solo_open(&guard->solo, file, guard->base, guard->index);
}

void history_leave_solo(sqlite3 *db) {
    sqlite3_file *file = guardedFile(db);
    if (file) solo_leave(&guardOf(file)->solo, file, guardOf(file)->base);
}

/* MARK: Opening */

int history_guarded_size(int size) {
    /* The same for every VFS, whatever is below it: the guard of an open file must not move. */
    size_t needed = ((size_t)size + 15) & ~(size_t)15;
    if (needed > guardOffset) guardOffset = needed;
    return (int)(guardOffset + sizeof(struct guard));
}

void history_guard(sqlite3_file *file) {
    const sqlite3_io_methods *base = file->pMethods;
    if (!base || base->iVersion < 2 || !base->xShmMap) return;
    take();
    if (!guardedBase) {
        guarded = *base;
        guarded.iVersion = 2; /* The last version in which SQLite does not map the database itself. */
        guarded.xClose = closeFile;
        guarded.xLock = lockFile;
        guarded.xRead = readFile;
        guarded.xWrite = writeFile;
        guarded.xShmMap = mapRegion;
        guarded.xShmLock = lockRegions;
        guarded.xShmUnmap = unmapRegions;
        guardedBase = base;
    }
    release();
    if (base != guardedBase) return; /* A way to lock that has no wal-index worth the name. */
    memset(guardOf(file), 0, sizeof(struct guard));
    guardOf(file)->base = base;
    file->pMethods = &guarded;
}
