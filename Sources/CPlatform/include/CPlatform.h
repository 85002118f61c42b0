// System interfaces that Swift cannot import: variadic functions, vfork(2), signal handlers, headers that
// Swift's own module of the C library leaves out, and hooks of the Swift runtime.
#ifndef CPLATFORM_H
#define CPLATFORM_H

// Event loops, access control lists, random bytes, memory release, file system types.
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

// glibc declares this only for _GNU_SOURCE. The semaphore is a sem_t; including its header would make Glibc's
// types part of this module.
int sem_clockwait(void *semaphore, clockid_t clock, const struct timespec *end);

/// Removes the timer slack of the calling thread.
static inline void cplatform_exact_pauses(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); }

/// The calling thread's id.
static inline pid_t cplatform_thread(void) { return (pid_t)syscall(SYS_gettid); }

// MARK: Child processes

/// Creates a pipe whose ends are closed on exec. Neither end is a standard descriptor, even if the program was
/// started without those.
/// Returns 0 or an errno.
int cplatform_pipe(int ends[2]);

/// Starts a program in its own process group, with default signal handling and no descriptors but the three
/// given, which become its standard input, output and error.
/// A name without a slash is searched in PATH. `descriptors` is the program's soft limit of descriptors; 0
/// keeps this process's limit.
/// Returns 0 or an errno; `pidfd` (pidfd_open(2)) becomes readable when the process ends.
int cplatform_start(
    const char *program, char *const arguments[], char *const environment[],
    int input, int output, int errors, unsigned long descriptors, pid_t *pid, int *pidfd);

/// Whether the child has ended (it stays a zombie, and its pid is not reused).
int cplatform_has_ended(pid_t pid);

/// Waits until the child has ended, and releases its pid.
/// Returns 0 or an errno; `signal` is 0 if the process exited with `status`.
int cplatform_reap(pid_t pid, int *status, int *signal);

// MARK: Tasks

// A hook that the Swift runtime exports (swift/include/swift/Runtime/Concurrency.h): the program runs its tasks
// itself, instead of libdispatch's threads.
// A job is a part of a task, up to its next suspension.

/// Passes all further jobs of the process that name no executor to `enqueue`.
void cplatform_hand_over_jobs(void (*enqueue)(void *job));

/// Runs such a job on this thread.
void cplatform_run_job(void *job);

// MARK: Memory

/// Releases the pages of code and constants that the process has read from its own files. Pages that are needed
/// again are read again, mostly from the page cache.
void cplatform_give_back_code(void);

// MARK: The terminal

/// Switches the terminal of standard input to deliver each key as it is pressed, without echo, on an alternate
/// screen. cplatform_give_back_terminal() restores the previous screen, and so does a signal that ends the
/// process. Returns 0, or -1 if standard input or output is not a terminal.
int cplatform_take_terminal(void);
void cplatform_give_back_terminal(void);

#endif
