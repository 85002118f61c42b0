// Every call in which a thread can wait for another one, or for time to pass.
#include "internal.h"

#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/time.h>

// The machine has been running for a while.
static const int64_t monotonic = 100000 * 1000000000LL;

static int64_t nanoseconds(const struct timespec *time) { return time->tv_sec * 1000000000LL + time->tv_nsec; }

static int64_t offset(clockid_t clock) {
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? BEGINNING + shared->clock_step : monotonic;
}

static int64_t deadline(clockid_t clock, const struct timespec *time, bool is_absolute) {
    if (!time) return NEVER;
    int64_t when = is_absolute ? nanoseconds(time) - offset(clock) : shared->now + nanoseconds(time);
    return when < 0 ? 0 : when;
}

// How long a process has slept that takes no turns, since that was last forgotten: no time passes for others meanwhile.
static int64_t slept;

void csimulation_forget_sleep(void) { slept = 0; }

// Clocks

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (!shared) {
        long result = KERNEL(SYS_clock_gettime, clock, time, 0, 0);
        if (result < 0) errno = (int)-result;
        return result < 0 ? -1 : 0;
    }
    if (is_simulated()) shared->now += 100;
    // The clocks of other threads have negative numbers.
    bool is_cpu = clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID || clock < 0;
    int64_t now = is_cpu ? 0 : offset(clock) + shared->now + slept;
    *time = (struct timespec){now / 1000000000, now % 1000000000};
    return 0;
}

// How busy the machine is does not show. A job of the loop that takes simulated time has waited for something.
int getrusage(__rusage_who_t who, struct rusage *usage) {
    if (!takes_turns) return NEXT(getrusage)(who, usage);
    static long waits;
    *usage = (struct rusage){.ru_nvcsw = ++waits};
    return 0;
}

int gettimeofday(struct timeval *time, void *zone) {
    (void)zone;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *time) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (time) *time = now.tv_sec;
    return now.tv_sec;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest) {
    if (!takes_turns && shared && !(flags & TIMER_ABSTIME)) {
        slept += nanoseconds(time);
        return 0;
    }
    if (!takes_turns) return (int)-KERNEL(SYS_clock_nanosleep, clock, flags, time, rest);
    wait_for(NULL, deadline(clock, time, flags & TIMER_ABSTIME), NULL, 0);
    return 0;
}

int nanosleep(const struct timespec *time, struct timespec *rest) {
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, time, rest);
    if (error) errno = error;
    return error ? -1 : 0;
}

int usleep(useconds_t microseconds) {
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    return nanosleep(&time, NULL);
}

unsigned sleep(unsigned seconds) {
    struct timespec time = {seconds, 0};
    nanosleep(&time, NULL);
    return 0;
}

int sched_yield(void) {
    if (takes_turns) yield_turn();
    else KERNEL(SYS_sched_yield, 0, 0, 0, 0);
    return 0;
}

// The simulated machine always has the same number of processors.
long sysconf(int name) {
    if (takes_turns && (name == _SC_NPROCESSORS_ONLN || name == _SC_NPROCESSORS_CONF)) return 2;
    return NEXT(sysconf)(name);
}

// Chance

static void fill(void *buffer, size_t count) {
    for (size_t i = 0; i < count; i++) ((unsigned char *)buffer)[i] = (unsigned char)random_number();
}

ssize_t getrandom(void *buffer, size_t count, unsigned flags) {
    if (!shared) return KERNEL(SYS_getrandom, buffer, count, flags, 0);
    fill(buffer, count);
    return (ssize_t)count;
}

int getentropy(void *buffer, size_t count) { return getrandom(buffer, count, 0) < 0 ? -1 : 0; }
void arc4random_buf(void *buffer, size_t count) { getrandom(buffer, count, 0); }

uint32_t arc4random(void) {
    uint32_t number = 0;
    getrandom(&number, sizeof number, 0);
    return number;
}

// Locks

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    static __typeof__(&pthread_mutex_lock) next;
    if (!takes_turns) {
        if (!next) next = NEXT(pthread_mutex_lock);
        return next(mutex);
    }
    point();
    int error;
    while ((error = pthread_mutex_trylock(mutex)) == EBUSY) wait_for(mutex, NEVER, NULL, 0);
    return error;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    static __typeof__(&pthread_mutex_unlock) next;
    if (!next) next = NEXT(pthread_mutex_unlock);
    int error = next(mutex);
    if (takes_turns) wake(mutex, 1);
    return error;
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    if (!takes_turns) return NEXT(pthread_rwlock_rdlock)(lock);
    int error;
    while ((error = pthread_rwlock_tryrdlock(lock)) == EBUSY) wait_for(lock, NEVER, NULL, 0);
    return error;
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    if (!takes_turns) return NEXT(pthread_rwlock_wrlock)(lock);
    int error;
    while ((error = pthread_rwlock_trywrlock(lock)) == EBUSY) wait_for(lock, NEVER, NULL, 0);
    return error;
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    int error = NEXT(pthread_rwlock_unlock)(lock);
    if (takes_turns) wake(lock, INT32_MAX);
    return error;
}

