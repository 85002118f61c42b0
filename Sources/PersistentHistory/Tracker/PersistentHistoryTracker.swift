public import FoundationEssentials

/// Persistent history tracking inside a program: detects what other authors commit to a store,
/// calls hooks, merges into contexts, and cleans up.
///
/// ```swift
/// let tracker = PersistentHistoryTracker(
///     store: "/srv/contacts/contacts.sqlite", currentAuthor: "MainApp",
///     allAuthors: ["MainApp", "WidgetExtension", "BatchProcessor"], batchAuthors: ["BatchProcessor"],
///     stateFolder: "/var/lib/contacts", cleanStrategy: .byDuration(seconds: 60 * 60 * 24 * 7))
/// await tracker.registerObserver(entityName: "person", operation: .insert) { contexts in
///     for context in contexts { print("new: \(context.objectIDURL)") }
/// }
/// try await tracker.run()
/// ```
///
/// `run()` does all the work, in its caller's task: put it into a task group or a service group, and cancel it to
/// end it. While it runs, `start()` and `stop()` switch the tracking on and off. They may be called at any time,
/// from any task, and also before `run()`.
///
/// Each program has its own tracker, for its author. The trackers of one store share the state folder. There each
/// saves its position, so that no tracker deletes history that another one needs.
public actor PersistentHistoryTracker {
    private let store: ServedStore
    private let waitsForStore: Bool
    private let stateFolder: String
    private let reporter: TrackerReporter
    private let registry = HookRegistry()
    private let power: PowerSwitch
    nonisolated let control = StoreControl()
    nonisolated let author: String
    private let contexts: [any HistoryContext]

    /// By id. `before` gives a merge hook's place by a full name.
    private var hooks: [UUID: Hook] = [:]
    private var registered = 0

    /// A tracker for one author of a store.
    public init(_ configuration: Configuration) {
        let (path, author) = (configuration.store, configuration.currentAuthor)
        let (all, batch) = (configuration.allAuthors, configuration.batchAuthors)
        let rule = DeliveryRule(
            authors: Set(names: all + batch + [author]), deliversUnlisted: configuration.deliversUnlisted,
            cleansUnlisted: configuration.cleansUnlisted,
            mirroringAuthors: Set(names: configuration.mirroringAuthors),
            includingMirroring: configuration.includingMirroring)
        var consumer = Consumer(
            store: configuration.name, author: author, rule: rule, contexts: configuration.contexts,
            feeds: configuration.feeds.map { FeedContext(name: $0) },
            programContexts: configuration.programContexts)
        consumer.startAt = configuration.startAt
        consumer.batchWindow = min(max(configuration.batchWindow, .zero), .seconds(3600))
        var store = ServedStore(
            name: configuration.name, path: path, entities: configuration.entities, rule: rule,
            consumers: [consumer], cleaning: configuration.cleanStrategy,
            maximumDuration: configuration.maximumDuration)
        store.consumersElsewhere = Set(all).subtracting(batch).subtracting([author])
        store.isUsedInProcess = true
        store.keep = configuration.keep
        self.store = store
        self.author = author
        stateFolder = configuration.stateFolder
        reporter = TrackerReporter(configuration.reporter ?? LogReporter(logLevel: configuration.logLevel))
        waitsForStore = configuration.waitsForStore
        contexts =
            configuration.contexts.map { ReplicaMerger($0, storePath: path) as any HistoryContext }
            + configuration.programContexts
        power = PowerSwitch(isOn: configuration.autoStart)
    }

    /// The tracker's position, the last loss of history, and its problems.
    public nonisolated var state: TrackerState { reporter.state }

    // MARK: Life

    /// Tracks while it is switched on, until the task is cancelled.
    ///
    /// Commits while it was off, or while no tracker ran, are delivered first. Temporary errors are
    /// reported and retried.
    ///
    /// - Throws: `HistoryError` with `.storeMissing` or `.notTracked` unless `waitsForStore`; with
    ///   `.consumerInUse` if another tracker or a daemon serves this author with the same state; with
    ///   `.storeServedElsewhere` if one serves the store with another state; with `.stateUnusable` if
    ///   there is no state folder, and `.stateNotPermitted` if this user may not write it.
    ///   `ObserverError` if the store cannot be watched.
    @concurrent public nonisolated func run() async throws {
        try await onPool { [stateFolder] in try StateFolderCheck.check(stateFolder) }
        if !waitsForStore { try requireStore() }
        let observer = try StoreObserver()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            group.addTask {
                while let stop = await self.power.waitUntilOn() {
                    try await self.runner(stop).run(watching: observer.watch(self.store.path))
                }
            }
            // Neither is useful without the other.
            try await group.next()
            group.cancelAll()
            try await group.waitForAll()
        }
    }

    /// Delivers everything recorded so far, and returns.
    ///
    /// - Throws: `HistoryError` if the store cannot be opened or read.
    @concurrent public nonisolated func runOnce() async throws {
        try await runner(OneShotEvent()).runOnce()
    }

    /// Switches the tracking on: `run()` continues where it stopped.
    public nonisolated func start() { power.turnOn() }

    /// Switches the tracking off, and returns at once. The current pass ends before another one starts: an observer
    /// in progress is cancelled and called again after the next `start()`; a merge hook and the merge are finished.
    public nonisolated func stop() { power.turnOff() }

    /// Throws only for lasting problems: a store that is locked now is served later.
    private nonisolated func requireStore() throws {
        do {
            try HistoryReader(path: store.path).close()
        } catch let error as HistoryError where error.code == .notTracked && store.entities == nil {
            throw HistoryError(
                error.code, error.message,
                hint: "Track its tables with Tracking.track or historyctl track, or pass `entities`.",
                cause: error)
        } catch let error as HistoryError
            where [.storeMissing, .storeCorrupt, .storeTooNew].contains(error.code)
        {
            throw error
        } catch {}
    }

    private nonisolated func runner(_ stop: OneShotEvent) -> StoreRunner {
        StoreRunner(
            store, hooks: registry, stateFolder: stateFolder, reporter: reporter, stop: stop,
            control: control)
    }

    /// Returns a cleaner for manual cleaning, usually with `cleanStrategy: .none`.
    public nonisolated func cleanerBuilder() -> ManualCleaner {
        ManualCleaner(store, stateFolder: stateFolder, reporter: reporter)
    }

    // MARK: Observers

    /// Registers a closure that is notified of changes. Closures for the same changes are called one after
    /// the other, in the order of their registration.
    ///
    /// - Parameters:
    ///   - entityName: The entity; `*` for every entity.
    ///   - operation: The operation on the rows.
    ///   - calls: Whether the closure is called for each transaction, or once for everything in a fetched batch.
    ///   - properties: For updates of one entity: only those that changed one of these columns.
    ///   - condition: For one entity: an SQL expression over the columns of the row; only rows for which it is true.
    ///     Inserted and updated rows are judged as they are at the end of the batch, deleted ones by their preserved
    ///     columns.
    ///   - policy: How often the call is repeated if the closure throws, and what follows.
    ///   - timeout: How long a call may take; nil for no limit. If it takes longer, it is cancelled, and counts as
    ///     failed when it has returned.
    ///   - onExpired: Called before anything else if history was lost. Rebuild from the store what the program
    ///     derived from changes. Without it, the loss is logged as an error.
    ///   - callback: Called with the changes of one transaction, or of one batch.
    /// - Returns: The hook's id.
    @discardableResult
    public func registerObserver(
        entityName: String, operation: HookOperation, calls: ObserverCalls = .transaction,
        properties: [String]? = nil, where condition: String? = nil, policy: FailurePolicy = FailurePolicy(),
        timeout: Duration? = nil, onExpired: ExpiryCallback? = nil, callback: @escaping HookCallback
    ) async -> UUID {
        register(
            Hook(
                id: .random(), name: nextName("observer"), kind: .observer, entity: Self.entity(entityName),
                operations: [operation], calls: calls, properties: properties, condition: condition,
                endpoint: ClosureHook(
                    .observer(callback), onExpired: onExpired, timeout: timeout, reporter: reporter),
                policy: policy))
    }

    /// Removes one observer. Returns whether there was one with that id.
    @discardableResult
    public func removeObserver(id: UUID) async -> Bool { remove(.observer) { $0.id == id } > 0 }

    /// Removes all observers that were registered for an entity and operation. Returns their number.
    @discardableResult
    public func removeObserver(entityName: String, operation: HookOperation) async -> Int {
        remove(.observer) {
            $0.entity.hasSameBytes(as: Self.entity(entityName)) && $0.operations == [operation]
        }
    }

    /// Removes all observers. Returns their number.
    @discardableResult
    public func removeAllObservers() async -> Int { remove(.observer) { _ in true } }

    // MARK: Merge hooks

    /// Registers a stage of the merge pipeline: at its end, or before another merge hook.
    ///
    /// - Parameters:
    ///   - hookID: The merge hook before which the new one is called; if there is none with that id, it is called last.
    ///   - policy: How often the call is repeated if the closure throws, and what follows.
    ///   - timeout: How long a call may take, as for an observer.
    ///   - onExpired: Called before anything else if history was lost, as for an observer.
    ///   - callback: Called with a fetched batch; it decides whether and what to merge.
    /// - Returns: The hook's id.
    @discardableResult
    public func registerMergeHook(
        before hookID: UUID? = nil, policy: FailurePolicy = FailurePolicy(), timeout: Duration? = nil,
        onExpired: ExpiryCallback? = nil, callback: @escaping MergeHookCallback
    ) async -> UUID {
        register(
            Hook(
                id: .random(), name: nextName("merge"), kind: .merge,
                before: hookID.flatMap { hooks[$0] }.flatMap { $0.kind == .merge ? $0.name : nil },
                endpoint: ClosureHook(
                    .merge(callback, contexts: contexts), onExpired: onExpired, timeout: timeout,
                    reporter: reporter),
                policy: policy))
    }

    /// Removes one merge hook. Returns whether there was one with that id.
    @discardableResult
    public func removeMergeHook(id: UUID) async -> Bool { remove(.merge) { $0.id == id } > 0 }

    /// Removes all merge hooks. Returns their number.
    @discardableResult
    public func removeAllMergeHooks() async -> Int { remove(.merge) { _ in true } }

    private static func entity(_ name: String) -> String? { name == "*" ? nil : name }

    private func register(_ hook: Hook) -> UUID {
        hooks[hook.id] = hook
        registry.register(hook)
        return hook.id
    }

    private func remove(_ kind: Hook.Kind, where isGoing: (Hook) -> Bool) -> Int {
        let going = hooks.values.filter { $0.kind == kind && isGoing($0) }
        for hook in going {
            hooks[hook.id] = nil
            _ = registry.remove(id: hook.id)
        }
        return going.count
    }

    private func nextName(_ kind: String) -> String {
        registered += 1
        return "\(kind)/\(registered)"
    }
}

/// The kit's name for it.
public typealias TransactionCleanStrategy = CleaningStrategy
