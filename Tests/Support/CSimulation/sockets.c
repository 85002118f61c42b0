// The world's ends of the daemon's sockets.
#include "internal.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

static int open_socket(const char *path, int type, long call) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int descriptor = (int)KERNEL(SYS_socket, AF_UNIX, type | SOCK_CLOEXEC, 0, 0);
    if (descriptor < 0 || KERNEL(call, descriptor, &address, sizeof address, 0) == 0) return descriptor;
    KERNEL(SYS_close, descriptor, 0, 0, 0);
    return -1;
}

int csimulation_connect(const char *path) { return open_socket(path, SOCK_STREAM, SYS_connect); }

int csimulation_bind(const char *path) {
    KERNEL(SYS_unlink, path, 0, 0, 0);
    return open_socket(path, SOCK_DGRAM, SYS_bind);
}

bool csimulation_await_input(int descriptor, int64_t nanoseconds) {
    struct pollfd file = {.fd = descriptor, .events = POLLIN};
    if (have_events(&file, 1)) return true;
    return wait_for(NULL, nanoseconds < 0 ? NEVER : shared->now + nanoseconds, &file, 1);
}
