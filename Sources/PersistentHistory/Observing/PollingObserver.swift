internal import Glibc

/// Observes stores on a file system without inotify, by the clock.
///
/// Each tick is a `changed` while the store is there: whether there is anything new is asked of SQLite,
/// for times and sizes of files are no proof (a `-wal` is overwritten in place, a network file system
/// caches both).
package struct PollingObserver: Sendable {
    private let interval: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameter interval: from the end of one look to the next.
    package init(every interval: Duration) {
        self.init(every: interval) { try await Task.sleep(for: $0, clock: .loop) }
    }

    init(every interval: Duration, sleep: @escaping @Sendable (Duration) async throws -> Void) {
        self.interval = interval
        self.sleep = sleep
    }

    /// The signals of the store at `path`, which need not exist yet.
    package func watch(_ path: String) -> StoreSignals {
        StoreSignals(polling: self, path: path)
    }

    func iterator(of path: String) -> Iterator {
        Iterator(path: path, interval: interval, sleep: sleep)
    }

    struct Iterator {
        let path: String
        let interval: Duration
        let sleep: @Sendable (Duration) async throws -> Void
        private var known: FileID?
        private var isFirst = true

        init(path: String, interval: Duration, sleep: @escaping @Sendable (Duration) async throws -> Void) {
            self.path = path
            self.interval = interval
            self.sleep = sleep
        }

        mutating func next(isolation actor: isolated (any Actor)?) async -> StoreSignal? {
            while !Task.isCancelled {
                if !isFirst {
                    // The only thing a sleep can throw is the cancellation, which ends the sequence.
                    do { try await sleep(interval) } catch { return nil }
                }
                isFirst = false
                let signal = look()
                if !signal.isEmpty { return signal }
            }
            return nil
        }

        private mutating func look() -> StoreSignal {
            let found = FileID(of: path)
            defer { known = found }
            return .difference(from: known, to: found).union(found == nil ? [] : .changed)
        }
    }
}

extension StoreSignal {
    /// What it means that a path led to `old` and now leads to `new`.
    static func difference<ID: Equatable>(from old: ID?, to new: ID?) -> StoreSignal {
        switch (old, new) {
        case (nil, nil): []
        case (nil, .some): .appeared
        case (.some, nil): .disappeared
        case (.some(let old), .some(let new)): old == new ? [] : .replaced
        }
    }
}
