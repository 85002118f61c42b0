/*
 * Stands in for pidfd_open(2), which valgrind does not know before version 3.20: loaded into the daemon where its
 * instructions are counted, and nowhere else. The descriptor becomes readable when the process ends, as it
 * should.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Watched {
    pid_t process;
    int end;
} Watched;

static void *waitForEnd(void *context) {
    Watched *watched = context;
    siginfo_t info;
    waitid(P_PID, (id_t)watched->process, &info, WEXITED | WNOWAIT);
    close(watched->end);
    free(watched);
    return NULL;
}

static int openProcess(pid_t process) {
    int ends[2];
    pthread_t thread;
    Watched *watched = malloc(sizeof *watched);
    if (watched == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
    *watched = (Watched){process, ends[1]};
    if (pthread_create(&thread, NULL, waitForEnd, watched) != 0) return -1;
    pthread_detach(thread);
    return ends[0];
}

long syscall(long number, ...) {
    static long (*real)(long, ...);
    va_list list;
    long a[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_open) return openProcess((pid_t)a[0]);
    if (real == NULL) real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
