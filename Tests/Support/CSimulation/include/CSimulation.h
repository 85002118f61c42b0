#ifndef CSIMULATION_H
#define CSIMULATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// The kernel as a simulated process sees it: threads run one at a time in an order that a seed gives, time is a number,
// and a file's operations fail, wait or hang where a rule says so. It stands in for libc's functions, so what is
// simulated need not know of it.

// What a process leaves to the next one: it is in memory that both have.
struct csimulation_shared {
    // In nanoseconds since the simulation began.
    int64_t now;
    uint64_t random;
    // How many points there were at which another thread could have run.
    uint64_t points;
    // The longest time that the first thread waited for anything but events, in one go.
    int64_t longest_stall;
    // The script's next step.
    int64_t position;
};

// In the life of a process.
static const int csimulation_killed = 77, csimulation_stuck = 78, csimulation_endless = 79, csimulation_not_stopped = 80;

// The same program again, with addresses and hash values that are the same in each process. Returns only if it is that.
void csimulation_be_repeatable(char *const arguments[]);

// Memory that processes share which are forked from now on.
struct csimulation_shared *csimulation_share(void);
void csimulation_unshare(struct csimulation_shared *shared);

pid_t csimulation_fork(void);

// Where a process that runs one seed reports.
enum { csimulation_report = 3 };

// Starts this program in a process of its own, with nothing of this one's memory and files.
pid_t csimulation_spawn(char *const arguments[], int report);
void csimulation_exit(int status) __attribute__((noreturn));
// -1 for a process that was ended by a signal, whose number is then given.
int csimulation_wait(pid_t process, int *signal);
// Ends the process, whatever it does, after this many seconds of the machine.
void csimulation_limit(unsigned seconds);

// From now on this process's clocks show what is shared.
void csimulation_take_clock(struct csimulation_shared *shared);
// From now on this process's threads take turns. One of 256 points is a change of threads where `switches` is 1.
void csimulation_take_threads(int switches, int64_t end);
// The calling thread is the world's: nothing fails for it, and the process does not end in it.
void csimulation_be_world(void);
void csimulation_sleep(int64_t nanoseconds);
int64_t csimulation_now(void);
// The script's next step, which is the same one in the next life.
int64_t csimulation_position(void);
void csimulation_take_step(void);
uint64_t csimulation_random(void);
// Kills the process at some point from now on; 0 for not at all.
void csimulation_kill_after(uint64_t points);
void csimulation_kill(void) __attribute__((noreturn));

enum { csimulation_at_sync = 1, csimulation_at_write = 2, csimulation_at_read = 4, csimulation_at_lock = 8, csimulation_at_open = 16 };

// What operations of files do whose paths begin so: they take this time (for ever if it is less than 0), and fail with
// this error, each of them with this chance of 256.
void csimulation_rule(
    int number, const char *prefix, int operations, int64_t delay, int error, int chance);
void csimulation_no_rule(int number);

// Kills the process at its n-th write to a file from now on.
void csimulation_kill_at_write(int number);

// Files below a folder are copied to another one each time that they are synced: it has what a power failure leaves.
void csimulation_keep_synced(const char *folder, const char *copies);

// A process that the daemon has started: one of the world's threads, which has its ends of the pipes.
struct csimulation_child {
    pid_t id;
    int standard[3];
    bool is_killed, is_asked_to_end;
};

// What such a process does. Returns its status (or less than 0, the signal that ended it); at once, where it is killed.
typedef int (*csimulation_program)(const char *path, struct csimulation_child *child);
void csimulation_take_programs(csimulation_program program);
// Waits for this time (for ever if it is less than 0), for a signal or, where it reads, for input. False if it is killed.
bool csimulation_child_wait(struct csimulation_child *child, int64_t nanoseconds, bool reads);
// How many bytes of a pipe have not been read.
int csimulation_unread(int descriptor);

// Gets the journal's entries, each a number of fields.
struct iovec;
void csimulation_take_journal(void (*entry)(const struct iovec *fields, int count));
// Sockets of a path: connected as a stream, and bound for datagrams. -1 if that is not possible.
int csimulation_connect(const char *path);
int csimulation_bind(const char *path);
// Waits for input for this time (for ever if it is less than 0). False if it was the time that came.
bool csimulation_await_input(int descriptor, int64_t nanoseconds);

// The id that the process really has; `getpid` is the same in each run.
pid_t csimulation_process(void);

// SIGTERM or SIGHUP to the process itself.
void csimulation_signal(int signal);

// Reads and writes in which nobody else has a turn. None of them waits, but for `csimulation_read`.
ssize_t csimulation_read_now(int descriptor, void *buffer, size_t count);
ssize_t csimulation_write_now(int descriptor, const void *bytes, size_t count);
void csimulation_close(int descriptor);
ssize_t csimulation_read(int descriptor, void *buffer, size_t count);
bool csimulation_write_all(int descriptor, const void *bytes, size_t count);

#endif
