// The world's ends of the daemon's sockets.
#include "internal.h"

#include <stdio.h>
#include <string.h>
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

static const char foreign[] = "foreign";

// Who connects from an address of its own counts as another user's.
int csimulation_connect(const char *path, bool is_foreign) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    static int number;
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s-%d-%d", foreign, csimulation_process(), ++number);
    struct sockaddr_un target = {.sun_family = AF_UNIX};
    snprintf(target.sun_path, sizeof target.sun_path, "%s", path);
    int descriptor = (int)KERNEL(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0);
    if (descriptor < 0) return -1;
    if (is_foreign) KERNEL(SYS_bind, descriptor, &address, sizeof address, 0);
    if (KERNEL(SYS_connect, descriptor, &target, sizeof target, 0) == 0) return descriptor;
    KERNEL(SYS_close, descriptor, 0, 0, 0);
    return -1;
}

bool is_foreign(int descriptor) {
    struct sockaddr_un address = {0};
    socklen_t length = sizeof address;
    if (KERNEL(SYS_getpeername, descriptor, &address, &length, 0) < 0) return false;
    return strncmp(address.sun_path + 1, foreign, sizeof foreign - 1) == 0;
}

int csimulation_bind(const char *path) {
    KERNEL(SYS_unlink, path, 0, 0, 0);
    return open_socket(path, SOCK_DGRAM, SYS_bind);
}

bool csimulation_await_input(int descriptor, int64_t nanoseconds) {
    struct pollfd file = {.fd = descriptor, .events = POLLIN};
    if (have_events(&file, 1)) return true;
    return wait_for(NULL, nanoseconds < 0 ? NEVER : shared->now + nanoseconds, &file, 1);
}
