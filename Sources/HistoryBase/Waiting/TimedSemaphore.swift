internal import CPlatform
internal import Glibc

/// A semaphore with a timeout. `DispatchSemaphore` measures its timeout by the system's clock: if that is
/// set back by an hour, a wait takes an hour longer.
package final class TimedSemaphore: Sendable {
    private nonisolated(unsafe) let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)

    package init() { sem_init(semaphore, 0, 0) }

    deinit {
        sem_destroy(semaphore)
        semaphore.deallocate()
    }

    package func signal() { sem_post(semaphore) }

    /// Blocks the thread until the semaphore is signaled.
    ///
    /// - Parameter limit: Nil for no limit.
    /// - Returns: Whether it was signaled in time.
    @discardableResult
    package func wait(atMost limit: Duration? = nil) -> Bool {
        var end = timespec()
        if let limit = limit?.components {
            clock_gettime(CLOCK_MONOTONIC, &end)
            let nanoseconds = end.tv_nsec + Int(limit.attoseconds / 1_000_000_000)
            end.tv_sec += Int(min(max(0, limit.seconds), 1 << 40)) + nanoseconds / 1_000_000_000
            end.tv_nsec = nanoseconds % 1_000_000_000
        }
        while (limit == nil ? sem_wait(semaphore) : sem_clockwait(semaphore, CLOCK_MONOTONIC, &end)) != 0 {
            if errno != EINTR { return false }
        }
        return true
    }
}
