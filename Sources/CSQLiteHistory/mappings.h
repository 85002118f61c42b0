#ifndef HISTORY_MAPPINGS_H
#define HISTORY_MAPPINGS_H

#include <sqlite3.h>

/* The size of an open file with its guard, given the size of a VFS's own part. */
int history_guarded_size(int size);

/* Guards a newly opened database file; see mappings.c. */
void history_guard(sqlite3_file *file);

#endif
