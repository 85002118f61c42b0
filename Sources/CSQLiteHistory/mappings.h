#ifndef HISTORY_MAPPINGS_H
#define HISTORY_MAPPINGS_H

#include <sqlite3.h>

/* How many bytes an open file takes with its guard, behind a VFS's own. */
int history_guarded_size(int size);

/* Guards the database file that was opened: see mappings.c. */
void history_guard(sqlite3_file *file);

#endif
