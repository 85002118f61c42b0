// What an event loop is made of and what access control lists are kept in; Swift's own module of the C library
// leaves both out.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/xattr.h>
