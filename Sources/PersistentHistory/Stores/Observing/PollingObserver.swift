/// Observes a store by the clock, for file systems without inotify.
///
/// While the store exists, each tick signals `changed` and `sideFilesInDoubt`. SQLite then says whether
/// anything is new: times and sizes of files prove nothing, since a `-wal` is overwritten in place and a
/// network file system caches both.
package struct PollingObserver: Sendable {
    private let path: String
    private let interval: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameters:
    ///   - path: The store, which need not exist yet.
    ///   - interval: The time from the end of one look to the next.
    package init(
        of path: String, every interval: Duration,
        sleep: @escaping @Sendable (Duration) async throws -> Void = {
            try await Task.sleep(for: $0, clock: .loop)
        }
    ) {
        self.path = path
        self.interval = interval
        self.sleep = sleep
    }

    /// Calls a body with each signal, until the task is cancelled.
    func run(_ body: (StoreSignal) -> Void) async {
        var known: FileID?
        while !Task.isCancelled {
            let found = FileID(of: path)
            body(.difference(from: known, to: found).union(found == nil ? [] : [.changed, .sideFilesInDoubt]))
            known = found
            // A sleep throws only when the task is cancelled.
            do { try await sleep(interval) } catch { return }
        }
    }
}

extension StoreSignal {
    /// The signal for a path that led to `old` and now leads to `new`.
    static func difference<ID: Equatable>(from old: ID?, to new: ID?) -> StoreSignal {
        switch (old, new) {
        case (nil, nil): []
        case (nil, .some): .appeared
        case (.some, nil): .disappeared
        case (.some(let old), .some(let new)): old == new ? [] : .replaced
        }
    }
}
