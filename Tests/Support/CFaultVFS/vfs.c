#include "disk.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Precedes SQLite's own part of an open file. */
struct fault_file {
    sqlite3_file file;
    fault_disk *disk;
    struct node *node;
    const char *path;
    int is_journal;
    _Alignas(16) char base[];
};

static sqlite3_vfs *base_vfs;
static sqlite3_vfs fault_vfs;

static struct fault_file *of(sqlite3_file *file) { return (struct fault_file *)file; }
static sqlite3_file *base_of(sqlite3_file *file) { return (sqlite3_file *)of(file)->base; }
static const sqlite3_io_methods *methods(sqlite3_file *file) { return base_of(file)->pMethods; }

static int decide(sqlite3_file *file, int call) { return disk_decides(of(file)->disk, call, of(file)->path); }

/* MARK: The methods of a file */

static int file_close(sqlite3_file *file) { return methods(file)->xClose(base_of(file)); }

static int file_read(sqlite3_file *file, void *bytes, int count, sqlite3_int64 offset) {
    int rc = decide(file, FAULT_READ);
    return rc ? rc : methods(file)->xRead(base_of(file), bytes, count, offset);
}

static int write_through(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    sqlite3_int64 size = 0;
    int rc = methods(file)->xFileSize(base_of(file), &size);
    if (rc) return rc;
    int old_count = size <= offset ? 0 : size - offset < count ? (int)(size - offset) : count;
    char *old = malloc(old_count ? (size_t)old_count : 1);
    if (!old) return SQLITE_IOERR_NOMEM;
    if (old_count) rc = methods(file)->xRead(base_of(file), old, old_count, offset);
    if (!rc && node_writes(of(file)->node, offset, bytes, count, old, old_count)) rc = SQLITE_IOERR_NOMEM;
    free(old);
    return rc ? rc : methods(file)->xWrite(base_of(file), bytes, count, offset);
}

static int file_write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 offset) {
    int refusal = decide(file, FAULT_WRITE);
    if (refusal && !(refusal & FAULT_SHORT)) return refusal;
    disks_lock();
    int rc = write_through(file, bytes, refusal ? count / 2 : count, offset);
    disks_unlock();
    return refusal ? refusal & ~FAULT_SHORT : rc;
}

static int file_truncate(sqlite3_file *file, sqlite3_int64 size) {
    int rc = decide(file, FAULT_TRUNCATE);
    if (rc) return rc;
    disks_lock();
    sqlite3_int64 old_size = 0;
    rc = methods(file)->xFileSize(base_of(file), &old_size);
    int cut = old_size > size ? (int)(old_size - size) : 0;
    char *old = malloc(cut ? (size_t)cut : 1);
    if (!old) rc = SQLITE_IOERR_NOMEM;
    if (!rc && cut) rc = methods(file)->xRead(base_of(file), old, cut, size);
    if (!rc && node_resizes(of(file)->node, size, old_size, old)) rc = SQLITE_IOERR_NOMEM;
    free(old);
    if (!rc) rc = methods(file)->xTruncate(base_of(file), size);
    disks_unlock();
    return rc;
}

static int file_sync(sqlite3_file *file, int flags) {
    (void)flags;
    int rc = decide(file, FAULT_SYNC);
    if (rc) return rc;
    disks_lock();
    /* At a journal's first sync SQLite syncs the folder, too (os_unix.c, UNIXFILE_DIRSYNC). */
    node_synced(of(file)->node, of(file)->is_journal);
    disks_unlock();
    return SQLITE_OK;
}

static int file_size(sqlite3_file *file, sqlite3_int64 *size) {
    int rc = decide(file, FAULT_SIZE);
    return rc ? rc : methods(file)->xFileSize(base_of(file), size);
}

static int file_lock(sqlite3_file *file, int level) {
    int rc = decide(file, FAULT_LOCK);
    return rc ? rc : methods(file)->xLock(base_of(file), level);
}

static int file_unlock(sqlite3_file *file, int level) { return methods(file)->xUnlock(base_of(file), level); }

static int file_check_reserved(sqlite3_file *file, int *result) {
    return methods(file)->xCheckReservedLock(base_of(file), result);
}