static int wait_on_condition(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until) {
    // No other thread runs in between.
    NEXT(pthread_mutex_unlock)(mutex);
    wake(mutex, 1);
    bool was_woken = wait_for(condition, until, NULL, 0);
    pthread_mutex_lock(mutex);
    return was_woken ? 0 : ETIMEDOUT;
}

// Condition variables have an older version, which a lookup by name alone may find.
#define NEXT_CONDITION(name) ((__typeof__(&name))dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2"))

int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    if (!takes_turns) return NEXT_CONDITION(pthread_cond_wait)(condition, mutex);
    return wait_on_condition(condition, mutex, NEVER);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *time) {
    if (!takes_turns) return NEXT_CONDITION(pthread_cond_timedwait)(condition, mutex, time);
    return wait_on_condition(condition, mutex, deadline(CLOCK_REALTIME, time, true));
}

int pthread_cond_clockwait(
    pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *time) {
    if (!takes_turns) return NEXT(pthread_cond_clockwait)(condition, mutex, clock, time);
    return wait_on_condition(condition, mutex, deadline(clock, time, true));
}

int pthread_cond_signal(pthread_cond_t *condition) {
    if (!takes_turns) return NEXT_CONDITION(pthread_cond_signal)(condition);
    wake(condition, 1);
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *condition) {
    if (!takes_turns) return NEXT_CONDITION(pthread_cond_broadcast)(condition);
    wake(condition, INT32_MAX);
    return 0;
}

// The values are those of glibc: 0 before, 2 after.
int pthread_once(pthread_once_t *once, void (*routine)(void)) {
    if (!takes_turns) return NEXT(pthread_once)(once, routine);
    while (*once == 1) wait_for(once, NEVER, NULL, 0);
    if (*once == 2) return 0;
    *once = 1;
    routine();
    *once = 2;
    wake(once, INT32_MAX);
    return 0;
}

static int wait_on_semaphore(sem_t *semaphore, clockid_t clock, const struct timespec *time) {
    point();
    while (sem_trywait(semaphore) != 0)
        if (!wait_for(semaphore, deadline(clock, time, true), NULL, 0)) {
            errno = ETIMEDOUT;
            return -1;
        }
    return 0;
}

int sem_wait(sem_t *semaphore) {
    return takes_turns ? wait_on_semaphore(semaphore, CLOCK_REALTIME, NULL) : NEXT(sem_wait)(semaphore);
}

int sem_timedwait(sem_t *semaphore, const struct timespec *time) {
    return takes_turns
        ? wait_on_semaphore(semaphore, CLOCK_REALTIME, time) : NEXT(sem_timedwait)(semaphore, time);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *time) {
    return takes_turns
        ? wait_on_semaphore(semaphore, clock, time) : NEXT(sem_clockwait)(semaphore, clock, time);
}

int sem_post(sem_t *semaphore) {
    int result = NEXT(sem_post)(semaphore);
    if (takes_turns) {
        wake(semaphore, 1);
        point();
    }
    return result;
}

static long fail(int error) {
    errno = error;
    return -1;
}

// A lock that records its owner.
static long lock_word(uint32_t *word, bool may_wait) {
    uint32_t own = (uint32_t)KERNEL(SYS_gettid, 0, 0, 0, 0);
    while (*word & FUTEX_TID_MASK) {
        if (!may_wait) return fail(EAGAIN);
        *word |= FUTEX_WAITERS;
        wait_for(word, NEVER, NULL, 0);
    }
    *word = (*word & FUTEX_WAITERS) | own;
    return 0;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *time, long mask) {
    (void)mask;
    clockid_t clock = operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
        if (*word != value) return fail(EAGAIN);
        bool is_absolute = (operation & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
        return wait_for(word, deadline(clock, time, is_absolute), NULL, 0) ? 0 : fail(ETIMEDOUT);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET: {
        int woken = wake(word, (int)value);
        point();
        return woken;
    }
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2: return lock_word(word, true);
    case FUTEX_TRYLOCK_PI: return lock_word(word, false);
    case FUTEX_UNLOCK_PI:
        *word = 0;
        wake(word, INT32_MAX);
        return 0;
    default:
        fprintf(stderr, "The simulation does not know the futex operation %d.\n", operation);
        abort();
    }
}

long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (takes_turns && number == SYS_futex)
        return futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3], a[5]);
    if (shared && number == SYS_getrandom) return getrandom((void *)a[0], (size_t)a[1], 0);
    long result = kernel(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return result < 0 && result > -4096 ? fail((int)-result) : result;
}
