// What Swift's own module of the C library leaves out: what an event loop is made of, and how a program
// finds its own segments in memory.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <link.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
