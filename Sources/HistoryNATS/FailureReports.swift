/// Limits the reports of failed sessions: two publishers of one stream, or a flapping server, would fill the
/// journal.
///
/// A kind of failure is reported at once, and again after pauses that grow to one hour. In between, it is
/// counted.
package struct FailureReports: Sendable {
    private struct Known {
        var next: ContinuousClock.Instant
        var pause: Duration
        var unreported = 0
    }

    private static let first: Duration = .seconds(60)
    private static let longest: Duration = .seconds(3600)
    /// No more kinds are remembered.
    private static let most = 32

    private var known: [String: Known] = [:]
    /// Whether the last failure was reported: then its end is reported, too.
    package private(set) var wasReported = false

    package init() {}

    /// - Returns: How many failures of this kind were not reported since the last report; nil if this one is
    ///   not to be reported either.
    package mutating func take(_ text: String, at now: ContinuousClock.Instant) -> Int? {
        // Failures that differ only in numbers are of the same kind.
        let kind = text.split(whereSeparator: \.isNumber).joined(separator: "#")
        wasReported = false
        guard var entry = known[kind], now - entry.next < Self.longest else {
            if known.count >= Self.most { known = [:] }
            known[kind] = Known(next: now + Self.first, pause: Self.first)
            wasReported = true
            return 0
        }
        guard now >= entry.next else {
            entry.unreported += 1
            known[kind] = entry
            return nil
        }
        entry.pause = min(entry.pause * 2, Self.longest)
        let count = entry.unreported
        known[kind] = Known(next: now + entry.pause, pause: entry.pause)
        wasReported = true
        return count
    }
}
