#define _GNU_SOURCE
#include "CSpawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int cspawn_pipe(int ends[2]) {
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

int cspawn_start(
    const char *program, char *const arguments[], char *const environment[], const char *directory,
    int input, int output, int errors, pid_t *pid, int *pidfd) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int error = posix_spawn_file_actions_init(&actions);
    if (error) return error;
    if ((error = posix_spawnattr_init(&attributes))) {
        posix_spawn_file_actions_destroy(&actions);
        return error;
    }
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    sigemptyset(&none);

    if (!error) error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    if (!error) error = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    if (!error && directory) error = posix_spawn_file_actions_addchdir_np(&actions, directory);
    if (!error) error = posix_spawnattr_setpgroup(&attributes, 0);
    if (!error) error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (!error) error = posix_spawnattr_setsigmask(&attributes, &none);
    if (!error)
        error = posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    if (!error) error = posix_spawnp(pid, program, &actions, &attributes, arguments, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error) return error;

    // The child is not reaped yet, so the number is still its own.
    *pidfd = (int)syscall(SYS_pidfd_open, *pid, 0);
    if (*pidfd < 0) {
        error = errno;
        int status, signal;
        kill(-*pid, SIGKILL);
        cspawn_reap(*pid, &status, &signal);
        return error;
    }
    return 0;
}

int cspawn_has_ended(pid_t pid) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
    return info.si_pid != 0;
}

int cspawn_reap(pid_t pid, int *status, int *signal) {
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) != 0)
        if (errno != EINTR) return errno;
    *status = info.si_code == CLD_EXITED ? info.si_status : 0;
    *signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    return 0;
}
