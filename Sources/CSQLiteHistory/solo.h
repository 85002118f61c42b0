#ifndef HISTORY_SOLO_H
#define HISTORY_SOLO_H

#include "CSQLiteHistory.h"

#include <stdint.h>
#include <sqlite3.h>

/* What a connection holds of a wal-index's read marks; see solo.c. */
struct solo {
    /* Whether it may begin a transaction only if it is the only one. */
    int isWanted;
    /* The read marks that it holds exclusively, as a bit mask. */
    unsigned held;
    int isReading, isWriting;
    /* The mark by which SQLite reads. */
    int reading;
    int restartsLog;
    /* The end of the log at an attempt's last check, and by how much the log had grown. */
    uint32_t last, growth;
    /* The mark set to where the log is likely to end next; 0 if there is none. */
    int ahead;
    uint32_t volatile *index;
    /* When the transaction began, in microseconds, and whether others may begin transactions during it. */
    long long start;
    int isOpen;
};

/* index: the first region of the wal-index; NULL if none is mapped. */
int solo_enter(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, uint32_t volatile *index, unsigned staying,
    int wait, struct history_readers *readers);

int solo_lock(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, int offset, int count, int flags);

/* Lets others begin transactions if this one takes long; see solo.c. */
void solo_open(
    struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base, uint32_t volatile *index);

void solo_leave(struct solo *solo, sqlite3_file *file, const sqlite3_io_methods *base);

#endif
