#ifndef CSQLITE_HISTORY_H
#define CSQLITE_HISTORY_H

#include <sqlite3.h>

struct sqlite3_api_routines;

/* Makes history_author() and history_token() known to a connection: see history.c. The same entry
 * point serves sqlite3_load_extension() and, linked in, the Swift library. */
int sqlite3_history_init(sqlite3 *db, char **error, const struct sqlite3_api_routines *api);

/* Lets connections take memory page by page, not for twenty pages at once: for a program with many of
 * them. To be called before the first is opened. Gives an SQLite result. */
int history_allocate_pages_singly(void);

#endif
