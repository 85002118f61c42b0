// What an event loop is made of and what access control lists are kept in; Swift's own module of the C library
// leaves both out. Random bits, memory that is given back, and types of file systems, too.
#include <malloc.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

// glibc declares these for _GNU_SOURCE alone. The semaphore is a sem_t: its header would make types of Glibc this module's.
int sem_clockwait(void *semaphore, clockid_t clock, const struct timespec *end);
static inline void clinux_exact_pauses(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0); }
static inline pid_t clinux_thread(void) { return (pid_t)syscall(SYS_gettid); }
