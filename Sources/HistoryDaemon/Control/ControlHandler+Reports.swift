import FoundationEssentials
import Glibc
import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

/// Reports on the daemon, its stores, consumers and hooks.
extension ControlHandler {
    func status() async -> DaemonReport {
        let stores = await engine.stores
        let reports = await forEachStore(stores) { store in
            var report = await report(store, measure(store))
            // A store that is not open at the moment is reported as such.
            if report.newest != nil { report.unlistedChanges = try? await store.control.unlistedChanges() }
            return report
        }
        var daemon = DaemonReport(
            version: HistoryVersion.current, processID: getpid(), startedAt: startedAt.description,
            summary: dependencies.status.line,
            configuration: await engine.loaded.path,
            logLevel: dependencies.level.level.rawValue, hooks: await engine.catalog.hooks.count,
            stores: reports)
        daemon.reload = lastReload.withLock { $0 }
        daemon.plugins = await plugins()
        let folders = await engine.folders
        if !folders.isEmpty { daemon.templates = folders.map { $0.report(reports) } }
        return daemon
    }

    private func plugins() async -> [PluginReport] {
        await engine.catalog.needed.filter { $0.mode == .coprocess }.map { plugin in
            let state = dependencies.status.plugin(plugin.name)
            var report = PluginReport(
                name: plugin.name, state: state.problem == nil ? .running : .failing, failures: state.failures)
            report.problem = state.problem
            return report
        }
    }

    func consumers(of store: String?) async throws(ControlError) -> ConsumerList {
        let stores = try await stores(store)
        let measured = await forEachStore(stores) { await report($0, measure($0)) }
        return ConsumerList(
            consumers: measured.flatMap { store in
                store.consumers.map { consumer in
                    // Its consumers wait for what the store waits for.
                    var consumer = consumer
                    if consumer.state == .waiting { consumer.problem = consumer.problem ?? store.problem }
                    return consumer
                }
            })
    }

    func consumers(of stores: [RunningStore]) async -> [ConsumerReport] {
        await forEachStore(stores) { await report($0, standing(of: $0)) }.flatMap(\.consumers)
    }

