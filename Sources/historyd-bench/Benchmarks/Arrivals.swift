/// When an observer received the commits of a writer that did not wait for it. A stamp stands for all commits up to
/// its key: an observer that received several at once stamps once.
struct Arrivals {
    /// The commit times, in the order of the keys.
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
