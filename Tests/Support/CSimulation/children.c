// Plugins' processes: threads of the simulation with pipes, an id and an end, instead of those that
// Sources/CPlatform starts.
#include "internal.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/ioctl.h>
#include <unistd.h>

// No process of the machine can have such an id: what /proc tells of one would not depend on the seed.
enum { most = 256, first_id = 1 << 23 };

static struct child {
    struct csimulation_child seen;
    char program[256];
    int end;
    bool has_ended;
    int status, signal;
} children[most];
static int child_count;
static csimulation_program run_program;

void csimulation_take_programs(csimulation_program program) { run_program = program; }

static struct child *child_of(pid_t id) {
    return id >= first_id && id < first_id + child_count ? &children[id - first_id] : NULL;
}

static void *run_child(void *argument) {
    struct child *child = argument;
    csimulation_be_world();
    int status = run_program(child->program, &child->seen);
    child->signal = child->seen.is_killed ? SIGKILL : status < 0 ? -status : 0;
    child->status = child->signal ? 0 : status;
    for (int i = 0; i < 3; i++) csimulation_close(child->seen.standard[i]);
    child->has_ended = true;
    uint64_t one = 1;
    KERNEL(SYS_write, child->end, &one, 8, 0);
    KERNEL(SYS_close, child->end, 0, 0, 0);
    return NULL;
}

int __wrap_cplatform_start(
    const char *program, char *const arguments[], char *const environment[], int input, int output, int errors,
    unsigned long descriptors, pid_t *pid, int *pidfd) {
    (void)arguments;
    (void)environment;
    (void)descriptors;
    int error = trouble_at(program, csimulation_at_open);
    if (!error) error = lack_of_memory();
    if (!error && KERNEL(SYS_access, program, X_OK, 0, 0) < 0) error = ENOENT;
    if (error) return error;
    if (child_count == most) return EAGAIN;
    int number = child_count++;
    struct child *child = &children[number];
    int standard[3] = {input, output, errors};
    *child = (struct child){.seen = {.id = first_id + number}, .end = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    strncpy(child->program, program, sizeof child->program - 1);
    for (int i = 0; i < 3; i++) child->seen.standard[i] = (int)KERNEL(SYS_fcntl, standard[i], F_DUPFD_CLOEXEC, 3, 0);
    *pid = child->seen.id;
    *pidfd = (int)KERNEL(SYS_fcntl, child->end, F_DUPFD_CLOEXEC, 3, 0);
    pthread_t thread;
    error = pthread_create(&thread, NULL, run_child, child);
    if (!error) return 0;
    child->has_ended = true;
    for (int i = 0; i < 3; i++) csimulation_close(child->seen.standard[i]);
    csimulation_close(child->end);
    csimulation_close(*pidfd);
    return error;
}

int __wrap_cplatform_has_ended(pid_t pid) {
    struct child *child = child_of(pid);
    return !child || child->has_ended;
}

int __wrap_cplatform_reap(pid_t pid, int *status, int *signal) {
    struct child *child = child_of(pid);
    if (!child) return ECHILD;
    while (!child->has_ended) wait_for(NULL, shared->now + 1000000, NULL, 0);
    *status = child->status;
    *signal = child->signal;
    return 0;
}

int kill(pid_t pid, int number) {
    struct child *child = takes_turns ? child_of(pid < 0 ? -pid : pid) : NULL;
    long result = 0;
    if (!child) result = KERNEL(SYS_kill, pid, number, 0, 0);
    else if (child->has_ended) result = -ESRCH;
    else if (number == SIGKILL) child->seen.is_killed = true;
    else if (number) child->seen.is_asked_to_end = true;
    if (child) wake(child, 1);
    if (result >= 0) return 0;
    errno = (int)-result;
    return -1;
}

bool csimulation_child_wait(struct csimulation_child *seen, int64_t nanoseconds, bool reads) {
    struct child *child = child_of(seen->id);
    struct pollfd file = {.fd = seen->standard[0], .events = POLLIN};
    int64_t end = nanoseconds < 0 ? NEVER : shared->now + nanoseconds;
    if (!seen->is_killed) wait_for(child, end, &file, reads ? 1 : 0);
    return !seen->is_killed;
}

int csimulation_unread(int descriptor) {
    int count = 0;
    return KERNEL(SYS_ioctl, descriptor, FIONREAD, &count, 0) < 0 ? 0 : count;
}

// What else distinguishes processes

// Before the turns begin, a writer records its process id in the stores from which all runs are copied. A
// different id afterwards lets SQLite detect the fork.
pid_t getpid(void) { return takes_turns ? 1000 : 999; }

int getsockopt(int descriptor, int level, int name, void *value, socklen_t *length) {
    long result = kernel(SYS_getsockopt, descriptor, level, name, (long)value, (long)length, 0);
    if (result >= 0 && takes_turns && level == SOL_SOCKET && name == SO_PEERCRED) {
        struct ucred *peer = value;
        peer->pid = first_id + most;
        if (is_foreign(descriptor)) peer->uid = peer->gid = 65534;
    }
    if (result >= 0) return 0;
    errno = (int)-result;
    return -1;
}
