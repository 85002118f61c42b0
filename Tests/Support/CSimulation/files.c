// File operations, which are slow, hang or fail by rules, and at which a process can be killed.
#include "internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/types.h>

bool read_timer(int descriptor, void *buffer, ssize_t *result);

enum { most = 16 };

static struct rule {
    bool is_in_force;
    char prefix[PATH_MAX];
    int operations;
    int64_t delay;
    int error;
    int chance;
} rules[most];
static int rules_in_force;

void csimulation_rule(int number, const char *prefix, int operations, int64_t delay, int error, int chance) {
    csimulation_no_rule(number);
    struct rule *rule = &rules[number % most];
    *rule = (struct rule){
        .is_in_force = true, .operations = operations, .delay = delay, .error = error, .chance = chance};
    snprintf(rule->prefix, sizeof rule->prefix, "%s", prefix);
    rules_in_force++;
}

void csimulation_no_rule(int number) {
    struct rule *rule = &rules[number % most];
    if (rule->is_in_force) rules_in_force--;
    rule->is_in_force = false;
    wake(rule, INT32_MAX);
}

int trouble_at(const char *path, int operation) {
    point();
    if (!rules_in_force || !is_simulated()) return 0;
    for (int i = 0; i < most; i++) {
        struct rule *rule = &rules[i];
        if (!rule->is_in_force || !(rule->operations & operation)) continue;
        if (strncmp(path, rule->prefix, strlen(rule->prefix)) != 0) continue;
        if ((int)(random_number() & 255) >= rule->chance) continue;
        int error = rule->error;
        if (rule->delay < 0) while (rule->is_in_force) wait_for(rule, NEVER, NULL, 0);
        else if (rule->delay) wait_for(NULL, shared->now + rule->delay, NULL, 0);
        if (error) return error;
    }
    return 0;
}

static bool find_path(int descriptor, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = KERNEL(SYS_readlinkat, AT_FDCWD, link, path, size - 1);
    if (length <= 0) return false;
    path[length] = 0;
    return true;
}

int trouble_with(int descriptor, int operation) {
    char path[PATH_MAX];
    if (!takes_turns) return 0;
    if (!rules_in_force || !is_simulated() || !find_path(descriptor, path, sizeof path)) {
        point();
        return 0;
    }
    return trouble_at(path, operation);
}

// What a power failure leaves: of each file what was last synced, under the names of the last sync of their folder. A folder
// of copies has one for each inode, and links to them under these names.

static struct kept { char folder[PATH_MAX], copies[PATH_MAX]; } kept_folders[16];
static int kept_count;

void csimulation_keep_synced(const char *folder, const char *copies) {
    if (kept_count == (int)(sizeof kept_folders / sizeof *kept_folders)) abort();
    struct kept *kept = &kept_folders[kept_count++];
    snprintf(kept->folder, sizeof kept->folder, "%s/", folder);
    snprintf(kept->copies, sizeof kept->copies, "%s/", copies);
}

static void name_copy(const struct kept *kept, char *copy, size_t size, ino_t inode) {
    snprintf(copy, size, "%s.%lu", kept->copies, (unsigned long)inode);
}

