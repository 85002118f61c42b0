import Foundation
import TestSupport

/// The system's clock as the programs of a workbench see it: it can be set, while the machine's own stays as it is.
///
/// A library stands in for what shows that clock, and for the waits that are limited by it.
struct SteppedClock {
    let environment: [String: String]
    private let file: FileHandle

    private static let source = #"""
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <fcntl.h>
        #include <pthread.h>
        #include <semaphore.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/time.h>
        #include <time.h>
        #include <unistd.h>

        #define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

        // By how many seconds the clock was set.
        static volatile const long *step;

        __attribute__((constructor)) static void begin(void) {
            int file = open(getenv("CLOCK_STEP"), O_RDONLY | O_CLOEXEC);
            void *page = mmap(NULL, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
            if (page == MAP_FAILED) abort();
            step = page;
            close(file);
        }

        int clock_gettime(clockid_t clock, struct timespec *time) {
            REAL(clock_gettime);
            int result = real(clock, time);
            if (step && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += *step;
            return result;
        }
        int gettimeofday(struct timeval *time, void *zone) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            *time = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
            return 0;
        }
        time_t time(time_t *time) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            if (time) *time = now.tv_sec;
            return now.tv_sec;
        }

        static int isOver(const struct timespec *end) {
            struct timespec now;
            clock_gettime(CLOCK_REALTIME, &now);
            return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
        }
        static struct timespec soon(void) {
            struct timespec end;
            clock_gettime(CLOCK_MONOTONIC, &end);
            end.tv_nsec += 10000000;
            if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
            return end;
        }
        int sem_timedwait(sem_t *semaphore, const struct timespec *end) {
            for (;;) {
                struct timespec look = soon();
                if (sem_clockwait(semaphore, CLOCK_MONOTONIC, &look) == 0) return 0;
                if (errno != ETIMEDOUT) return -1;
                if (isOver(end)) return errno = ETIMEDOUT, -1;
            }
        }
        int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *end) {
            // Of a condition with another clock, which counts from the machine's start.
            if (end->tv_sec < 1000000000)
                return pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, end);
            for (;;) {
                struct timespec look = soon();
                int result = pthread_cond_clockwait(condition, mutex, CLOCK_MONOTONIC, &look);
                if (result != ETIMEDOUT) return result;
                if (isOver(end)) return ETIMEDOUT;
            }
        }
        """#

    init(_ bench: Workbench) async throws {
        let path = bench.path("clock.step")
        try Data(count: 8).write(to: URL(filePath: path))
        file = try FileHandle(forUpdating: URL(filePath: path))
        environment = try await PreloadedLibrary.environment("clock", Self.source, bench)
            .merging(["CLOCK_STEP": path]) { $1 }
    }

    /// Sets the clock, so many seconds from what it really is.
    func set(_ seconds: Int) throws {
        try file.seek(toOffset: 0)
        try withUnsafeBytes(of: seconds) { try file.write(contentsOf: Data($0)) }
    }
}
