#include "disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One write, or a change of size: then `count` is -1, and `offset` is the size. */
struct change {
    struct change *next, *previous;
    int64_t offset, count, old_size;
    char *bytes, *old;
    int64_t old_count;
};

struct node {
    struct node *next;
    fault_disk *disk;
    char *path;
    ino_t inode;
    /* Whether its name has not reached the disk yet. */
    int is_new;
    struct change *first, *last;
};

/* A file whose deletion has not reached the disk yet. */
struct deleted {
    struct deleted *next;
    char *path, *bytes;
    int64_t count;
};

struct fault_disk {
    fault_disk *next;
    char *folder;
    size_t length;
    fault_decision decision;
    void *context;
    struct node *nodes;
    struct deleted *deleted;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A lock of its own: the list is read at each open, even from within a decision. */
static pthread_mutex_t disks_guard = PTHREAD_MUTEX_INITIALIZER;
static fault_disk *disks;

void disks_lock(void) { pthread_mutex_lock(&lock); }
void disks_unlock(void) { pthread_mutex_unlock(&lock); }

/* MARK: Disks */

fault_disk *fault_disk_add(const char *folder, fault_decision decision, void *context) {
    fault_disk *disk = calloc(1, sizeof *disk);
    if (!disk) return 0;
    disk->folder = strdup(folder);
    disk->length = strlen(folder);
    disk->decision = decision;
    disk->context = context;
    pthread_mutex_lock(&disks_guard);
    disk->next = disks;
    disks = disk;
    pthread_mutex_unlock(&disks_guard);
    return disk;
}

fault_disk *disk_of(const char *path) {
    if (!path) return 0;
    pthread_mutex_lock(&disks_guard);
    fault_disk *disk = disks;
    while (disk && (strncmp(path, disk->folder, disk->length) || path[disk->length] != '/')) disk = disk->next;
    pthread_mutex_unlock(&disks_guard);
    return disk;
}

int disk_decides(fault_disk *disk, int call, const char *path) { return disk->decision(disk->context, call, path); }

/* MARK: Unsynced changes */

static void forget_changes(struct node *node) {
    for (struct change *change = node->first, *next; change; change = next) {
        next = change->next;
        free(change->bytes);
        free(change->old);
        free(change);
    }
    node->first = node->last = 0;
}

static void forget_deleted(struct deleted *deleted) {
    free(deleted->path);
    free(deleted->bytes);
    free(deleted);
}

void fault_disk_remove(fault_disk *disk) {
    pthread_mutex_lock(&disks_guard);
    for (fault_disk **link = &disks; *link; link = &(*link)->next) {
        if (*link == disk) { *link = disk->next; break; }
    }
    pthread_mutex_unlock(&disks_guard);
    for (struct node *node = disk->nodes, *next; node; node = next) {
        next = node->next;
        forget_changes(node);
        free(node->path);
        free(node);
    }
    for (struct deleted *deleted = disk->deleted, *next; deleted; deleted = next) {
        next = deleted->next;
        forget_deleted(deleted);
    }
    free(disk->folder);
    free(disk);
}

static struct node *find(fault_disk *disk, const char *path, ino_t inode) {
    for (struct node *node = disk->nodes; node; node = node->next) {
        if (strcmp(node->path, path) == 0 && node->inode == inode) return node;
    }
    return 0;
}

struct node *node_open(fault_disk *disk, const char *path, int is_new) {
    struct stat status;
    if (stat(path, &status)) return 0;
    struct node *node = find(disk, path, status.st_ino);
    if (!node) {
        node = calloc(1, sizeof *node);
        if (!node) return 0;
        *node = (struct node){.next = disk->nodes, .disk = disk, .path = strdup(path), .inode = status.st_ino};
        disk->nodes = node;
    }
    if (is_new) {
        /* The inode number may have belonged to a deleted file. */
        forget_changes(node);
        node->is_new = 1;
        for (struct deleted **link = &disk->deleted; *link;) {
            struct deleted *deleted = *link;
            if (strcmp(deleted->path, path)) { link = &deleted->next; continue; }
            *link = deleted->next;
            forget_deleted(deleted);
        }
    }
    return node;
}

static void *copy(const void *bytes, int64_t count) {
    void *result = malloc(count > 0 ? (size_t)count : 1);
    if (result && count > 0) memcpy(result, bytes, (size_t)count);
    return result;
}

static int append(struct node *node, struct change value) {
    struct change *change = malloc(sizeof *change);
    if (!change) return ENOMEM;
    *change = value;
    change->previous = node->last;
    change->next = 0;
    if (node->last) node->last->next = change; else node->first = change;
    node->last = change;
    return 0;
}

static int64_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) ? 0 : status.st_size;
}

