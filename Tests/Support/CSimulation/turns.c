// Threads that take turns, and time that passes only while all of them wait.
#include "internal.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { maximum_threads = 512 };

enum state { unused, ready, waits, ended };

struct thread {
    atomic_int has_turn;
    enum state state;
    const void *channel;
    int64_t deadline;
    struct pollfd *files;
    int count;
    bool was_woken;
    bool is_world;
    // The order of waiting.
    uint64_t since;
    void *(*start)(void *);
    void *argument;
    void *result;
    pthread_t id;
};

struct csimulation_shared *shared;
bool takes_turns;

static struct thread threads[maximum_threads];
static int thread_count;
static __thread struct thread *self;
static int switches_of_256;
static int64_t end_of_time;
static uint64_t killed_at;
static bool is_spared;
static uint64_t waits_so_far;

bool is_simulated(void) { return takes_turns && self && !self->is_world; }
bool is_world(void) { return self && self->is_world; }

void *next_function(const char *name) {
    void *function = dlsym(RTLD_NEXT, name);
    if (!function) abort();
    return function;
}

uint64_t random_number(void) {
    uint64_t mixed = shared->random += 0x9E3779B97F4A7C15;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
    return mixed ^ (mixed >> 31);
}

bool is_refused(int chance) { return chance && is_simulated() && (int)(random_number() & 255) < chance; }

static void await_turn(void) {
    while (!atomic_load(&self->has_turn)) KERNEL(SYS_futex, &self->has_turn, FUTEX_WAIT_PRIVATE, 0, 0);
    atomic_store(&self->has_turn, 0);
}

static void begin_turn(struct thread *thread) {
    atomic_store(&thread->has_turn, 1);
    KERNEL(SYS_futex, &thread->has_turn, FUTEX_WAKE_PRIVATE, 1, 0);
}

bool have_events(struct pollfd *files, int count) {
    struct timespec none = {0};
    return KERNEL(SYS_ppoll, files, count, &none, NULL) > 0;
}

static bool can_run(struct thread *thread) {
    if (thread->state == waits) {
        bool is_due = thread->deadline <= shared->now;
        if (!is_due && thread->count
            && !have_events(thread->files, thread->count)) return false;
        if (!is_due && !thread->count) return false;
        thread->was_woken = !is_due;
        thread->state = ready;
    }
    return thread->state == ready;
}

static struct thread *next_thread(void) {
    struct thread *able[maximum_threads];
    while (true) {
        int count = 0;
        int64_t earliest = NEVER;
        for (int i = 0; i < thread_count; i++) {
            if (can_run(&threads[i])) able[count++] = &threads[i];
            else if (threads[i].state == waits && threads[i].deadline < earliest) earliest = threads[i].deadline;
        }
        if (count) return able[random_number() % (uint64_t)count];
        if (earliest == NEVER) csimulation_exit(csimulation_stuck);
        if (earliest > end_of_time) csimulation_exit(csimulation_endless);
        shared->now = earliest;
    }
}

static void take_turns(void) {
    struct thread *next = next_thread();
    if (next == self) return;
    begin_turn(next);
    await_turn();
}

void yield_turn(void) {
    shared->now += 1000;
    take_turns();
}

void point(void) {
    if (!is_simulated()) return;
    int saved = errno;
    shared->now += 500;
    shared->points++;
    if (killed_at && shared->points >= killed_at && !is_spared) csimulation_kill();
    if (shared->now > end_of_time) csimulation_exit(csimulation_endless);
    if ((int)(random_number() & 255) < switches_of_256) take_turns();
    errno = saved;
}

// How long the loop has waited for other threads since it last asked for events.
static int64_t stalled;

void asked_for_events(void) {
    if (self == threads) stalled = 0;
}

static void note_wait(int64_t waited) {
    stalled += waited;
    if (stalled <= shared->longest_stall) return;
    shared->longest_stall = stalled;
    const char *limit = getenv("SIMULATION_STALLS");
    if (limit && stalled >= atoll(limit) * 1000000) abort();
}

