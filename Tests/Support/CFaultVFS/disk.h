#ifndef FAULT_DISK_H
#define FAULT_DISK_H

#include "CFaultVFS.h"

#include <stdint.h>

/* A file by its path, with its changes since its last sync. */
struct node;

/* The disk of a path; NULL for most paths. */
fault_disk *disk_of(const char *path);
int disk_decides(fault_disk *disk, int call, const char *path);

/* Between these two, no other thread changes a file of any disk. */
void disks_lock(void);
void disks_unlock(void);

/* Call all functions below with the lock held. */
struct node *node_open(fault_disk *disk, const char *path, int is_new);
/* Called before bytes are written. The old bytes are the current content, `old_count` of them. */
int node_writes(struct node *node, int64_t offset, const void *bytes, int64_t count, const void *old, int64_t old_count);
/* Called before a file is resized; the old bytes are the end that is cut off. */
int node_resizes(struct node *node, int64_t size, int64_t old_size, const void *old_end);
void node_synced(struct node *node, int syncs_folder);
/* Called before a file is deleted. */
int disk_deletes(fault_disk *disk, const char *path, int syncs_folder);

#endif
