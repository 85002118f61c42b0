/// Growing pauses for errors that pass by themselves: a lock, a full disk.
package enum Backoff {
    /// 50 ms, doubled with each failure, at most 30 s.
    package static func delay(afterFailures failures: Int) -> Duration {
        min(.milliseconds(50) * (1 << min(max(failures - 1, 0), 16)), .seconds(30))
    }
}
