#ifndef CSIMULATION_INTERNAL_H
#define CSIMULATION_INTERNAL_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "CSimulation.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NEVER INT64_MAX
// Of the clock of the wall: 2026-01-01.
#define BEGINNING (1767225600 * 1000000000LL)

// A system call that bypasses all replacements defined here.
long kernel(long number, long a, long b, long c, long d, long e, long f);
#define KERNEL(number, a, b, c, d) kernel(number, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

// The next definition of a function, which a replacement hides.
#define NEXT(name) ((__typeof__(&name))next_function(#name))
void *next_function(const char *name);

enum { most_files = 1 << 16 };

// What processes share, with the times at which files were last written.
struct shared_page {
    struct csimulation_shared shared;
    struct file_time { uint64_t inode; int64_t time; } times[most_files];
};

extern struct csimulation_shared *shared;
// Whether this process's threads take turns.
extern bool takes_turns;
// Whether the calling thread is simulated: it waits and fails like the program's.
bool is_simulated(void);
bool is_world(void);
// Whether the socket is connected to one of another user.
bool is_foreign(int descriptor);

uint64_t random_number(void);
// Whether the machine refuses the calling thread something.
bool is_refused(int chance);
// Why something is refused now that needs a descriptor, or the kernel's memory alone; 0 if it is not.
int lack(void);
int lack_of_memory(void);

// A point at which another thread may run, the process may be killed, and a little time passes.
void point(void);
// Gives another thread a turn, if one can run.
void yield_turn(void);
// Waits until the channel is woken, the deadline, or events. False at the deadline.
bool wait_for(const void *channel, int64_t deadline, struct pollfd *files, int count);
bool have_events(struct pollfd *files, int count);
int wake(const void *channel, int count);
// Called when a thread that waits for events has finished its work.
void asked_for_events(void);
// Limits the deadlines of threads that wait for a descriptor's events.
void hasten(int epoll, int64_t deadline);

// Waits if a rule says so. Returns an error number, or 0.
int trouble_with(int descriptor, int operation);
int trouble_at(const char *path, int operation);
void was_synced(int descriptor);
void was_written(int descriptor);

#endif
