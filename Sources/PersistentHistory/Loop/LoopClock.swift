internal import CLinux
internal import Glibc

/// Continuous time, which is waited for on the loop: `Task.sleep(for: pause, clock: .loop)`.
///
/// A pause of microseconds is one of microseconds, and nothing is left behind by one that is cancelled.
package struct LoopClock: Clock {
    package typealias Instant = ContinuousClock.Instant

    package init() {}

    package var now: Instant { .now }
    package var minimumResolution: Duration { .nanoseconds(1) }

    /// CLOCK_MONOTONIC, which service managers reckon with.
    package static var monotonicMicroseconds: UInt64 { UInt64(monotonicNanoseconds / 1000) }

    static var monotonicNanoseconds: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }

    /// - Throws: `CancellationError`; `SystemError` if the loop cannot be made.
    package func sleep(until deadline: Instant, tolerance: Duration? = nil) async throws {
        try await HistoryLoop.shared().sleep(for: now.duration(to: deadline))
    }
}

extension Clock where Self == LoopClock {
    package static var loop: LoopClock { LoopClock() }
}
