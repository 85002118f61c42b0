// Starts child processes and watches for their ends: what the C library has, but Swift does not see
// (variadic functions, vfork and newer headers).
#ifndef CSPAWN_H
#define CSPAWN_H

#include <sys/types.h>

/// A pipe whose ends are closed on exec and are none of the standard descriptors, even if the
/// program was started without those.
/// Returns 0 or an errno.
int cspawn_pipe(int ends[2]);

/// Starts a program in a process group of its own, with default signals and no descriptors but
/// the three given, which become its standard input, output and error.
/// A name without a slash is looked for in PATH. `descriptors` is the program's soft limit of
/// descriptors, 0 for the same as this process has.
/// Returns 0 or an errno; `pidfd` (pidfd_open(2)) becomes readable when the process ends.
int cspawn_start(
    const char *program, char *const arguments[], char *const environment[],
    int input, int output, int errors, unsigned long descriptors, pid_t *pid, int *pidfd);

/// Whether the child has ended (it stays a zombie, and its number stays its own).
int cspawn_has_ended(pid_t pid);

/// Waits for the child's end, and releases its number.
/// Returns 0 or an errno; `signal` is 0 if the process ended by itself with `status`.
int cspawn_reap(pid_t pid, int *status, int *signal);

#endif
