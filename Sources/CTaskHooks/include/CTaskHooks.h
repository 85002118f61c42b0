#ifndef CTASKHOOKS_H
#define CTASKHOOKS_H

// Where Swift's runtime lets a program run its tasks itself, instead of leaving them to libdispatch's
// threads: a hook that the runtime exports for this purpose (swift/include/swift/Runtime/Concurrency.h).
// A job is a part of a task, up to its next suspension.

// From now on all jobs of the process that name no executor are handed over.
void ctaskhooks_install(void (*enqueue)(void *job));

// Runs a job that was handed over, on this thread.
void ctaskhooks_run(void *job);

#endif
