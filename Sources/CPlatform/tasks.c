#include "CPlatform.h"

#include <stdint.h>

#define SWIFT_CC __attribute__((swiftcall))

typedef SWIFT_CC void (*original)(void *job);

extern SWIFT_CC void (*swift_task_enqueueGlobal_hook)(void *job, original);

// The generic executor has no identity.
extern SWIFT_CC void swift_job_run(void *job, void *executor_identity, uintptr_t executor_implementation);

static void (*hand_over)(void *job);

static SWIFT_CC void enqueue_global(void *job, original ignored) {
    (void)ignored;
    hand_over(job);
}

void cplatform_hand_over_jobs(void (*enqueue)(void *job)) {
    hand_over = enqueue;
    swift_task_enqueueGlobal_hook = enqueue_global;
}

void cplatform_run_job(void *job) { swift_job_run(job, 0, 0); }
