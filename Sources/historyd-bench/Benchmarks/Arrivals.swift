/// When an observer had the commits of a writer that did not wait for it. A stamp tells of all commits up to its
/// key, and an observer that was given several at once stamps once for all of them.
struct Arrivals {
    /// When each was committed, the one with the first key first.
    private let committed: [Int64]
    private let firstKey: Int64
    private(set) var latencies: [Double] = []

    /// - Parameter committed: by `Clock`, of commits with keys that follow each other.
    init(firstKey: Int64, committed: [Int64]) {
        self.firstKey = firstKey
        self.committed = committed
        latencies.reserveCapacity(committed.count)
    }

    var isComplete: Bool { latencies.count == committed.count }

    mutating func add(_ stamp: Stamp) {
        while !isComplete, firstKey + Int64(latencies.count) <= stamp.object {
            latencies.append(Double(stamp.time - committed[latencies.count]) / 1000)
        }
    }
}
