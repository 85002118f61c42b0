internal import FoundationEssentials

/// One store and everybody who is served from it.
public struct ServedStore: Sendable {
    public let name: String
    public let path: String
    /// What to track, with the columns to preserve; nil leaves the tracking to others.
    public let entities: [String: [String]?]?
    public let rule: DeliveryRule
    public let consumers: [Consumer]
    public let cleaning: CleaningStrategy
    public let maximumDuration: Duration?

    public init(
        name: String, path: String, entities: [String: [String]?]?, rule: DeliveryRule, consumers: [Consumer],
        cleaning: CleaningStrategy = .none, maximumDuration: Duration? = nil
    ) {
        self.name = name
        self.path = path
        self.entities = entities
        self.rule = rule
        self.consumers = consumers
        self.cleaning = cleaning
        self.maximumDuration = maximumDuration
    }
}

/// Serves one store: waits until it is there, hears of its commits, and lets each consumer work
/// off what is new. When the store is replaced or lost, everything is closed and begun anew.
public struct StoreRunner: Sendable {
    private let store: ServedStore
    private let hooks: HookRegistry
    private let stateFolder: String
    private let reporter: any PipelineReporter
    private let stop: StopSignal

    public init(
        _ store: ServedStore, hooks: HookRegistry, stateFolder: String, reporter: any PipelineReporter, stop: StopSignal
    ) {
        self.store = store
        self.hooks = hooks
        self.stateFolder = stateFolder
        self.reporter = reporter
        self.stop = stop
    }

    /// Serves the store until a stop is requested.
    ///
    /// - Parameter isUp: Called when the store is open and its consumers wait for commits, or when
    ///   it is certain that there is no store to open yet.
    /// - Throws: `ObserverError` where the store can not be watched, `HistoryError` with `.stateUnusable`.
    public func run(watching signals: StoreSignals, isUp: @escaping @Sendable () -> Void = {}) async throws {
        while !stop.isRequested, !Task.isCancelled {
            guard let session = try await openWhenPossible(signals, isUp) else { return }
            do {
                try await session.run(watching: signals, isUp: isUp)
            } catch let error as HistoryError where error.code != .stateUnusable {
                reporter.report(.storeLost(error))
            }
            try await session.close()
        }
    }

    /// Works off everything there is, once.
    ///
    /// - Throws: `HistoryError` where the store can not be opened or read.
    public func runOnce() async throws {
        let session = try await StoreSession(store, hooks: hooks, stateFolder: stateFolder, reporter: reporter, stop: stop)
        do {
            try await session.runOnce()
        } catch {
            try await session.close()
            throw error
        }
        try await session.close()
    }

    /// Tries to open the store, and again at each sign that it may have changed; nil when stopped.
    private func openWhenPossible(_ signals: StoreSignals, _ isUp: @escaping @Sendable () -> Void) async throws -> StoreSession? {
        var failures = 0
        var said: String?
        while !stop.isRequested {
            do {
                return try await StoreSession(store, hooks: hooks, stateFolder: stateFolder, reporter: reporter, stop: stop)
            } catch let error as HistoryError where error.code != .stateUnusable {
                // The same trouble is told once.
                if said != error.message { reporter.report(.storeLost(error)) }
                said = error.message
                failures += 1
                isUp()
                if error.heals {
                    await stop.sleep(for: Backoff.delay(afterFailures: failures))
                } else if try await !waitForSignal(signals) {
                    return nil
                }
            }
        }
        return nil
    }

    /// Waits until the store's files change; false when stopped.
    private func waitForSignal(_ signals: StoreSignals) async throws -> Bool {
        do {
            return try await stop.cancelling {
                var iterator = signals.makeAsyncIterator()
                return try await iterator.next() != nil
            }
        } catch is CancellationError {
            return false
        }
    }
}

extension HistoryError {
    /// Whether it may pass without any sign from the store's files: a lock that is let go, a
    /// permission that is given.
    var heals: Bool {
        switch code {
        case .storeMissing, .notTracked, .notAnEntity, .formatTooNew: false
        default: true
        }
    }
}
