// Waiting for descriptors, and descriptors that are timers.
#include "internal.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>

enum { most = 64 };

static struct timer {
    int descriptor;
    clockid_t clock;
    int64_t deadline;
    bool has_fired;
    int epoll;
    epoll_data_t data;
} timers[most];
static int timer_count;

static struct timer *timer_of(int descriptor) {
    for (int i = timer_count - 1; i >= 0; i--)
        if (timers[i].descriptor == descriptor) return &timers[i];
    return NULL;
}

static int result_of(long result) {
    if (result >= 0) return (int)result;
    errno = (int)-result;
    return -1;
}

int timerfd_create(int clock, int flags) {
    int descriptor = result_of(KERNEL(SYS_timerfd_create, clock, flags, 0, 0));
    if (takes_turns && descriptor >= 0 && timer_count < most)
        timers[timer_count++] =
            (struct timer){.descriptor = descriptor, .clock = clock, .deadline = NEVER, .epoll = -1};
    return descriptor;
}

int timerfd_settime(int descriptor, int flags, const struct itimerspec *setting, struct itimerspec *old) {
    struct timer *timer = takes_turns ? timer_of(descriptor) : NULL;
    if (!timer) return result_of(KERNEL(SYS_timerfd_settime, descriptor, flags, setting, old));
    struct timespec now;
    clock_gettime(timer->clock, &now);
    int64_t value = setting->it_value.tv_sec * 1000000000LL + setting->it_value.tv_nsec;
    int64_t shown = now.tv_sec * 1000000000LL + now.tv_nsec;
    timer->deadline = !value ? NEVER : flags & TFD_TIMER_ABSTIME ? shared->now + value - shown : shared->now + value;
    timer->has_fired = false;
    hasten(timer->epoll, timer->deadline);
    return 0;
}

bool read_timer(int descriptor, void *buffer, ssize_t *result) {
    struct timer *timer = timer_of(descriptor);
    if (!timer) return false;
    *(uint64_t *)buffer = 1;
    *result = timer->has_fired ? 8 : -1;
    if (!timer->has_fired) errno = EAGAIN;
    timer->has_fired = false;
    return true;
}

int epoll_ctl(int epoll, int operation, int descriptor, struct epoll_event *event) {
    struct timer *timer = takes_turns ? timer_of(descriptor) : NULL;
    if (timer) {
        timer->epoll = operation == EPOLL_CTL_DEL ? -1 : epoll;
        if (event) timer->data = event->data;
    }
    return result_of(KERNEL(SYS_epoll_ctl, epoll, operation, descriptor, event));
}

int epoll_wait(int epoll, struct epoll_event *events, int maximum, int timeout) {
    if (!takes_turns) return result_of(kernel(SYS_epoll_pwait, epoll, (long)events, maximum, timeout, 0, 0));
    int64_t end = timeout < 0 ? NEVER : shared->now + timeout * 1000000LL;
    asked_for_events();
    point();
    while (true) {
        long count = kernel(SYS_epoll_pwait, epoll, (long)events, maximum, 0, 0, 0);
        if (count < 0) return result_of(count);
        int64_t earliest = end;
        for (int i = 0; i < timer_count; i++) {
            struct timer *timer = &timers[i];
            if (timer->epoll != epoll) continue;
            if (timer->deadline <= shared->now && count < maximum) {
                events[count++] = (struct epoll_event){.events = EPOLLIN, .data = timer->data};
                timer->deadline = NEVER;
                timer->has_fired = true;
            } else if (timer->deadline < earliest) {
                earliest = timer->deadline;
            }
        }
        if (count || end <= shared->now) {
            for (long i = count - 1; i > 0; i--) {
                long other = (long)(random_number() % (uint64_t)(i + 1));
                struct epoll_event event = events[i];
                events[i] = events[other];
                events[other] = event;
            }
            return (int)count;
        }
        struct pollfd file = {.fd = epoll, .events = POLLIN};
        wait_for(NULL, earliest, &file, 1);
    }
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
    if (takes_turns && timeout) {
        int64_t end = timeout < 0 ? NEVER : shared->now + timeout * 1000000LL;
        while (!have_events(files, (int)count))
            if (!wait_for(NULL, end, files, (int)count)) return 0;
        timeout = 0;
    }
    struct timespec time = {timeout / 1000, timeout % 1000 * 1000000};
    return result_of(KERNEL(SYS_ppoll, files, count, timeout < 0 ? NULL : &time, NULL));
}
