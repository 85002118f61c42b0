#define _GNU_SOURCE
#include "solo.h"

#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* A write transaction that other connections notice only by a short wait.
 *
 * In a write-ahead log, a transaction that has read and then writes fails at once, with SQLITE_BUSY_SNAPSHOT or
 * SQLITE_BUSY and regardless of its timeout, if another connection has committed since, or is about to. Each
 * connection in a transaction holds a shared lock on one of five read marks
 * (https://www.sqlite.org/walformat.html). A connection that holds all five exclusively is therefore the only
 * one in a transaction, and its commit makes no other one fail. A connection that wants to begin meanwhile
 * finds no free mark. SQLite retries by itself, with growing sleeps, for ten seconds in all and regardless of
 * the connection's busy timeout (walTryBeginRead in wal.c).
 *
 * These retries end. A transaction that takes longer than `longest` therefore lets others begin, and is from
 * then on like that of any other writer.
 *
 * The marks are taken before SQLite begins the transaction, and released with SQLite's own read lock at its
 * end. What SQLite locks of them meanwhile is held already. */

enum { writerLock = 0, firstMark = 3, marks = 5, all = (1 << marks) - 1 };

/* Offsets in the first region of a wal-index, in 32-bit words. */
enum { lastFrame = 4, backfilled = 24, firstMarkWord = 25 };

/* The value of a mark that no connection uses. */
static const uint32_t unused = 0xffffffff;

/* In microseconds. */
static const long long longest = 250000;

static uint32_t word(uint32_t volatile *index, int position) {
    return __atomic_load_n(&index[position], __ATOMIC_SEQ_CST);
}

/* Sets a mark that is held exclusively. */
static void setMark(uint32_t volatile *index, int mark, uint32_t frame) {
    __atomic_store_n(&index[firstMarkWord + mark], frame, __ATOMIC_SEQ_CST);
}

static long long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int setLocks(
    sqlite3_file *file, const sqlite3_io_methods *base, int mark, int count, int action
) {
    return base->xShmLock(file, firstMark + mark, count, action | SQLITE_SHM_EXCLUSIVE);
}

static void release(struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base) {
    if (solo->ahead) setMark(solo->index, solo->ahead, unused);
    solo->ahead = 0;
    if (solo->held == all) {
        setLocks(file, base, 0, marks, SQLITE_SHM_UNLOCK);
    } else {
        for (int i = 0; i < marks; i++) {
            if (solo->held >> i & 1) setLocks(file, base, i, 1, SQLITE_SHM_UNLOCK);
        }
    }
    solo->held = 0;
    solo->isReading = solo->isWriting = solo->isOpen = 0;
}

void solo_leave(struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base) {
    solo->isWanted = 0;
    if (solo->held) release(solo, file, base);
}

/* The readers that see an older state of the database than the current one: they can no longer write, whatever
 * is committed. The log is not checkpointed beyond what a reader of the database itself has seen. */
static unsigned outdated(uint32_t volatile *index, unsigned others, uint32_t last) {
    unsigned result = 0;
    for (int i = 0; i < marks; i++) {
        uint32_t seen = word(index, i == 0 ? backfilled : firstMarkWord + i);
        if (others >> i & 1 && seen < last) result |= 1u << i;
    }
    return result;
}

/* Makes connections that are about to begin choose a mark that is held here: they take the last one of those at
 * the end of the log. A mark that is held exclusively may be set. Returns whether they will. */
static int shutDoor(uint32_t volatile *index, unsigned held, uint32_t last) {
    int door = marks - 1;
    while (door > 0 && !(held >> door & 1)) door--;
    if (door == 0) return 0;
    setMark(index, door, last);
    for (int i = door + 1; i < marks; i++) {
        if (word(index, firstMarkWord + i) == last) return 0;
    }
    /* While the database contains the whole log, they read the database, by the first mark. */
    return held & 1 || word(index, backfilled) != last;
}

/* The mark by which this connection reads stays held, so that the log is not restarted under it. Others would
 * choose it if it stands at the end of the log, so another mark is set there. */
void solo_open(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, uint32_t volatile *index
) {
    if (!index || !solo->held || !solo->isWriting || solo->isOpen || microseconds() - solo->start < longest) return;
    unsigned own = 1u << solo->reading;
    for (int i = marks - 1; i > 0; i--) {
        if (!(solo->held & ~own) || !(solo->held >> i & 1) || i == solo->reading) continue;
        setMark(index, i, word(index, lastFrame));
        break;
    }
    if (solo->ahead && solo->ahead != solo->reading) {
        if (word(index, firstMarkWord + solo->ahead) > word(index, lastFrame)) {
            setMark(index, solo->ahead, unused);
        }
    }
    solo->ahead = 0;
    if (solo->reading > 0) setMark(index, solo->reading, 0);
    for (int i = 0; i < marks; i++) {
        if (solo->held & ~own & 1u << i) setLocks(file, base, i, 1, SQLITE_SHM_UNLOCK);
    }
    solo->held &= own;
    solo->isOpen = 1;
}

/* An application that writes in a loop begins its next transaction some microseconds after a commit, with the
 * mark it has just released. It does not request that mark if another one stands at the new end of the log. A
 * held mark is therefore set there, provided that its commits are of equal size. */
static void lookAhead(struct solo *solo, uint32_t volatile *index, uint32_t last) {
    if (solo->last && last > solo->last) solo->growth = last - solo->last;
    solo->last = last;
    if (!solo->growth) return;
    int door = marks - 1;
    while (door > 0 && !(solo->held >> door & 1)) door--;
    for (int i = door - 1; i > 0; i--) {
        if (!(solo->held >> i & 1)) continue;
        if (solo->ahead && solo->ahead != i && solo->ahead != door) setMark(index, solo->ahead, unused);
        setMark(index, i, last + solo->growth);
        solo->ahead = i;
        return;
    }
}

static int enter(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, uint32_t volatile *index, unsigned staying,
    struct history_readers *readers
) {
    memset(readers, 0, sizeof *readers);
    solo->isWanted = 1;
    solo->index = index;
    if (!index) return SQLITE_OK;
    int rc = SQLITE_BUSY;
    if (!solo->held) {
        rc = setLocks(file, base, 0, marks, SQLITE_SHM_LOCK);
        if (rc == SQLITE_OK) solo->held = all;
    }
    for (int i = marks - 1; i >= 0 && rc == SQLITE_BUSY && solo->held != all; i--) {
        if (solo->held >> i & 1) continue;
        int taken = setLocks(file, base, i, 1, SQLITE_SHM_LOCK);
        if (taken == SQLITE_OK) solo->held |= 1u << i;
        else if (taken != SQLITE_BUSY) rc = taken;
    }
    if (solo->held == all) return SQLITE_OK;
    if (rc != SQLITE_BUSY) return rc;

    uint32_t last = word(index, lastFrame);
    unsigned others = all & ~solo->held;
    readers->held = others;
    readers->outdated = outdated(index, others, last);
    for (int i = 0; i < marks; i++) readers->marks[i] = word(index, firstMarkWord + i);
    readers->isShut = shutDoor(index, solo->held, last);
    lookAhead(solo, index, last);
    return readers->isShut && !(others & ~(staying & readers->outdated)) ? SQLITE_OK : SQLITE_BUSY;
}

/* An application that begins its next transaction at once releases a mark only for as long as it takes to
 * request one. The sleeps between the attempts are therefore shorter than the system's usual timer
 * precision. */
int solo_enter(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, uint32_t volatile *index, unsigned staying,
    int wait, struct history_readers *readers
) {
    solo->last = 0;
    int rc = enter(solo, file, base, index, staying, readers);
    if (rc != SQLITE_BUSY || wait <= 0) return rc;
    long long end = microseconds() + wait;
    int slack = prctl(PR_GET_TIMERSLACK);
    if (slack > 0) prctl(PR_SET_TIMERSLACK, 1000);
    do {
        nanosleep(&(struct timespec){.tv_nsec = 10000}, 0);
        rc = enter(solo, file, base, index, staying, readers);
    } while (rc == SQLITE_BUSY && microseconds() < end);
    if (slack > 0) prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    return rc;
}

int solo_lock(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, int offset, int count, int flags
) {
    int isLock = flags & SQLITE_SHM_LOCK;
    if (offset >= firstMark && solo->isWanted && !solo->isOpen) {
        unsigned asked = ((1u << count) - 1) << (offset - firstMark);
        int isHeld = solo->held && !(asked & ~solo->held);
        if (flags & SQLITE_SHM_SHARED) {
            if (isHeld) {
                solo->isReading = isLock != 0;
                solo->reading = offset - firstMark;
                /* A restart of the log changes the mark while the writer's lock is held. */
                if (!isLock && !solo->isWriting) release(solo, file, base);
                return SQLITE_OK;
            }
            if (isLock) return HISTORY_LOCKED_READERS;
        } else if (solo->held) {
            /* Restarting the log waits for the disk. */
            int isRestart = count == marks - 1;
            return isHeld && !(isLock && isRestart && !solo->restartsLog) ? SQLITE_OK : SQLITE_BUSY;
        }
    }
    if (solo->isOpen && !isLock && flags & SQLITE_SHM_SHARED && solo->held & 1u << (offset - firstMark)) {
        if (!solo->isWriting) release(solo, file, base);
        return SQLITE_OK;
    }
    int rc = base->xShmLock(file, offset, count, flags);
    if (rc == SQLITE_OK && offset == writerLock) {
        solo->isWriting = isLock != 0;
        if (isLock) solo->start = microseconds();
        else if (solo->held && !solo->isReading) release(solo, file, base);
    }
    return rc;
}
