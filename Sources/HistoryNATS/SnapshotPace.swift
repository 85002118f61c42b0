/// How slowly a snapshot may come: while it is applied, the mirror is locked for other writers.
package enum SnapshotPace {
    package static let grace: Duration = .seconds(30)
    /// In bytes a second.
    package static let slowest = 64 << 10

    /// - Parameter waited: In which nothing else was done than waiting for it.
    package static func isEnough(_ bytes: Int, in waited: Duration) -> Bool {
        waited <= grace || Double(bytes) >= waited / .seconds(1) * Double(slowest)
    }
}
