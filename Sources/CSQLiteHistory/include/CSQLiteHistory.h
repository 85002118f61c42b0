#ifndef CSQLITE_HISTORY_H
#define CSQLITE_HISTORY_H

#include <sqlite3.h>

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

/* The version of the SQLite that has written the database last, as sqlite3_libversion_number() gives it; 0 if it is
 * not known. The connection must have read from the database. */
int history_writer_version(sqlite3 *db);

#endif
