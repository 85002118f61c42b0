#include "CSQLiteHistory.h"

/* "If N is zero, no bulk memory allocation is made" (https://www.sqlite.org/c3ref/c_config_covering_index_scan.html,
 * SQLITE_CONFIG_PAGECACHE): each page then has memory of its own. */
int history_allocate_pages_singly(void) { return sqlite3_config(SQLITE_CONFIG_PAGECACHE, (void *)0, 0, 0); }
