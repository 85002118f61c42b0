// What the system has and Swift does not see: variadic functions, vfork(2), handlers of signals, headers that Swift's own
// module of the C library leaves out, and the Swift runtime's own hooks.
#ifndef CPLATFORM_H
#define CPLATFORM_H

// An event loop, access control lists, random bits, memory that is given back, types of file systems.
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

// MARK: Threads

// glibc declares this for _GNU_SOURCE alone. The semaphore is a sem_t: its header would make types of Glibc this module's.
int sem_clockwait(void *semaphore, clockid_t clock, const struct timespec *end);

/// Has the calling thread wait no longer than it says.
static inline void cplatform_exact_pauses(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); }

/// The calling thread's number.
static inline pid_t cplatform_thread(void) { return (pid_t)syscall(SYS_gettid); }

// MARK: Child processes

/// A pipe whose ends are closed on exec and are none of the standard descriptors, even if the
/// program was started without those.
/// Returns 0 or an errno.
int cplatform_pipe(int ends[2]);

/// Starts a program in a process group of its own, with default signals and no descriptors but
/// the three given, which become its standard input, output and error.
/// A name without a slash is looked for in PATH. `descriptors` is the program's soft limit of
/// descriptors, 0 for the same as this process has.
/// Returns 0 or an errno; `pidfd` (pidfd_open(2)) becomes readable when the process ends.
int cplatform_start(
    const char *program, char *const arguments[], char *const environment[],
    int input, int output, int errors, unsigned long descriptors, pid_t *pid, int *pidfd);

/// Whether the child has ended (it stays a zombie, and its number stays its own).
int cplatform_has_ended(pid_t pid);

/// Waits for the child's end, and releases its number.
/// Returns 0 or an errno; `signal` is 0 if the process ended by itself with `status`.
int cplatform_reap(pid_t pid, int *status, int *signal);

// MARK: Tasks

// Where Swift's runtime lets a program run its tasks itself, instead of leaving them to libdispatch's
// threads: a hook that the runtime exports for this purpose (swift/include/swift/Runtime/Concurrency.h).
// A job is a part of a task, up to its next suspension.

/// From now on all jobs of the process that name no executor are handed over.
void cplatform_hand_over_jobs(void (*enqueue)(void *job));

/// Runs a job that was handed over, on this thread.
void cplatform_run_job(void *job);

// MARK: Memory

/// Lets go of the pages of code and constants that the process has read of its own files. What is needed
/// again is read again, most often from the page cache.
void cplatform_give_back_code(void);

// MARK: The terminal

/// Has the terminal of standard input give each key as it is pressed, without showing it, on a screen of its own. What
/// was there before is back at cplatform_give_back_terminal(), and where a signal ends the process. Gives 0, or -1 if
/// standard input or output is no terminal.
int cplatform_take_terminal(void);
void cplatform_give_back_terminal(void);

#endif
