#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include "CFaultVFS.h"

#include <stdint.h>

/* A file by its path, with what was done to it since its last sync. */
struct node;

/* The disk of a path; null for most. */
fault_disk *disk_of(const char *path);
int disk_decides(fault_disk *disk, int call, const char *path);

/* Between these two, no other thread changes a file of any disk. */
void disks_lock(void);
void disks_unlock(void);

/* All below are called under the lock. */
struct node *node_open(fault_disk *disk, const char *path, int is_new);
/* Before bytes are written. The old ones are what is there now, `old_count` of them. */
int node_writes(struct node *node, int64_t offset, const void *bytes, int64_t count, const void *old, int64_t old_count);
/* Before a file gets another size; the old bytes are its end that is cut off. */
int node_resizes(struct node *node, int64_t size, int64_t old_size, const void *old_end);
void node_synced(struct node *node, int syncs_folder);
/* Before a file is deleted. */
int disk_deletes(fault_disk *disk, const char *path, int syncs_folder);

#endif
