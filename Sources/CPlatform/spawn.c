#define _GNU_SOURCE
#include "CPlatform.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int cplatform_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0) return errno;
    for (int i = 0; i < 2; i++) {
        if (ends[i] > 2) continue;
        int moved = fcntl(ends[i], F_DUPFD_CLOEXEC, 3);
        if (moved < 0) {
            int error = errno;
            close(ends[0]);
            close(ends[1]);
            return error;
        }
        close(ends[i]);
        ends[i] = moved;
    }
    return 0;
}

/// The child's steps between vfork(2) and execve(2), in its parent's memory: system calls only. posix_spawn(3)
/// cannot set a limit, and the parent could only set it after the program has started.
static int become(
    const char *program, char *const arguments[], char *const environment[],
    const int standard[3], unsigned long descriptors) {
    struct sigaction byDefault = {.sa_handler = SIG_DFL};
    struct rlimit limit;
    sigset_t none;
    for (int number = 1; number < NSIG; number++) sigaction(number, &byDefault, NULL);
    if (setpgid(0, 0) != 0) return errno;
    for (int i = 0; i < 3; i++)
        if (dup2(standard[i], i) < 0) return errno;
    if (close_range(3, ~0U, 0) != 0) return errno;
    if (descriptors && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = descriptors < limit.rlim_max ? descriptors : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (strchr(program, '/'))
        execve(program, arguments, environment);
    else
        execvpe(program, arguments, environment);
    return errno;
}

int cplatform_start(
    const char *program, char *const arguments[], char *const environment[],
    int input, int output, int errors, unsigned long descriptors, pid_t *pid, int *pidfd) {
    const int standard[3] = {input, output, errors};
    volatile int error = 0;
    sigset_t all, before;
    // No signal handler of this process runs in the child.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0) {
        error = become(program, arguments, environment, standard, descriptors);
        _exit(127);
    }
    if (child < 0) error = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        int status, signal;
        if (child > 0) cplatform_reap(child, &status, &signal);
        return error;
    }
    *pid = child;

    // The child is not reaped yet, so its pid is not reused.
    *pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
    if (*pidfd < 0) {
        int number = errno, status, signal;
        kill(-*pid, SIGKILL);
        cplatform_reap(*pid, &status, &signal);
        return number;
    }
    return 0;
}

int cplatform_has_ended(pid_t pid) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
    return info.si_pid != 0;
}

int cplatform_reap(pid_t pid, int *status, int *signal) {
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) != 0)
        if (errno != EINTR) {
            *status = 255; /* an unknown status is no success */
            *signal = 0;
            return errno;
        }
    *status = info.si_code == CLD_EXITED ? info.si_status : 0;
    *signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    return 0;
}
