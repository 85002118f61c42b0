/// Growing pauses after temporary errors, such as a lock or a full disk.
package enum Backoff {
    /// The first pause, doubled with each further failure, up to the longest.
    package static func delay(
        afterFailures failures: Int, first: Duration = .milliseconds(50), longest: Duration = .seconds(30)
    ) -> Duration {
        min(first * (1 << min(max(failures - 1, 0), 16)), longest)
    }
}

/// Growing pauses between attempts, until one succeeds; and whether the failures last.
package struct GrowingPause: Sendable {
    private let first: Duration
    private let longest: Duration
    /// How many failures are not followed by a pause.
    private let atOnce: Int
    /// How many attempts in a row have failed.
    package private(set) var failures = 0

    /// A lock is held now and then: failures are reported once so many came in a row.
    private static let lasting = 5

    package init(first: Duration = .milliseconds(50), longest: Duration = .seconds(30), atOnce: Int = 0) {
        (self.first, self.longest, self.atOnce) = (first, longest, atOnce)
    }

    /// How long to wait after one more failure.
    package mutating func next() -> Duration {
        failures += 1
        if failures <= atOnce { return .zero }
        return Backoff.delay(afterFailures: failures - atOnce, first: first, longest: longest)
    }

    package mutating func reset() { failures = 0 }

    package var isLasting: Bool { failures >= Self.lasting }
    /// Whether the last failure is the one to be reported.
    package var hasBegunToLast: Bool { failures == Self.lasting }
}