bool wait_for(const void *channel, int64_t deadline, struct pollfd *files, int count) {
    int saved = errno;
    int64_t began = shared->now;
    *self = (struct thread){
        .state = waits, .channel = channel, .deadline = deadline, .files = files, .count = count,
        .is_world = self->is_world, .since = ++waits_so_far, .start = self->start, .argument = self->argument,
        .id = self->id};
    take_turns();
    self->channel = NULL;
    self->count = 0;
    if (self == threads && !count) note_wait(shared->now - began);
    errno = saved;
    return self->was_woken;
}

int wake(const void *channel, int count) {
    int woken = 0;
    while (woken < count) {
        struct thread *first = NULL;
        for (int i = 0; i < thread_count; i++) {
            struct thread *thread = &threads[i];
            if (thread->state == waits && thread->channel == channel && (!first || thread->since < first->since))
                first = thread;
        }
        if (!first) break;
        first->was_woken = true;
        first->state = ready;
        first->channel = NULL;
        woken++;
    }
    return woken;
}

void hasten(int epoll, int64_t deadline) {
    for (int i = 0; i < thread_count; i++)
        if (threads[i].state == waits && threads[i].count && threads[i].files->fd == epoll
            && deadline < threads[i].deadline) threads[i].deadline = deadline;
}

// Threads

static struct thread *add_thread(void) {
    if (thread_count == maximum_threads) abort();
    struct thread *thread = &threads[thread_count++];
    thread->state = ready;
    return thread;
}

// Its memory is kept: what a thread runs at its end would have no turn.
__attribute__((noreturn)) static void end_thread(void *result) {
    self->result = result;
    self->state = ended;
    wake(self, maximum_threads);
    begin_turn(next_thread());
    while (true) KERNEL(SYS_ppoll, NULL, 0, NULL, NULL);
}

static void *run_thread(void *argument) {
    self = argument;
    await_turn();
    end_thread(self->start(self->argument));
}

static int refused_threads;

void csimulation_refuse_threads(int chance) { refused_threads = chance; }

int pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    if (!takes_turns) return NEXT(pthread_create)(id, attributes, start, argument);
    if (is_refused(refused_threads)) return EAGAIN;
    struct thread *thread = add_thread();
    thread->start = start;
    thread->argument = argument;
    int error = NEXT(pthread_create)(id, attributes, run_thread, thread);
    thread->id = *id;
    if (error) thread->state = ended;
    point();
    return error;
}

int pthread_join(pthread_t id, void **result) {
    if (!takes_turns) return NEXT(pthread_join)(id, result);
    for (int i = 0; i < thread_count; i++) {
        struct thread *thread = &threads[i];
        if (!thread->start || !pthread_equal(thread->id, id)) continue;
        while (thread->state != ended) wait_for(thread, NEVER, NULL, 0);
        if (result) *result = thread->result;
        return 0;
    }
    return ESRCH;
}

void pthread_exit(void *result) {
    if (takes_turns && self) end_thread(result);
    NEXT(pthread_exit)(result);
    abort();
}

// Lives

void csimulation_take_clock(struct csimulation_shared *page) { shared = page; }

void csimulation_take_threads(int switches, int64_t end) {
    switches_of_256 = switches;
    end_of_time = end;
    self = add_thread();
    takes_turns = true;
}

void csimulation_be_world(void) { self->is_world = true; }

void csimulation_sleep(int64_t nanoseconds) {
    // Before the daemon is there, nothing else is either.
    if (self) wait_for(NULL, shared->now + nanoseconds, NULL, 0);
}

int64_t csimulation_now(void) { return shared ? shared->now : 0; }

void csimulation_step_clock(int64_t nanoseconds) { shared->clock_step += nanoseconds; }

void csimulation_suspend(int64_t nanoseconds) {
    shared->now += nanoseconds;
    shared->suspended += nanoseconds;
}

int64_t csimulation_suspended(void) { return shared->suspended; }

int64_t csimulation_position(void) { return shared->position; }

void csimulation_take_step(void) { shared->position++; }

uint64_t csimulation_random(void) { return random_number(); }

void csimulation_kill_after(uint64_t points) { killed_at = points ? shared->points + points : 0; }

void csimulation_spare(bool spares) { is_spared = spares; }

void csimulation_kill(void) { csimulation_exit(csimulation_killed); }
