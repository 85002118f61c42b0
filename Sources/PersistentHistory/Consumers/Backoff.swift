/// Growing pauses for what heals itself: a lock, a full disk.
enum Backoff {
    /// 50 ms, doubled with each failure, at most 30 s.
    static func delay(afterFailures failures: Int) -> Duration {
        min(.milliseconds(50) * (1 << min(max(failures - 1, 0), 16)), .seconds(30))
    }
}
