internal import CPlatform
internal import Glibc

/// The sleeping tasks and their deadlines: an ordered list with the earliest last.
struct LoopTimers<Waiter: Sendable>: Sendable {
    private var lastNumber: UInt64 = 0
    private var waiting: [(key: LoopTimerKey, waiter: Waiter)] = []

    /// In nanoseconds of the monotonic clock.
    var earliest: Int64? { waiting.last?.key.deadline }

    mutating func newKey(at deadline: Int64) -> LoopTimerKey {
        lastNumber += 1
        return LoopTimerKey(deadline: deadline, number: lastNumber)
    }

    mutating func add(_ waiter: Waiter, _ key: LoopTimerKey) {
        waiting.insert((key, waiter), at: waiting.partitioningIndex { $0.key < key })
    }

    mutating func remove(_ key: LoopTimerKey) -> Waiter? {
        let place = waiting.partitioningIndex { $0.key <= key }
        guard place < waiting.endIndex, waiting[place].key == key else { return nil }
        return waiting.remove(at: place).waiter
    }

    /// In the order of their deadlines.
    mutating func takeDue(at now: Int64) -> [Waiter] {
        let first = waiting.partitioningIndex { $0.key.deadline <= now }
        guard first < waiting.endIndex else { return [] }
        defer { waiting.removeSubrange(first...) }
        return waiting[first...].reversed().map(\.waiter)
    }
}

/// A deadline, with a number that keeps the order of equal ones.
struct LoopTimerKey: Comparable, Sendable {
    let deadline: Int64
    let number: UInt64

    static func < (a: Self, b: Self) -> Bool { (a.deadline, a.number) < (b.deadline, b.number) }
}

extension Array {
    /// The index of the first element that meets the condition; all behind it meet it, too.
    fileprivate func partitioningIndex(_ belongs: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if belongs(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// A handler that is called at its deadline, unless it is cancelled first.
package struct LoopTimer: Sendable {
    let loop: HistoryLoop
    let key: LoopTimerKey

    package func cancel() { loop.cancel(key) }
}

/// Continuous time, waited for on the loop: `Task.sleep(for: pause, clock: .loop)`.
///
/// It is accurate to microseconds, and a cancelled pause leaves nothing behind.
package struct LoopClock: Clock {
    package typealias Instant = ContinuousClock.Instant

    package init() {}

    package var now: Instant { .now }
    package var minimumResolution: Duration { .nanoseconds(1) }

    /// CLOCK_MONOTONIC, which service managers use.
    package static var monotonicMicroseconds: UInt64 { UInt64(monotonicNanoseconds / 1000) }

    /// The same in all processes. It stops while the machine is suspended.
    package static var monotonicNanoseconds: Int64 {
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

extension SerialThreadExecutor {
    /// Runs blocking work in order, and waits for it for a limited time.
    ///
    /// - Returns: Nil if it takes longer. The work continues, and its result is discarded.
    package func perform<T: Sendable>(
        within limit: Duration, _ body: @escaping @Sendable () throws -> T
    ) async throws -> T? {
        // If the executor hangs, callers do not line up behind it.
        if let time = busyTime, time >= limit { return nil }
        return try await firstAnswer(within: limit) { answer in
            perform { answer(Result { try body() }) }
        }
    }

    /// Waits until all work submitted so far is done.
    package func turn() async {
        await withCheckedContinuation { continuation in perform { continuation.resume() } }
    }
}

/// Starts something that answers through a callback, and waits for that for a limited time.
///
/// Unlike a child task, it is not awaited to its end.
///
/// - Returns: Nil if it takes longer.
package func firstAnswer<T: Sendable>(
    within limit: Duration, _ begin: (@escaping @Sendable (Result<T, any Error>) -> Void) -> Void
) async throws -> T? {
    let loop = try HistoryLoop.shared()
    return try await withCheckedThrowingContinuation { continuation in
        let waiting = Locked<CheckedContinuation<T?, any Error>?>(continuation)
        let timer = loop.schedule(after: limit) { waiting.withLock { $0.take() }?.resume(returning: nil) }
        begin { result in
            timer.cancel()
            waiting.withLock { $0.take() }?.resume(with: result.map { $0 })
        }
    }
}