int node_writes(struct node *node, int64_t offset, const void *bytes, int64_t count, const void *old, int64_t old_count) {
    return append(node, (struct change){.offset = offset, .count = count, .old_size = size_of(node->path),
        .bytes = copy(bytes, count), .old = copy(old, old_count), .old_count = old_count});
}

int node_resizes(struct node *node, int64_t size, int64_t old_size, const void *old_end) {
    int64_t cut = old_size > size ? old_size - size : 0;
    return append(node, (struct change){.offset = size, .count = -1, .old_size = old_size,
        .old = copy(old_end, cut), .old_count = cut});
}

static int is_in_folder_of(const char *path, const char *other) {
    const char *slash = strrchr(other, '/');
    size_t length = slash ? (size_t)(slash - other) : 0;
    const char *mine = strrchr(path, '/');
    return mine && (size_t)(mine - path) == length && strncmp(path, other, length) == 0;
}

static void folder_synced(fault_disk *disk, const char *path) {
    for (struct node *node = disk->nodes; node; node = node->next) {
        if (is_in_folder_of(node->path, path)) node->is_new = 0;
    }
    for (struct deleted **link = &disk->deleted; *link;) {
        struct deleted *deleted = *link;
        if (!is_in_folder_of(deleted->path, path)) { link = &deleted->next; continue; }
        *link = deleted->next;
        forget_deleted(deleted);
    }
}

void node_synced(struct node *node, int syncs_folder) {
    forget_changes(node);
    if (syncs_folder) folder_synced(node->disk, node->path);
}

static char *read_file(const char *path, int64_t *count) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    struct stat status;
    char *bytes = fstat(file, &status) ? 0 : malloc((size_t)status.st_size + 1);
    int64_t done = 0;
    while (bytes && done < status.st_size) {
        ssize_t part = pread(file, bytes + done, (size_t)(status.st_size - done), done);
        if (part <= 0) break;
        done += part;
    }
    close(file);
    *count = done;
    return bytes;
}

static int resize(char **bytes, int64_t *count, int64_t size) {
    char *result = realloc(*bytes, (size_t)size + 1);
    if (!result) return ENOMEM;
    if (size > *count) memset(result + *count, 0, (size_t)(size - *count));
    *bytes = result;
    *count = size;
    return 0;
}

static void undo(struct node *node, char **bytes, int64_t *count) {
    for (struct change *change = node->last; change; change = change->previous) {
        if (resize(bytes, count, change->old_size)) return;
        int64_t offset = change->offset;
        if (change->old_count > 0 && offset + change->old_count <= *count) {
            memcpy(*bytes + offset, change->old, (size_t)change->old_count);
        }
    }
}

int disk_deletes(fault_disk *disk, const char *path, int syncs_folder) {
    struct stat status;
    if (stat(path, &status)) return 0;
    struct node *node = find(disk, path, status.st_ino);
    if (!syncs_folder && !(node && node->is_new)) {
        struct deleted *deleted = calloc(1, sizeof *deleted);
        if (!deleted) return ENOMEM;
        deleted->path = strdup(path);
        deleted->bytes = read_file(path, &deleted->count);
        if (node && deleted->bytes) undo(node, &deleted->bytes, &deleted->count);
        deleted->next = disk->deleted;
        disk->deleted = deleted;
    }
    if (node) forget_changes(node);
    if (syncs_folder) folder_synced(disk, path);
    return 0;
}

int64_t fault_disk_unsynced(fault_disk *disk) {
    int64_t sum = 0;
    disks_lock();
    for (struct node *node = disk->nodes; node; node = node->next) {
        for (struct change *change = node->first; change; change = change->next) {
            sum += change->count > 0 ? change->count : 0;
        }
    }
    disks_unlock();
    return sum;
}

/* MARK: A power failure */

struct chance {
    uint64_t state;
};

