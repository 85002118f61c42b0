internal import CPlatform
internal import Glibc

/// A job of the loop that delayed all others.
package struct LoopStall: Sendable, CustomStringConvertible {
    /// A job that takes longer is a stall: nothing on the loop may wait or work for long.
    package static let limit: Duration = .milliseconds(20)

    /// Where the job came from.
    package let place: LoopPlace
    package let duration: Duration
    /// How much of that time the thread had no processor; nil if not measured.
    let scheduling: ThreadTimes?

    package var description: String {
        let parts = scheduling.map {
            " (\($0.computed.milliseconds) ms of processor time, \($0.queued.milliseconds) ms without a processor, \(max(0, (duration - $0.computed - $0.queued).milliseconds)) ms of waiting)"
        }
        return "\(duration.milliseconds) ms in \(place)\(parts ?? "")"
    }
}

/// The place in the program that gave a job to the loop.
package struct LoopPlace: Sendable, CustomStringConvertible {
    let file: StaticString
    let line: UInt

    /// A part of a task. The runtime does not say which task.
    static let task = LoopPlace(file: "a task", line: 0)
    static let sleep = LoopPlace(file: "a task that slept", line: 0)

    package var description: String { line == 0 ? "\(file)" : "\(file):\(line)" }
}

/// Measures how long the loop's jobs take.
struct LoopStallDetector {
    /// When the current job began.
    private var start = LoopClock.monotonicNanoseconds
    private var times: ThreadTimes?
    private var use = ThreadUse.now
    private let file: Int32

    init() {
        // Reading it takes a microsecond in each turn, so it is done only where that does not matter.
        #if DEBUG
            file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)
        #else
            file = -1
        #endif
        times = ThreadTimes(reading: file)
    }

    /// Notes that the loop was asleep until now.
    mutating func wokeUp() {
        start = LoopClock.monotonicNanoseconds
        use = .now
        times = ThreadTimes(reading: file)
    }

    /// Notes that a job has ended and the next one begins.
    ///
    /// - Returns: The job's stall, if it was one.
    mutating func ended(_ place: LoopPlace) -> LoopStall? {
        let end = LoopClock.monotonicNanoseconds
        defer { start = end }
        guard .nanoseconds(end - start) > LoopStall.limit else { return nil }
        let (now, useNow) = (ThreadTimes(reading: file), ThreadUse.now)
        defer { (times, use) = (now, useNow) }
        let scheduling = now.flatMap { now in times.map { now - $0 } }
        let duration = Duration.nanoseconds(end - start)
        guard (useNow - use).isOfJob else { return nil }
        // On a busy machine a thread waits for a processor, which is not the job's fault.
        if let scheduling, duration - scheduling.queued <= LoopStall.limit { return nil }
        return LoopStall(place: place, duration: duration, scheduling: scheduling)
    }
}

/// What a thread did itself. In the rest of the time its processor was used by the host or another
/// program.
struct ThreadUse: Sendable {
    let computed: Duration
    /// How often it gave up its processor to wait for a lock, a file or a page of the program.
    let waits: Int

    /// Source: getrusage(2), with RUSAGE_THREAD.
    static var now: ThreadUse {
        var usage = rusage()
        guard getrusage(__rusage_who_t(1), &usage) == 0 else {
            return ThreadUse(computed: .zero, waits: 0)
        }
        let seconds = usage.ru_utime.tv_sec + usage.ru_stime.tv_sec
        let microseconds = usage.ru_utime.tv_usec + usage.ru_stime.tv_usec
        return ThreadUse(
            computed: .microseconds(seconds * 1_000_000 + microseconds), waits: usage.ru_nvcsw)
    }

    static func - (left: ThreadUse, right: ThreadUse) -> ThreadUse {
        ThreadUse(computed: left.computed - right.computed, waits: left.waits - right.waits)
    }

    /// Whether a job that took too long has waited or computed itself.
    var isOfJob: Bool { waits > 0 || computed > LoopStall.limit }
}

/// How long a thread has computed, and how long it was ready without a processor.
///
/// Source: Documentation/scheduler/sched-stats.rst of the kernel.
struct ThreadTimes: Sendable {
    let computed: Duration
    let queued: Duration

    static func - (left: ThreadTimes, right: ThreadTimes) -> ThreadTimes {
        ThreadTimes(computed: left.computed - right.computed, queued: left.queued - right.queued)
    }

    private init(computed: Duration, queued: Duration) { (self.computed, self.queued) = (computed, queued) }

    /// - Parameter file: /proc/thread-self/schedstat, opened by the thread.
    /// - Returns: Nil if the kernel does not provide it.
    fileprivate init?(reading file: Int32) {
        guard file >= 0 else { return nil }
        var buffer = [UInt8](repeating: 0, count: 64)
        let count = pread(file, &buffer, buffer.count, 0)
        guard count > 0 else { return nil }
        let numbers = buffer[..<count].split { $0 <= 0x20 }.map { Int64(String(decoding: $0, as: UTF8.self)) }
        guard numbers.count >= 2, let computed = numbers[0], let queued = numbers[1] else { return nil }
        (self.computed, self.queued) = (.nanoseconds(computed), .nanoseconds(queued))
    }
}
