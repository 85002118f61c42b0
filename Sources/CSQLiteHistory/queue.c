#include "CSQLiteHistory.h"

/* libdispatch's functions. Its headers are not needed for them, and are not where a C compiler looks. */
void *dispatch_get_current_queue(void);
void dispatch_retain(void *object);
void dispatch_release(void *object);

void *history_hold_queue(void) {
    void *queue = dispatch_get_current_queue();
    dispatch_retain(queue);
    return queue;
}

void history_release_queue(void *queue) { dispatch_release(queue); }