static ino_t inode_at(const char *folder, const char *name) {
    char path[2 * PATH_MAX];
    struct stat status;
    snprintf(path, sizeof path, "%s%s", folder, name);
    return KERNEL(SYS_newfstatat, AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0 ? status.st_ino : 0;
}

static void copy_content(const char *path, const char *copy) {
    int from = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = (int)KERNEL(SYS_openat, AT_FDCWD, copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    while (from >= 0 && to >= 0 && KERNEL(SYS_sendfile, to, from, 0, 1 << 24) > 0) {}
    if (from >= 0) KERNEL(SYS_close, from, 0, 0, 0);
    if (to >= 0) KERNEL(SYS_close, to, 0, 0, 0);
}

static void for_each_name(
    const struct kept *kept, const char *folder, void (*body)(const struct kept *kept, const char *name)) {
    DIR *names = opendir(folder);
    struct dirent *entry;
    while (names && (entry = readdir(names))) if (entry->d_name[0] != '.') body(kept, entry->d_name);
    if (names) closedir(names);
}

static void forget_old_name(const struct kept *kept, const char *name) {
    char path[2 * PATH_MAX];
    if (inode_at(kept->folder, name)) return;
    snprintf(path, sizeof path, "%s%s", kept->copies, name);
    KERNEL(SYS_unlinkat, AT_FDCWD, path, 0, 0);
}

static void keep_name(const struct kept *kept, const char *name) {
    char copy[2 * PATH_MAX], path[2 * PATH_MAX];
    name_copy(kept, copy, sizeof copy, inode_at(kept->folder, name));
    snprintf(path, sizeof path, "%s%s", kept->copies, name);
    // Of a file that was never synced nothing but its name is there.
    long file = KERNEL(SYS_openat, AT_FDCWD, copy, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file >= 0) KERNEL(SYS_close, file, 0, 0, 0);
    KERNEL(SYS_unlinkat, AT_FDCWD, path, 0, 0);
    KERNEL(SYS_linkat, AT_FDCWD, copy, AT_FDCWD, path);
}

static void folder_was_synced(const struct kept *kept) {
    for_each_name(kept, kept->copies, forget_old_name);
    for_each_name(kept, kept->folder, keep_name);
}

static void keep_content(const struct kept *kept, const char *name) {
    char path[2 * PATH_MAX], copy[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s%s", kept->folder, name);
    name_copy(kept, copy, sizeof copy, inode_at(kept->folder, name));
    copy_content(path, copy);
}

void csimulation_all_is_synced(void) {
    for (struct kept *kept = kept_folders; kept < kept_folders + kept_count; kept++) {
        for_each_name(kept, kept->folder, keep_content);
        folder_was_synced(kept);
    }
}

// Subfolders are not followed.
void was_synced(int descriptor) {
    char path[PATH_MAX], copy[2 * PATH_MAX];
    struct stat status;
    if (!kept_count || !find_path(descriptor, path, sizeof path)) return;
    for (struct kept *kept = kept_folders; kept < kept_folders + kept_count; kept++) {
        size_t length = strlen(kept->folder);
        if (strncmp(path, kept->folder, length - 1) != 0) continue;
        if (!path[length - 1]) folder_was_synced(kept);
        if (path[length - 1] != '/' || KERNEL(SYS_fstat, descriptor, &status, 0, 0) < 0) continue;
        name_copy(kept, copy, sizeof copy, status.st_ino);
        copy_content(path, copy);
    }
}

// Replacements of libc's functions

static long result_of(long result) {
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

static int writes_left;

void csimulation_kill_at_write(int number) { writes_left = number; }

static void count_write(void) {
    if (writes_left && --writes_left == 0) csimulation_kill();
}

#define IN_TROUBLE(descriptor, operation) \
    do { \
        int error = trouble_with(descriptor, operation); \
        if (error) return (int)result_of(-error); \
    } while (false)

static int sync_file(int descriptor, long call) {
    count_write();
    IN_TROUBLE(descriptor, csimulation_at_sync);
    int result = (int)result_of(KERNEL(call, descriptor, 0, 0, 0));
    if (result == 0 && takes_turns) was_synced(descriptor);
    return result;
}

int fsync(int descriptor) { return sync_file(descriptor, SYS_fsync); }
int fdatasync(int descriptor) { return sync_file(descriptor, SYS_fdatasync); }

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    count_write();
    IN_TROUBLE(descriptor, csimulation_at_write);
    long result = KERNEL(SYS_pwrite64, descriptor, bytes, count, offset);
    was_written(descriptor);
    return result_of(result);
}

ssize_t pread(int descriptor, void *buffer, size_t count, off_t offset) {
    IN_TROUBLE(descriptor, csimulation_at_read);
    return result_of(KERNEL(SYS_pread64, descriptor, buffer, count, offset));
}

int ftruncate(int descriptor, off_t length) {
    count_write();
    IN_TROUBLE(descriptor, csimulation_at_write);
    long result = KERNEL(SYS_ftruncate, descriptor, length, 0, 0);
    was_written(descriptor);
    return (int)result_of(result);
}

ssize_t write(int descriptor, const void *bytes, size_t count) {
    IN_TROUBLE(descriptor, csimulation_at_write);
    long result = KERNEL(SYS_write, descriptor, bytes, count, 0);
    was_written(descriptor);
    return result_of(result);
}

// Dispatch looks at its threads, and starts others where these wait. Here all of them look as if they ran.
static int open_state_of_thread(void) {
    static const char state[] = "1 (thread) R 1\n";
    int descriptor = (int)KERNEL(SYS_memfd_create, "state", MFD_CLOEXEC, 0, 0);
    if (descriptor >= 0) KERNEL(SYS_pwrite64, descriptor, state, sizeof state - 1, 0);
    return descriptor;
}

static struct { int chance, error; } refused;

void csimulation_refuse_descriptors(int chance) { refused.chance = chance, refused.error = EMFILE; }
void csimulation_refuse_memory(int chance) { refused.chance = chance, refused.error = ENOMEM; }

int lack(void) { return is_refused(refused.chance) ? refused.error : 0; }
int lack_of_memory(void) { return refused.error == ENOMEM ? lack() : 0; }

// Descriptors of inotify(7).
static bool has_events_of_files[1024];
static bool loses_events;

void csimulation_lose_events(void) { loses_events = true; }

int inotify_init1(int flags) {
    int error = lack();
    int descriptor = (int)result_of(error ? -error : KERNEL(SYS_inotify_init1, flags, 0, 0, 0));
    if (descriptor >= 0 && descriptor < 1024) has_events_of_files[descriptor] = true;
    return descriptor;
}

// The queue has overflowed: its events are gone, and one tells so.
static ssize_t read_overflow(int descriptor, void *buffer) {
    char lost[4096];
    long count = KERNEL(SYS_read, descriptor, lost, sizeof lost, 0);
    if (count <= 0) return count;
    while (KERNEL(SYS_read, descriptor, lost, sizeof lost, 0) > 0) {}
    struct inotify_event event = {.wd = -1, .mask = IN_Q_OVERFLOW};
    memcpy(buffer, &event, sizeof event);
    loses_events = false;
    return sizeof event;
}

// Descriptors of the kernel's random number devices.
static bool is_random[1024];

static bool has_random(int descriptor) { return shared && descriptor >= 0 && descriptor < 1024 && is_random[descriptor]; }

ssize_t read(int descriptor, void *buffer, size_t count) {
    ssize_t result;
    if (has_random(descriptor)) return getrandom(buffer, count, 0);
    if (takes_turns && read_timer(descriptor, buffer, &result)) return result;
    IN_TROUBLE(descriptor, csimulation_at_read);
    bool overflows = loses_events && descriptor >= 0 && descriptor < 1024 && has_events_of_files[descriptor];
    if (overflows && count >= sizeof(struct inotify_event)) return result_of(read_overflow(descriptor, buffer));
    return result_of(KERNEL(SYS_read, descriptor, buffer, count, 0));
}

int fcntl(int descriptor, int command, ...) {
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    bool is_lock = command == F_SETLK || command == F_OFD_SETLK;
    if (is_lock && ((struct flock *)argument)->l_type != F_UNLCK) IN_TROUBLE(descriptor, csimulation_at_lock);
    return (int)result_of(KERNEL(SYS_fcntl, descriptor, command, argument, 0));
}

// Files that tell of the machine, of other programs and of real time: to the simulated program they do not exist. How often
// such a file must be read would depend on its length.
static bool is_of_machine(const char *path) {
    static const char *const names[] = {
        "/proc/locks", "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/thread-self/",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(path, names[i], strlen(names[i])) == 0) return true;
    return false;
}

int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    int mode = va_arg(list, int);
    va_end(list);
    int error = !takes_turns ? 0 : is_of_machine(path) ? ENOENT : trouble_at(path, csimulation_at_open);
    // Dispatch traps where it cannot read that.
    bool is_thread = takes_turns && strncmp(path, "/proc/self/task/", 16) == 0;
    if (!error && !is_thread) error = lack();
    int descriptor = (int)result_of(
        error ? -error : is_thread ? open_state_of_thread() : KERNEL(SYS_openat, AT_FDCWD, path, flags, mode));
    if (descriptor >= 0 && descriptor < 1024) is_random[descriptor] = strcmp(path, "/dev/urandom") == 0;
    return descriptor;
}

int pipe2(int ends[2], int flags) {
    int error = lack();
    return (int)result_of(error ? -error : KERNEL(SYS_pipe2, ends, flags, 0, 0));
}

int socket(int domain, int type, int protocol) {
    int error = lack();
    return (int)result_of(error ? -error : KERNEL(SYS_socket, domain, type, protocol, 0));
}

// A file's only: what the program allocates does not pass here, and it does not survive a lack of that.
void *mmap(void *address, size_t length, int protection, int flags, int descriptor, off_t offset) {
    int error = descriptor >= 0 && takes_turns ? lack_of_memory() : 0;
    long result = error ? -error : kernel(SYS_mmap, (long)address, (long)length, protection, flags, descriptor, offset);
    return result < 0 && result > -4096 ? (void *)result_of(result) : (void *)result;
}

int close(int descriptor) {
    if (descriptor >= 0 && descriptor < 1024) is_random[descriptor] = has_events_of_files[descriptor] = false;
    return (int)result_of(KERNEL(SYS_close, descriptor, 0, 0, 0));
}

int unlink(const char *path) {
    int error = takes_turns ? trouble_at(path, csimulation_at_write) : 0;
    return (int)result_of(error ? -error : KERNEL(SYS_unlinkat, AT_FDCWD, path, 0, 0));
}

int rename(const char *from, const char *to) {
    int error = takes_turns ? trouble_at(to, csimulation_at_write) : 0;
    return (int)result_of(error ? -error : KERNEL(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to));
}

// Whether a folder contains the run's folder: other programs create and remove files there, too.
static bool is_above_run(const char *path) {
    const char *kept = kept_folders[0].folder, *end = strrchr(kept, '/');
    while (end && end > kept && *--end != '/') {}
    size_t length = strlen(path);
    if (!end || length >= (size_t)(end - kept)) return false;
    return strncmp(kept, path, length) == 0 && (length == 1 || kept[length] == '/');
}

// What comes and goes there does not depend on the seed.
int inotify_add_watch(int descriptor, const char *path, uint32_t mask) {
    if (takes_turns && is_above_run(path))
        mask &= ~(uint32_t)(IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_ATTRIB);
    int error = lack_of_memory();
    return (int)result_of(error ? -error : KERNEL(SYS_inotify_add_watch, descriptor, path, mask, 0));
}

int fcntl64(int descriptor, int command, ...) __attribute__((alias("fcntl")));
void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset) __attribute__((alias("mmap")));
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
ssize_t pread64(int descriptor, void *buffer, size_t count, off64_t offset) __attribute__((alias("pread")));
ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off64_t offset) __attribute__((alias("pwrite")));
int ftruncate64(int descriptor, off64_t length) __attribute__((alias("ftruncate")));
