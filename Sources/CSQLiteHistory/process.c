#include "CSQLiteHistory.h"

#include <sqlite3.h>

/* "If N is zero, no bulk memory allocation is made" (SQLITE_CONFIG_PAGECACHE), and "the two arguments to this
 * option determine the default amount of memory allocated to each connection" (SQLITE_CONFIG_LOOKASIDE); both
 * https://www.sqlite.org/c3ref/c_config_covering_index_scan.html. Each page and each small object is then
 * allocated separately. The memory statistics are not used, and counting takes a lock
 * (SQLITE_CONFIG_MEMSTATUS). */
int history_allocate_singly(void) {
    int result = sqlite3_config(SQLITE_CONFIG_PAGECACHE, (void *)0, 0, 0);
    if (!result) result = sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
    return result ? result : sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
}
