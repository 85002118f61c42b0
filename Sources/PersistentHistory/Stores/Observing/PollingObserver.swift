/// Observes a store on a file system without inotify, by the clock.
///
/// Each tick is a `changed` and a `sideFilesInDoubt` while the store is there: whether there is anything new is asked of SQLite,
/// for times and sizes of files are no proof (a `-wal` is overwritten in place, a network file system
/// caches both).
package struct PollingObserver: Sendable {
    private let path: String
    private let interval: Duration
    private let sleep: @Sendable (Duration) async throws -> Void

    /// - Parameters:
    ///   - path: The store, which need not exist yet.
    ///   - interval: From the end of one look to the next.
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
            // The only thing that a sleep can throw is the cancellation.
            do { try await sleep(interval) } catch { return }
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