/* SplitMix64. */
static uint64_t next(struct chance *chance) {
    uint64_t z = (chance->state += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

static const int64_t sector = 512;

static int redo(struct change *change, char **bytes, int64_t *count, struct chance *chance, int by_sector) {
    if (change->count < 0) return resize(bytes, count, change->offset);
    int64_t end = change->offset + change->count;
    if (end > *count && resize(bytes, count, end)) return ENOMEM;
    for (int64_t at = change->offset; at < end;) {
        int64_t stop = (at / sector + 1) * sector;
        if (stop > end) stop = end;
        uint64_t fate = by_sector ? next(chance) % 4 : 0;
        char *target = *bytes + at;
        if (fate <= 1) memcpy(target, change->bytes + (at - change->offset), (size_t)(stop - at));
        for (int64_t i = 0; fate == 2 && i < stop - at; i++) target[i] = (char)next(chance);
        at = stop;
    }
    return 0;
}

/* Some of the changes since the last sync have reached the disk, in no guaranteed order. */
static int lose(struct node *node, char **bytes, int64_t *count, struct chance *chance) {
    undo(node, bytes, count);
    int way = (int)(next(chance) % 3), rc = 0;
    int64_t changes = 0;
    for (struct change *change = node->first; change; change = change->next) changes++;
    int64_t until = changes ? (int64_t)(next(chance) % (uint64_t)(changes + 1)) : 0;
    for (struct change *change = node->first; change && !rc; change = change->next, until--) {
        int is_kept = way == 0 ? (int)(next(chance) % 2) : way == 1 ? until > 0 : 1;
        if (is_kept) rc = redo(change, bytes, count, chance, way == 2);
    }
    return rc;
}

static int write_file(const char *path, const char *bytes, int64_t count) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    int rc = 0;
    for (int64_t done = 0; done < count && !rc;) {
        ssize_t part = write(file, bytes + done, (size_t)(count - done));
        if (part < 0) rc = errno; else done += part;
    }
    close(file);
    return rc;
}

static int is_shared_memory(const char *name) {
    size_t length = strlen(name);
    return length > 4 && strcmp(name + length - 4, "-shm") == 0;
}

static int image_file(fault_disk *disk, const char *from, const char *to, int loss, struct chance *chance) {
    struct stat status;
    if (lstat(from, &status)) return errno;
    if (S_ISLNK(status.st_mode)) {
        char target[PATH_MAX];
        ssize_t length = readlink(from, target, sizeof target - 1);
        if (length < 0) return errno;
        target[length] = 0;
        return symlink(target, to) ? errno : 0;
    }
    if (!S_ISREG(status.st_mode)) return 0;
    struct node *node = find(disk, from, status.st_ino);
    if (node && node->is_new && (loss == FAULT_LOST || (loss == FAULT_SEEDED && next(chance) % 2))) return 0;
    int64_t count = 0;
    char *bytes = read_file(from, &count);
    if (!bytes) return EIO;
    int rc = 0;
    if (node && loss == FAULT_LOST) undo(node, &bytes, &count);
    if (node && loss == FAULT_SEEDED) rc = lose(node, &bytes, &count, chance);
    if (!rc) rc = write_file(to, bytes, count);
    free(bytes);
    return rc;
}

static int image_folder(fault_disk *disk, const char *from, const char *to, int loss, struct chance *chance) {
    if (mkdir(to, 0700) && errno != EEXIST) return errno;
    struct dirent **entries;
    /* In sorted order, so that a seed is reproducible. */
    int found = scandir(from, &entries, 0, alphasort), rc = 0;
    if (found < 0) return errno;
    for (int i = 0; i < found; i++) {
        const char *name = entries[i]->d_name;
        char source[PATH_MAX], target[PATH_MAX];
        int is_named = snprintf(source, sizeof source, "%s/%s", from, name) < PATH_MAX
            && snprintf(target, sizeof target, "%s/%s", to, name) < PATH_MAX;
        if (!rc && !is_named) rc = ENAMETOOLONG;
        int is_left_out = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_shared_memory(name);
        if (!rc && !is_left_out) {
            struct stat status;
            if (lstat(source, &status)) rc = errno;
            else rc = S_ISDIR(status.st_mode) ? image_folder(disk, source, target, loss, chance)
                : image_file(disk, source, target, loss, chance);
        }
        free(entries[i]);
    }
    free(entries);
    return rc;
}

int fault_disk_image(fault_disk *disk, const char *folder, int loss, uint64_t seed) {
    struct chance chance = {seed};
    disks_lock();
    int rc = image_folder(disk, disk->folder, folder, loss, &chance);
    for (struct deleted *deleted = disk->deleted; deleted && !rc && loss != FAULT_KEPT; deleted = deleted->next) {
        if (loss == FAULT_SEEDED && next(&chance) % 2) continue;
        char target[PATH_MAX];
        if (snprintf(target, sizeof target, "%s%s", folder, deleted->path + disk->length) >= PATH_MAX) rc = ENAMETOOLONG;
        else if (access(target, F_OK)) rc = write_file(target, deleted->bytes, deleted->count);
    }
    disks_unlock();
    return rc;
}
