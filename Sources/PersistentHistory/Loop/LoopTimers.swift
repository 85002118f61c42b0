/// The sleeping tasks, and when to wake them.
///
/// Few sleep at a time, most of them for long; so an ordered list does, the earliest last.
struct LoopTimers<Waiter: Sendable>: Sendable {
    private var lastKey: UInt64 = 0
    private var waiting: [(deadline: Int64, key: UInt64, waiter: Waiter)] = []

    /// In nanoseconds of the monotonic clock.
    var earliest: Int64? { waiting.last?.deadline }

    mutating func newKey() -> UInt64 {
        lastKey += 1
        return lastKey
    }

    mutating func add(_ waiter: Waiter, _ key: UInt64, at deadline: Int64) {
        // Behind all that are later, so that those of one time wake in the order in which they came.
        let place = waiting.partitioningIndex { $0.deadline <= deadline }
        waiting.insert((deadline, key, waiter), at: place)
    }

    mutating func remove(_ key: UInt64) -> Waiter? {
        guard let place = waiting.firstIndex(where: { $0.key == key }) else { return nil }
        return waiting.remove(at: place).waiter
    }

    /// In the order of their deadlines.
    mutating func takeDue(at now: Int64) -> [Waiter] {
        let first = waiting.partitioningIndex { $0.deadline <= now }
        guard first < waiting.endIndex else { return [] }
        defer { waiting.removeSubrange(first...) }
        return waiting[first...].reversed().map(\.waiter)
    }
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
