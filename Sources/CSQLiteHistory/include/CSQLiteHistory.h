#ifndef CSQLITE_HISTORY_H
#define CSQLITE_HISTORY_H

/* Only declared: a definition here would belong to this module for some of the files that import it. */
typedef struct sqlite3 sqlite3;
struct sqlite3_api_routines;

/* Registers history_author() and history_token() with a connection; see history.c. The same entry point serves
 * sqlite3_load_extension() and, linked in, the Swift library. */
int sqlite3_history_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api);

/* Makes connections allocate memory as they need it, instead of space for twenty pages and forty small objects
 * at once: for a program with many connections. Call it before the first is opened. Returns an SQLite
 * result. */
int history_allocate_singly(void);

/* Makes a connection distrust the file that it opens: the schema's choice of code to run, and statements that
 * would bypass SQLite's rules to write to it. Without runs_schema_code, the file's triggers and views do not
 * run either. Returns an SQLite result. */
int history_harden(sqlite3 *db, int runs_schema_code);

/* Whether a hardened connection's own statements may write to sqlite_schema. Returns an SQLite result. */
int history_let_write_schema(sqlite3 *db, int is_allowed);

/* The name of a VFS for URIs that follows no link in a file's own name; NULL if SQLite does not support
 * URIs. */
const char *history_plain_vfs(void);

/* The name of a VFS for URIs that changes nothing of a database, its log or its folder; see untouched.c. With
 * is_still, for a database that no process uses. NULL if SQLite does not support URIs. */
const char *history_untouching_vfs(int is_still);

/* The name of a VFS for URIs that reads a database that no process uses as it was after a commit in its
 * write-ahead log; see past.c. NULL if SQLite does not support URIs. */
const char *history_past_vfs(void);

/* Chooses that commit, before the first read: the log's first log_size bytes end with it. Pages in
 * lost_pages, in ascending order, are never read from the database. Returns an SQLite result. */
int history_look_back(
    sqlite3 *db, long long log_size, int page_size, const unsigned *lost_pages, unsigned long count);

/* SQLite's result for a database that was opened with history_plain_vfs(), once a part of its mapped wal-index
 * (the file whose name ends in -shm) is lost; see mappings.c. It is SQLITE_IOERR | 250 << 8. */
#define HISTORY_IOERR_MAPPING_LOST 64010

/* Keeps the process alive if another one truncates a mapped wal-index: from here on that is an error of the
 * connections concerned, and not a SIGBUS. For programs, which own the handling of signals. */
void history_survive_lost_mappings(void);

/* Releases the memory of an idle connection that only serves speed: its pages, and those of the mapped
 * wal-index. The next statement reads them again, mostly from the page cache. */
void history_forget_pages(sqlite3 *db);

/* Keeps the dispatch queue on which the caller runs alive, until history_release_queue(). */
void *history_hold_queue(void);
void history_release_queue(void *queue);

/* The connections in a transaction of a database in WAL mode, by the five read marks of its wal-index. */
struct history_readers {
    /* The marks that other connections hold, as a bit mask. */
    unsigned held;
    /* The marks among these whose connections see an older state than the current one, and can no longer
     * write. */
    unsigned outdated;
    unsigned marks[5];
    /* Whether connections that are about to begin must wait. */
    int isShut;
};

/* SQLite's result if a transaction would begin without being the only one. It is SQLITE_LOCKED | 250 << 8. */
#define HISTORY_LOCKED_READERS 64006

/* Keeps other connections from beginning a transaction, so that the next one of this connection is the only
 * one; see solo.c. Call it outside a transaction. Returns SQLITE_OK if it will be, or if there is no
 * write-ahead log; SQLITE_BUSY if others are still in a transaction; SQLITE_NOTFOUND if the database was not
 * opened with history_plain_vfs(); SQLITE_READONLY if SQLite could open the wal-index for reading alone. Call
 * history_leave_solo() afterwards in any case.
 *
 * staying: the other connections not to wait for, if they see an older state.
 * wait: how long to wait for the end of the others' transactions, in microseconds. Connections that would begin
 * one meanwhile wait as well.
 * restarts_log: whether the transaction may restart the log, which waits for the disk. */
int history_enter_solo(
    sqlite3 *db, unsigned staying, int wait, int restarts_log, struct history_readers *readers);

/* Call it from time to time during that transaction, for instance from a progress handler: if the transaction
 * takes long, others may begin transactions from then on. */
void history_open_solo(sqlite3 *db);

/* Ends solo mode, unless the end of that transaction did. */
void history_leave_solo(sqlite3 *db);

/* The version of the SQLite library that last wrote to the database, as from sqlite3_libversion_number(); 0 if
 * it is not known. The connection must have read from the database. */
int history_writer_version(sqlite3 *db);

#endif