/* Size hints are ignored: SQLite would resize the file, unseen by this log of changes. */
static int file_control(sqlite3_file *file, int operation, void *argument) {
    if (operation == SQLITE_FCNTL_SIZE_HINT || operation == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
    return methods(file)->xFileControl(base_of(file), operation, argument);
}

static int file_sector_size(sqlite3_file *file) { return methods(file)->xSectorSize(base_of(file)); }
static int file_characteristics(sqlite3_file *file) { return methods(file)->xDeviceCharacteristics(base_of(file)); }

static int file_map(sqlite3_file *file, int number, int size, int extends, void volatile **address) {
    int rc = decide(file, FAULT_MAP);
    if (rc) { *address = 0; return rc; }
    return methods(file)->xShmMap(base_of(file), number, size, extends, address);
}

static int file_map_lock(sqlite3_file *file, int offset, int count, int flags) {
    int rc = flags & SQLITE_SHM_UNLOCK ? SQLITE_OK : decide(file, FAULT_MAPPED_LOCK);
    return rc ? rc : methods(file)->xShmLock(base_of(file), offset, count, flags);
}

static void file_barrier(sqlite3_file *file) { methods(file)->xShmBarrier(base_of(file)); }
static int file_unmap(sqlite3_file *file, int removes) { return methods(file)->xShmUnmap(base_of(file), removes); }

/* The last version in which SQLite does not map the database itself. */
static const sqlite3_io_methods fault_methods = {
    .iVersion = 2,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
    .xShmMap = file_map,
    .xShmLock = file_map_lock,
    .xShmBarrier = file_barrier,
    .xShmUnmap = file_unmap,
};

/* MARK: The methods of the VFS */

static int vfs_open(sqlite3_vfs *vfs, const char *path, sqlite3_file *file, int flags, int *result) {
    (void)vfs;
    fault_disk *disk = disk_of(path);
    if (!disk) return base_vfs->xOpen(base_vfs, path, file, flags, result);
    file->pMethods = 0;
    int rc = disk_decides(disk, FAULT_OPEN, path);
    if (rc == SQLITE_READONLY)
        flags = (flags & ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE)) | SQLITE_OPEN_READONLY;
    else if (rc)
        return rc;
    disks_lock();
    struct stat status;
    int is_new = stat(path, &status) != 0;
    rc = base_vfs->xOpen(base_vfs, path, base_of(file), flags, result);
    struct node *node = rc ? 0 : node_open(disk, path, is_new);
    disks_unlock();
    if (rc) return rc;
    struct fault_file *fault = of(file);
    if (!node) {
        methods(file)->xClose(base_of(file));
        return SQLITE_CANTOPEN;
    }
    fault->disk = disk;
    fault->node = node;
    fault->path = path;
    fault->is_journal = (flags & (SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_SUPER_JOURNAL | SQLITE_OPEN_WAL)) != 0;
    file->pMethods = &fault_methods;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *path, int syncs_folder) {
    (void)vfs;
    fault_disk *disk = disk_of(path);
    if (!disk) return base_vfs->xDelete(base_vfs, path, syncs_folder);
    int rc = disk_decides(disk, FAULT_DELETE, path);
    if (rc) return rc;
    disks_lock();
    rc = disk_deletes(disk, path, syncs_folder) ? SQLITE_IOERR_NOMEM : base_vfs->xDelete(base_vfs, path, 0);
    disks_unlock();
    return rc;
}

static int vfs_access(sqlite3_vfs *vfs, const char *path, int flags, int *result) {
    (void)vfs;
    fault_disk *disk = disk_of(path);
    int rc = disk ? disk_decides(disk, FAULT_ACCESS, path) : SQLITE_OK;
    return rc ? rc : base_vfs->xAccess(base_vfs, path, flags, result);
}

/* Runs before anything looks up the default VFS. */
__attribute__((constructor)) static void install(void) {
    base_vfs = sqlite3_vfs_find(0);
    if (!base_vfs) abort();
    fault_vfs = *base_vfs;
    fault_vfs.pNext = 0;
    fault_vfs.zName = "fault";
    fault_vfs.szOsFile = (int)sizeof(struct fault_file) + base_vfs->szOsFile;
    fault_vfs.xOpen = vfs_open;
    fault_vfs.xDelete = vfs_delete;
    fault_vfs.xAccess = vfs_access;
    if (sqlite3_vfs_register(&fault_vfs, 1)) abort();
}
