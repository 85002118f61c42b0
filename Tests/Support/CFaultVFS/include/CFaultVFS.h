#ifndef CFAULTVFS_H
#define CFAULTVFS_H

#include <stdint.h>

/* The default VFS of a test process: SQLite's own, except for files in folders declared as fault disks.
 *
 * Each call for a file there first goes to a decision, which allows or refuses it. Unsynced writes are
 * remembered, so that the folder can be copied as a power failure would leave it. Shared memory is passed
 * through, and nothing is really synced. */

enum fault_call {
    FAULT_OPEN = 1 << 0,
    FAULT_READ = 1 << 1,
    FAULT_WRITE = 1 << 2,
    FAULT_SYNC = 1 << 3,
    FAULT_TRUNCATE = 1 << 4,
    FAULT_DELETE = 1 << 5,
    FAULT_ACCESS = 1 << 6,
    FAULT_LOCK = 1 << 7,
    FAULT_MAP = 1 << 8,
    FAULT_MAPPED_LOCK = 1 << 9,
    FAULT_SIZE = 1 << 10,
};

/* Added to the result of a refused write, of which the first half is still written. */
#define FAULT_SHORT 0x40000000

/* Returns SQLITE_OK, or the result with which the call fails. It may run on any thread, and may copy the disk.
 * SQLITE_READONLY for FAULT_OPEN opens the file for reading alone, as SQLite does where it cannot be opened for
 * writing. */
typedef int (*fault_decision)(void *context, int call, const char *path);

typedef struct fault_disk fault_disk;

/* Declares a folder, by its real path. No file in it may be open. */
fault_disk *fault_disk_add(const char *folder, fault_decision decision, void *context);
void fault_disk_remove(fault_disk *disk);

/* What happens to everything since the last sync. */
enum fault_loss {
    FAULT_KEPT,
    FAULT_LOST,
    /* Depends on the seed: whole writes, all before some moment, or each sector by itself, maybe as garbage. */
    FAULT_SEEDED,
};

/* Copies the disk as a power failure would leave it now. Returns 0, or a system error number. */
int fault_disk_image(fault_disk *disk, const char *folder, int loss, uint64_t seed);

/* How many bytes were written to files and not synced. */
int64_t fault_disk_unsynced(fault_disk *disk);

#endif
