internal import CPlatform
internal import Glibc

/// The sleeping tasks, and when to wake them: an ordered list, the earliest last.
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

/// When a task is to wake, and which of those of one time came first.
struct LoopTimerKey: Comparable, Sendable {
    let deadline: Int64
    let number: UInt64

    static func < (a: Self, b: Self) -> Bool { (a.deadline, a.number) < (b.deadline, b.number) }
}

extension Array {
    /// The first place whose element, and all behind it, are as asked.
    fileprivate func partitioningIndex(_ belongs: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = (low + high) / 2
            if belongs(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}

/// A handler that is called when its time is up, unless it is cancelled before.
package struct LoopTimer: Sendable {
    let loop: HistoryLoop
    let key: LoopTimerKey

    package func cancel() { loop.cancel(key) }
}

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

    /// The same in all processes; it stands still while the machine is suspended.
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
    /// Does blocking work in its turn, and waits for it no longer than some time.
    ///
    /// - Returns: Nil if it takes longer. The work goes on, and its result is not used.
    package func perform<T: Sendable>(
        within limit: Duration, _ body: @escaping @Sendable () throws -> T
    ) async throws -> T? {
        // What hangs is not waited for by more and more.
        if let time = busyTime, time >= limit { return nil }
        return try await firstAnswer(within: limit) { answer in
            perform { answer(Result { try body() }) }
        }
    }

    /// Waits until everything is done that it has been given.
    func turn() async {
        await withCheckedContinuation { continuation in perform { continuation.resume() } }
    }
}

/// Begins something that answers by a call, and waits for that no longer than some time.
///
/// A child task would be waited for to its end, however long it takes; this is not.
///
/// - Returns: Nil if it takes longer.
func firstAnswer<T: Sendable>(
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