    /// Asks all stores at the same time: one that does not answer delays only its own answer.
    func forEachStore<T: Sendable>(
        _ stores: [RunningStore], _ body: @escaping @Sendable (RunningStore) async -> T
    ) async -> [T] {
        await withTaskGroup(of: (Int, T).self) { group in
            for (index, store) in stores.enumerated() { group.addTask { (index, await body(store)) } }
            return await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    private func report(_ store: RunningStore, _ standing: Standing) -> StoreReport {
        let isPaused = store.control.passes.isHeld(by: .operatorOrder)
        var report = StoreReport(
            name: store.name, path: store.configuration.path, state: isPaused ? .paused : .open)
        report.template = store.configuration.template
        var positions: StoreControl.Positions?
        var isOpen = true
        do {
            positions = try standing.get()
            if !isPaused, store.control.isResting { report.state = .resting }
            // A service that hangs on a disk still serves it.
            report.problem = dependencies.status.problem(of: store.name)
        } catch let error as HistoryError where error.code == .storeNotOpen {
            isOpen = false
            if !isPaused { report.state = .waiting }
            report.problem = dependencies.status.problem(of: store.name) ?? "It is being opened."
        } catch {
            report.problem = "\(error)"
        }
        report.newest = positions?.newest.description
        report.oldest = positions?.oldest.description
        report.changes = positions?.changes
        report.untracked = untracked(store.name)
        if store.served.isNeverCleaned { report.neverCleaned = true }
        report.cleaningWaits = dependencies.status.read { $0.stores[store.name]?.cleaningWaits }
        report.consumers = store.served.consumers.map {
            self.report($0, store, positions, isPaused: isPaused, isOpen: isOpen)
        }
        return report
    }

    private func untracked(_ store: String) -> [UntrackedEntity]? {
        let untracked = dependencies.status.read { $0.stores[store]?.untracked ?? [:] }
        if untracked.isEmpty { return nil }
        return untracked.sorted { $0.key < $1.key }.map {
            UntrackedEntity(entity: $0.key.text, reason: $0.value)
        }
    }

    private func report(
        _ consumer: Consumer, _ store: RunningStore, _ positions: StoreControl.Positions?, isPaused: Bool,
        isOpen: Bool
    ) -> ConsumerReport {
        let known = dependencies.status.consumer(.init(store: store.name, consumer: consumer.author))
        let now = HistoryTimestamp.now
        let saved = positions?.cursors[consumer.author]
        let behind = saved.flatMap { saved in positions.map { max(0, $0.newest.number - saved.position) } }
        let isWorking = positions?.working.contains(consumer.author) ?? false
        let state: ConsumerReport.State =
            if isPaused || store.control.passes.isHeld(by: .consumer(BinaryText(consumer.author))) {
                .paused
            } else if !isOpen {
                .waiting
            } else if known.problem != nil {
                known.failure?.isHeld ?? false ? .held : .retrying
            } else if positions?.windows[consumer.author] != nil {
                .gathering
            } else {
                behind == 0 && !isWorking ? .level : .behind
            }
        let cursor = saved.flatMap { saved in
            positions.map { HistoryToken(store: $0.newest.store, number: saved.position) }
        }
        var replicaLag = known.lag
        let reached = saved.flatMap { saved in
            positions?.reached[consumer.author].flatMap { $0 > saved.position ? $0 : nil }
        }
        // A merge is shown when the consumer has finished its pass. A consumer that repeats transactions shows
        // them already.
        if isWorking, replicaLag.transactions == 0, reached == nil {
            replicaLag = Lag(transactions: 1, isAtLeast: true, oldest: saved?.movedAt)
        }
        let isMeasured = dependencies.status.read { $0.stores[store.name]?.isMeasured ?? false }
        // A lag that could not be measured is unknown, or was known before and has grown older.
        func lagReport(_ lag: Lag) -> LagReport? {
            isOpen && (isMeasured || lag.transactions > 0) ? LagReport(lag, at: now) : nil
        }
        func context(
            _ name: String, _ kind: String, _ failure: RuntimeStatus.ContextFailure?, _ lag: Lag,
            _ fill: (inout ContextReport) -> Void
        ) -> ContextReport {
            var report = ContextReport(name: name, kind: kind)
            report.problem = failure?.reason
            report.lag = lagReport(failure?.lag ?? lag)
            fill(&report)
            return report
        }
        var report = ConsumerReport(store: store.name, consumer: consumer.author, state: state)
        report.template = store.configuration.template
        report.cursor = (cursor ?? known.cursor)?.description
        report.movedAt = saved?.movedAt.description
        report.behind = behind
        report.lag = lagReport(known.lag)
        report.hook = known.failure?.hook
        report.problem = known.problem
        report.replayThrough = reached.flatMap { reached in
            positions.map { HistoryToken(store: $0.newest.store, number: reached).description }
        }
        report.windowEndsAt = positions?.windows[consumer.author]?.description
        report.deadLetters = positions?.deadLetters[consumer.author]
        report.contexts = consumer.contexts.map { replica in
            context(replica.name, "replica", known.contexts[replica.name], replicaLag) {
                $0.path = replica.path
            }
        }
        report.contexts += consumer.pluginContexts.map { kept in
            context(kept.name, "plugin", known.contexts[kept.name], known.lag) { $0.plugin = kept.plugin }
        }
        report.contexts += consumer.feeds.map { feed in
            context(feed.name, "feed", nil, known.feedLags[feed.name] ?? Lag()) {
                let id = FeedID(consumer: consumer.author, context: feed.name)
                $0.feed = positions.flatMap { FeedReport(id, $0) }
            }
        }
        return report
    }

    // MARK: Hooks

    func hooks() async -> HookList {
        let catalog = await engine.catalog
        var counts: [Hook.Kind: Int] = [:]
        return HookList(
            hooks: catalog.hooks.map { hook in
                counts[hook.kind, default: 0] += 1
                let figures = dependencies.status.hook(hook.fullName)
                // The failures of its process count for each of its hooks.
                let plugin = dependencies.status.plugin(String(hook.fullName.prefix { $0 != "/" }))
                var report = HookReport(
                    position: counts[hook.kind] ?? 0, id: hook.id.uuidString, name: hook.fullName,
                    kind: hook.kind.rawValue, origin: catalog.origin(of: hook), calls: figures.calls,
                    failures: figures.failures + plugin.uncalled)
                if hook.kind == .observer {
                    report.entity = hook.entity ?? "*"
                    report.operations = ChangeOperation.allCases.filter { hook.operations.contains($0) }.map(
                        \.rawValue)
                }
                (report.store, report.consumer, report.before) = (hook.store, hook.consumer, hook.before)
                (report.properties, report.where) = (hook.properties, hook.condition)
                if hook.calls == .batch { report.batch = true }
                report.lastCallAt = figures.lastCall?.description
                report.lastError = plugin.problem ?? figures.lastError?.reason
                report.lastErrorAt = figures.lastError?.at.description
                return report
            })
    }

    func addHooks(_ manifest: [UInt8], before: UUID?, persist: Bool, file: String?, _ peer: Peer) async throws
        -> HookChange
    {
        let added = try await jobs.perform { [engine] in
            try await engine.addHooks(of: manifest, before: before, persist: persist, file: file ?? "/manifest")
        }
        logger.report(
            .hooksChanged,
            "Added \(added.map(\.fullName).quotedList)\(persist ? ", and kept over restarts" : ""), by \(peer)."
        )
        return HookChange(added: added.map(\.named))
    }

    func remove(_ selection: HookSelection, _ peer: Peer) async throws -> HookChange {
        let removed = try await jobs.perform { [engine] in try await engine.removeHooks(selection) }
        if !removed.isEmpty {
            logger.report(.hooksChanged, "Removed \(removed.map(\.fullName).quotedList), by \(peer).")
        }
        return HookChange(removed: removed.map(\.named))
    }
}

extension HookConfiguration {
    fileprivate var named: HookName { HookName(id: id.uuidString, name: fullName, kind: kind.rawValue) }
}

extension RunningFolder {
    /// - Parameter stores: All stores.
    fileprivate func report(_ stores: [StoreReport]) -> TemplateReport {
        TemplateReport(
            name: template.name, folder: template.folder, problem: trouble, refused: refusals, stores: stores)
    }
}

extension FeedReport {
    fileprivate init?(_ feed: FeedID, _ positions: StoreControl.Positions) {
        guard let standing = positions.feeds.first(where: { $0.feed == feed }) else { return nil }
        let (position, movedAt) = (standing.state.position, standing.state.checkpoint.movedAt)
        self.init(
            state: standing.isExpired ? .expired : standing.client == nil ? .disconnected : .connected,
            processID: standing.client,
            cursor: HistoryToken(store: positions.newest.store, number: position).description,
            movedAt: movedAt.description, behind: max(0, positions.newest.number - position))
    }
}

extension ServedStore {
    /// Whether only a configuration can keep its history from growing: not where the app that records the
    /// history also deletes it.
    var isNeverCleaned: Bool { cleaning == .none && !source.isOnlyRead }
}
