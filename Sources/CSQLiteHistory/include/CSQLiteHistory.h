#ifndef CSQLITE_HISTORY_H
#define CSQLITE_HISTORY_H

/* Named only: what is defined here, too, would belong to this module for some of the files that import it. */
typedef struct sqlite3 sqlite3;
struct sqlite3_api_routines;

/* Makes history_author() and history_token() known to a connection: see history.c. The same entry
 * point serves sqlite3_load_extension() and, linked in, the Swift library. */
int sqlite3_history_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api);

/* Lets connections take memory as they need it, not for twenty pages and forty small objects at once: for a
 * program with many of them. To be called before the first is opened. Gives an SQLite result. */
int history_allocate_singly(void);

/* Lets a connection trust nothing of the file that it opens: neither what the schema says may be run, nor
 * statements that would write to it past SQLite's rules. Without runs_schema_code, triggers and views of the file
 * are not run either. Gives an SQLite result. */
int history_harden(sqlite3 *db, int runs_schema_code);

/* The name of a VFS that follows no link in a file's own name, for URIs; NULL if SQLite knows no URIs. */
const char *history_plain_vfs(void);

/* The name of a VFS that changes nothing of a database, its log or its folder, for URIs: see untouched.c. With is_still,
 * for a database that no process uses. NULL if SQLite knows no URIs. */
const char *history_untouching_vfs(int is_still);

/* What SQLite reports of a database that was opened through that VFS, once a part of its mapped wal-index (the file
 * whose name ends in -shm) is gone: see mappings.c. It is SQLITE_IOERR | 250 << 8. */
#define HISTORY_IOERR_MAPPING_LOST 64010

/* Lets the process live on where somebody makes a mapped wal-index shorter: from here on that is an error of the
 * connections concerned, and no SIGBUS. For programs, which decide what signals do. */
void history_survive_lost_mappings(void);

/* Gives back the memory that a connection that is not in use needs for nothing but speed: its pages, and those of the
 * wal-index that are mapped. The next statement reads them again, mostly from the system's memory. */
void history_forget_pages(sqlite3 *db);

/* Those that are in a transaction of a database in a write-ahead log, by the five read marks of its wal-index. */
struct history_readers {
    /* The marks that other connections hold, one bit each. */
    unsigned held;
    /* Those of them whose connections see an older state than the current one, so that they cannot write any more. */
    unsigned outdated;
    unsigned marks[5];
    /* Whether connections that are about to begin wait. */
    int isShut;
};

/* What SQLite reports where a transaction would begin and is not the only one. It is SQLITE_LOCKED | 250 << 8. */
#define HISTORY_LOCKED_READERS 64006

/* Keeps other connections from beginning a transaction, so that the next one of this connection is the only one: see
 * solo.c. To be called outside a transaction. Gives SQLITE_OK where it will be, or where there is no write-ahead log;
 * SQLITE_BUSY where others are still in a transaction. SQLITE_NOTFOUND if the database was not opened by
 * history_plain_vfs(). history_leave_solo() is to follow in any case.
 *
 * staying: those of the others that are not waited for, if they see an older state.
 * wait: for how long, in microseconds, the end of the others' transactions is waited for. Whoever would begin one
 * meanwhile waits as well.
 * restarts_log: whether the transaction may begin the log from its start again, which waits for the disk. */
int history_enter_solo(
    sqlite3 *db, unsigned staying, int wait, int restarts_log, struct history_readers *readers);

/* To be called from time to time during that transaction, also by a progress handler: if it takes long, others may
 * begin transactions beside it from now on. */
void history_open_solo(sqlite3 *db);

/* Ends it, where that transaction did not. */
void history_leave_solo(sqlite3 *db);

/* The version of the SQLite that has written the database last, as sqlite3_libversion_number() gives it; 0 if it is
 * not known. The connection must have read from the database. */
int history_writer_version(sqlite3 *db);

#endif
