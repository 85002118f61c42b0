#ifndef CSIMULATION_H
#define CSIMULATION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// The kernel as a simulated process sees it: threads run one at a time in an order that a seed determines, time
// is a number, and file operations fail, wait or hang where a rule says so. It replaces libc's functions, so
// simulated code need not know of it.

// What a process passes on to the next one, in shared memory.
struct csimulation_shared {
    // In nanoseconds since the simulation began.
    int64_t now;
    uint64_t random;
    // The number of points at which another thread could have run.
    uint64_t points;
    // The longest uninterrupted time that the first thread waited for anything but events.
    int64_t longest_stall;
    // The script's next step.
    int64_t position;
    // How far the clock of the wall was set.
    int64_t clock_step;
    // How long the machine was suspended.
    int64_t suspended;
};

// Exit statuses of a process's life.
static const int csimulation_killed = 77, csimulation_stuck = 78, csimulation_endless = 79, csimulation_not_stopped = 80;

// Executes the same program again, with the same addresses and hash values in each process. Returns only in
// that program.
void csimulation_be_repeatable(char *const arguments[]);

// Memory that is shared with processes forked later.
struct csimulation_shared *csimulation_share(void);
void csimulation_unshare(struct csimulation_shared *shared);

pid_t csimulation_fork(void);

// The descriptor on which a process that runs one seed reports.
enum { csimulation_report = 3 };

// Starts this program in a new process, without this one's memory and files.
pid_t csimulation_spawn(char *const arguments[], int report);
void csimulation_exit(int status) __attribute__((noreturn));
// Returns -1 if a signal ended the process, and sets `signal` to its number.
int csimulation_wait(pid_t process, int *signal);
// Ends the process after this many seconds of computing, or a multiple of real time, whatever it does.
void csimulation_limit(unsigned seconds);

// Makes this process's clocks show the shared time.
void csimulation_take_clock(struct csimulation_shared *shared);
// Makes this process's threads take turns. With `switches` 1, one of 256 points is a change of threads.
void csimulation_take_threads(int switches, int64_t end);
// Makes the calling thread part of the world: nothing fails for it, and the process is not killed in it.
void csimulation_be_world(void);
void csimulation_sleep(int64_t nanoseconds);
int64_t csimulation_now(void);
// The script's next step, which a new life continues with.
int64_t csimulation_position(void);
void csimulation_take_step(void);
uint64_t csimulation_random(void);
// Kills the process at some later point; 0 for never.
void csimulation_kill_after(uint64_t points);
// Puts off that kill while the world does something whole.
void csimulation_spare(bool spares);
void csimulation_kill(void) __attribute__((noreturn));

enum { csimulation_at_sync = 1, csimulation_at_write = 2, csimulation_at_read = 4, csimulation_at_lock = 8, csimulation_at_open = 16 };

// A rule for file operations whose paths start with the prefix: they take this time (forever if it is
// negative), and fail with this error, each with this chance of 256.
void csimulation_rule(
    int number, const char *prefix, int operations, int64_t delay, int error, int chance);
void csimulation_no_rule(int number);

// What the machine refuses the program from now on, each time with this chance of 256.
void csimulation_refuse_threads(int chance);
// One of these two at a time.
void csimulation_refuse_descriptors(int chance);
void csimulation_refuse_memory(int chance);
// Sets the clock of the wall.
void csimulation_step_clock(int64_t nanoseconds);
// Time passes in which nothing runs.
void csimulation_suspend(int64_t nanoseconds);
int64_t csimulation_suspended(void);
// The events that are unread when the program reads any the next time are lost.
void csimulation_lose_events(void);

// Kills the process at its n-th write to a file from now on.
void csimulation_kill_at_write(int number);

// Copies files of a folder to another one whenever they are synced, and gives the copies their names whenever the
// folder is: these have what a power failure leaves. For several folders, and for processes that are forked.
void csimulation_keep_synced(const char *folder, const char *copies);
// Everything that is in those folders now is on the disk.
void csimulation_all_is_synced(void);

// To a process that takes no turns, its own sleep takes time, of which others notice nothing. This forgets it.
void csimulation_forget_sleep(void);

// A process that the daemon has started: one of the world's threads, which holds its ends of the pipes.
struct csimulation_child {
    pid_t id;
    int standard[3];
    bool is_killed, is_asked_to_end;
};

// The code of such a process. Returns its status (or, if negative, the signal that ended it); returns at once
// if it is killed.
typedef int (*csimulation_program)(const char *path, struct csimulation_child *child);
void csimulation_take_programs(csimulation_program program);
// Waits for this time (forever if it is negative), for a signal or, if `reads`, for input. False if it is
// killed.
bool csimulation_child_wait(struct csimulation_child *child, int64_t nanoseconds, bool reads);
// How many bytes of a pipe are unread.
int csimulation_unread(int descriptor);

// Receives the journal's entries, each a number of fields.
struct iovec;
void csimulation_take_journal(void (*entry)(const struct iovec *fields, int count));
// The journal takes nothing for this time.
void csimulation_hold_journal(int64_t nanoseconds);
// Sockets at a path: connected as a stream, or bound for datagrams. -1 on failure.
int csimulation_connect(const char *path, bool is_foreign);
int csimulation_bind(const char *path);
// Waits for input for this time (forever if it is negative). False on timeout.
bool csimulation_await_input(int descriptor, int64_t nanoseconds);

// The process's real id; `getpid` returns the same in each run.
pid_t csimulation_process(void);

// Sends SIGTERM or SIGHUP to the process itself.
void csimulation_signal(int signal);

// Reads and writes during which no other thread has a turn. They do not wait, except for `csimulation_read`.
ssize_t csimulation_read_now(int descriptor, void *buffer, size_t count);
ssize_t csimulation_write_now(int descriptor, const void *bytes, size_t count);
void csimulation_close(int descriptor);
ssize_t csimulation_read(int descriptor, void *buffer, size_t count);
bool csimulation_write_all(int descriptor, const void *bytes, size_t count);

#endif
