/// Delivers the newest token of a store after each commit.
///
/// ```swift
/// let observer = try StoreObserver()
/// async let _ = observer.run()
/// for try await token in try observer.remoteChanges(of: path) { … }
/// ```
///
/// Commits that happen while no iterator waits count as one element. Commits of all processes count,
/// including this one. The store may be created, removed and replaced meanwhile. While it is missing or
/// not tracked, there are no elements. Each iterator starts over, so use only one.
public struct RemoteChanges: AsyncSequence, Sendable {
    /// The newest token.
    public typealias Element = HistoryToken

    let signals: StoreSignals
    let path: String
    let last: HistoryToken?

    /// Starts to wait for commits.
    public func makeAsyncIterator() -> Iterator {
        Iterator(signals: signals, look: StoreLook(path: path, last: last))
    }

    /// Waits for commits.
    public struct Iterator: AsyncIteratorProtocol {
        fileprivate let signals: StoreSignals
        fileprivate let look: StoreLook
        fileprivate var rule = VisibilityRule()
        fileprivate var step = VisibilityRule.Step.idle

        /// The newest token, once there is a new commit; nil when the watching has ended.
        public mutating func next() async throws -> HistoryToken? { try await next(isolation: #isolation) }

        /// Waits for a commit.
        ///
        /// - Returns: Nil when the observer has ended, or the task is cancelled.
        /// - Throws: `ObserverError` if the store can no longer be watched, `HistoryError` if it cannot be read.
        public mutating func next(isolation actor: isolated (any Actor)?) async throws -> HistoryToken? {
            while true {
                switch step {
                case .idle:
                    guard let signal = try await signals.next(isolation: actor) else { return nil }
                    try look.handle(signal)
                    step = rule.woke()
                case .ask: step = rule.asked(writerActive: try look.isWriterActive())
                case .look:
                    let (token, isBusy) = try look.findNewest()
                    step = rule.looked(foundNew: isBusy ? nil : token != nil)
                    if let token { return token }
                case .wait(let delay):
                    try await Task.sleep(for: delay, clock: .loop)
                    step = rule.waited()
                }
            }
        }
    }
}

extension StoreObserver {
    /// Starts to watch a store for commits.
    ///
    /// - Parameters:
    ///   - path: The store.
    ///   - last: Report commits after this token; nil reports commits from now on.
    /// - Throws: `ObserverError`, as `watch` does, and `HistoryError` if the store cannot be read.
    public func remoteChanges(of path: String, after last: HistoryToken? = nil) throws -> RemoteChanges {
        let signals = try watch(path)
        return RemoteChanges(signals: signals, path: path, last: try last ?? StoreLook.newest(of: path))
    }
}

/// The connection with which one iterator looks for new history.
private final class StoreLook {
    private let path: String
    /// Nil while there was no history: all of it is then new.
    private var last: HistoryToken?
    private var opened: (reader: HistoryReader, probe: WriterProbe)?
    /// The open file.
    private var file: FileID?

    init(path: String, last: HistoryToken?) {
        self.path = path
        self.last = last
    }

    /// Nil if there is no history.
    static func newest(of path: String) throws -> HistoryToken? {
        do {
            let reader = try HistoryReader(path: path)
            let newest = try reader.newestToken()
            try reader.close()
            return newest
        } catch let error as HistoryError where error.code == .storeMissing || error.code == .notTracked {
            return nil
        }
    }

    deinit {
        // Nothing is written here, so a failure to close loses nothing.
        try? close()
    }

    /// Closes a file that is no longer the store's.
    func handle(_ signal: StoreSignal) throws {
        if !signal.isDisjoint(with: [.replaced, .disappeared, .appeared, .overflowed]) { try close() }
    }

    private func close() throws {
        guard let (reader, probe) = opened else { return }
        opened = nil
        WriterProbes.shared.keep(probe)
        try reader.close()
    }

    private func open() throws -> (reader: HistoryReader, probe: WriterProbe)? {
        if opened != nil, FileID(of: path) != file { try close() }
        if let opened { return opened }
        do {
            let reader = try HistoryReader(path: path, timeout: .seconds(1))
            file = FileID(of: path)
            let new = (reader, try WriterProbes.shared.take(path))
            opened = new
            return new
        } catch let error as HistoryError where error.code == .storeMissing || error.code == .notTracked {
            return nil
        } catch let error as ObserverError where error.code == .missing {
            return nil
        }
    }

    func isWriterActive() throws -> Bool {
        do {
            return try open()?.probe.isWriterActive() ?? false
        } catch let error as HistoryError where error.code == .storeBusy {
            return true
        }
    }

    /// - Returns: The newest token, if it is new, and whether a lock was in the way.
    func findNewest() throws -> (token: HistoryToken?, isBusy: Bool) {
        do {
            guard let (reader, _) = try open() else { return (nil, false) }
            let newest = try reader.newestToken()
            defer { last = newest }
            let isNew =
                last.map { newest.store != $0.store || newest.number > $0.number } ?? (newest.number > 0)
            return (isNew ? newest : nil, false)
        } catch let error as HistoryError where error.code == .storeBusy {
            return (nil, true)
        }
    }
}
