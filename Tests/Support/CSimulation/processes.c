// Processes: each life of the simulated program is one.
#include "internal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <stdlib.h>
#include <string.h>

long kernel(long number, long a, long b, long c, long d, long e, long f) {
    static __typeof__(&syscall) next;
    if (!next) next = NEXT(syscall);
    int saved = errno;
    long result = next(number, a, b, c, d, e, f);
    if (result == -1) result = -errno;
    errno = saved;
    return result;
}

void csimulation_be_repeatable(char *const arguments[]) {
    int now = personality(0xffffffff);
    if (now != -1 && (now & ADDR_NO_RANDOMIZE) && getenv("SWIFT_DETERMINISTIC_HASHING")) return;
    if (getenv("SIMULATION_REPEATABLE")) return;  // Where the system does not let it: not twice.
    personality((unsigned long)now | ADDR_NO_RANDOMIZE);
    setenv("SWIFT_DETERMINISTIC_HASHING", "1", 1);
    setenv("SIMULATION_REPEATABLE", "1", 1);
    // A backtrace takes long, and a crash is detected anyway.
    setenv("SWIFT_BACKTRACE", "enable=no", 0);
    execv("/proc/self/exe", arguments);
}

struct csimulation_shared *csimulation_share(void) {
    void *page = mmap(
        NULL, sizeof(struct shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}

void csimulation_unshare(struct csimulation_shared *page) { munmap(page, sizeof(struct shared_page)); }

pid_t csimulation_fork(void) { return fork(); }

pid_t csimulation_spawn(char *const arguments[], int report) {
    pid_t process = fork();
    if (process != 0) return process;
    // The same descriptor numbers each time, whatever the parent has open.
    if (dup2(report, csimulation_report) < 0) _exit(127);
    KERNEL(SYS_close_range, csimulation_report + 1, ~0U, 0, 0);
    // The same environment and folder each time.
    static const char *const names[] = {
        "SWIFT_DETERMINISTIC_HASHING", "SIMULATION_REPEATABLE", "SWIFT_BACKTRACE", "SIMULATION_STALLS", "SIMULATION_HALT",
        "LLVM_PROFILE_FILE", "LD_LIBRARY_PATH", "HISTORYD_MUTANT",
    };
    char *environment[sizeof names / sizeof *names + 1];
    int count = 0;
    for (char **entry = environ; *entry; entry++) {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            size_t length = strlen(names[i]);
            bool isNamed = strncmp(*entry, names[i], length) == 0 && (*entry)[length] == '=';
            if (isNamed && count < (int)(sizeof names / sizeof *names)) environment[count++] = *entry;
        }
    }
    environment[count] = NULL;
    execve("/proc/self/exe", arguments, environment);
    _exit(127);
}

void csimulation_exit(int status) {
    // Waits for a debugger.
    if (status >= csimulation_stuck && getenv("SIMULATION_HALT")) {
        while (true) KERNEL(SYS_pause, 0, 0, 0, 0);
    }
    while (true) KERNEL(SYS_exit_group, status, 0, 0, 0);
}

int csimulation_wait(pid_t process, int *signal) {
    int status = 0;
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
    *signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A machine that does other things may let it wait for much longer than it computes.
void csimulation_limit(unsigned seconds) {
    struct rlimit limit = {seconds, seconds + 1};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(15 * seconds);
}

ssize_t csimulation_read(int descriptor, void *buffer, size_t count) {
    long result;
    do { result = KERNEL(SYS_read, descriptor, buffer, count, 0); } while (result == -EINTR);
    return result;
}

bool csimulation_write_all(int descriptor, const void *bytes, size_t count) {
    const char *rest = bytes;
    while (count) {
        long written = KERNEL(SYS_write, descriptor, rest, count, 0);
        if (written == -EINTR) continue;
        if (written <= 0) return false;
        rest += written;
        count -= (size_t)written;
    }
    return true;
}

// Independent of the descriptor's flags: both ends of a pipe belong to this process and to the daemon.
ssize_t csimulation_read_now(int descriptor, void *buffer, size_t count) {
    struct pollfd file = {.fd = descriptor, .events = POLLIN};
    return have_events(&file, 1) ? csimulation_read(descriptor, buffer, count) : -EAGAIN;
}

ssize_t csimulation_write_now(int descriptor, const void *bytes, size_t count) {
    struct pollfd file = {.fd = descriptor, .events = POLLOUT};
    return have_events(&file, 1) ? KERNEL(SYS_write, descriptor, bytes, count, 0) : -EAGAIN;
}

void csimulation_close(int descriptor) { KERNEL(SYS_close, descriptor, 0, 0, 0); }

pid_t csimulation_process(void) { return (pid_t)KERNEL(SYS_getpid, 0, 0, 0, 0); }

void csimulation_signal(int signal) { KERNEL(SYS_kill, csimulation_process(), signal, 0, 0); }

static void (*take_entry)(const struct iovec *fields, int count);

void csimulation_take_journal(void (*entry)(const struct iovec *fields, int count)) { take_entry = entry; }

static int64_t journal_waits_until;

void csimulation_hold_journal(int64_t nanoseconds) { journal_waits_until = shared->now + nanoseconds; }

// Replaces libsystemd's function.
int sd_journal_sendv(const struct iovec *fields, int count) {
    if (is_simulated() && shared->now < journal_waits_until) wait_for(NULL, journal_waits_until, NULL, 0);
    if (take_entry) take_entry(fields, count);
    point();
    return 0;
}

// The program's code stays in memory: reading it again takes the machine's time, but no simulated time.
int madvise(void *address, size_t length, int advice) {
    if (takes_turns) return 0;
    long result = KERNEL(SYS_madvise, address, length, advice, 0);
    if (result >= 0) return 0;
    errno = (int)-result;
    return -1;
}
