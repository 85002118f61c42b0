/// Growing pauses for errors that pass by themselves: a lock, a full disk.
package enum Backoff {
    /// The first pause, doubled with each further failure, up to the longest.
    package static func delay(
        afterFailures failures: Int, first: Duration = .milliseconds(50), longest: Duration = .seconds(30)
    ) -> Duration {
        min(first * (1 << min(max(failures - 1, 0), 16)), longest)
    }
}
