import HistoryControl
import Logging
import PersistentHistory

extension ControlHandler {
    /// Where a store's history ends and how far its consumers are, or why that is not known.
    typealias Standing = Result<StoreControl.Positions, any Error>

    /// Measures all stores, for health reports and metrics.
    func measure() async {
        let threads = BlockingThreads.shared.measures
        dependencies.status.update { $0.lackingThreads = (threads.waiting, threads.lackTime) }
        _ = await forEachStore(await engine.stores) { await measure($0) }
    }

    /// Measures the stores with work in progress: nothing is read where all consumers are caught up.
    func measureBusyStores() async {
        _ = await forEachStore(await engine.stores) { store in
            let isUnread = store.control.standing.unreadTime != nil
            let wasStuck = dependencies.status.read { $0.stores[store.name]?.isStuck ?? false }
            if isUnread || wasStuck { return _ = await measure(store) }
            if await store.control.isAtWork() { _ = await measure(store) }
        }
    }

    func standing(of store: RunningStore) async -> Standing {
        do {
            // A lock may be held for a moment; a changed schema is read within a second.
            return .success(
                try await store.control.retryingWhileBusy(attempts: 4) {
                    try await store.control.positions()
                })
        } catch {
            return .failure(error)
        }
    }

    /// Measures how far each consumer lags, and how many dead letters there are.
    ///
    /// - Returns: The store's answer, so that callers need not ask again.
    func measure(_ store: RunningStore) async -> Standing {
        let standing = await standing(of: store)
        dependencies.status.update(store.name) {
            $0.stores[store.name, default: .init()].standing = store.control.standing
        }
        switch standing {
        case .success(let saved): await measure(store, saved)
        case .failure(let error):
            // Not open, or locked at the moment: the known values stay, and grow older.
            let error = error as? HistoryError
            // A store that is not open may be waiting for a disk, or repeatedly for a lock, to be opened.
            let time = error?.code == .storeNotOpen ? store.control.openingTime : error?.unresponsiveTime
            dependencies.status.update(store.name) { status in
                status.stores[store.name, default: .init()].unresponsiveTime = time
                status.stores[store.name]?.isMeasured = false
                status.stores[store.name]?.stateProblem = error.flatMap { $0.isOfState ? $0.message : nil }
            }
        }
        return standing
    }

    private func measure(_ store: RunningStore, _ saved: StoreControl.Positions) async {
        let known = dependencies.status.read { $0.stores[store.name]?.consumers ?? [:] }
        var positions: Set<Int64> = []
        func need(_ position: Int64) { if position < saved.newest.number { positions.insert(position) } }
        for consumer in saved.cursors.keys { need(saved.had(by: consumer)) }
        for consumer in known.values {
            for failure in consumer.contexts.values { if let shown = failure.shown { need(shown.number) } }
        }
        var backlogs: [Int64: Backlog] = [:]
        var feeds: [FeedID: Backlog] = [:]
        let lagging = saved.feeds.filter { $0.state.position < saved.newest.number }
        if !positions.isEmpty || !lagging.isEmpty {
            do {
                (backlogs, feeds) = try await store.control.backlogs(after: positions, of: lagging)
            } catch {
                logger.debug("The backlog of store \"\(store.name)\" cannot be read: \(error)")
                dependencies.status.update(store.name) { $0.stores[store.name]?.isMeasured = false }
                return
            }
        }
        take(backlogs, feeds, saved, store)
    }

    private func take(
        _ backlogs: [Int64: Backlog], _ feeds: [FeedID: Backlog], _ saved: StoreControl.Positions,
        _ store: RunningStore
    ) {
        let rule = store.served.rule
        dependencies.status.update(store.name) { status in
            func lag(_ position: Int64?, _ consumer: String, before: Lag) -> Lag {
                guard let position else { return Lag() }
                var lag = backlogs[position].map { Lag($0, of: consumer, under: rule) } ?? Lag()
                if position < saved.oldest.number { lag.includeDeletedHistory(before: before, now: .now) }
                return lag
            }
            status.stores[store.name, default: .init()].deadLetters = saved.deadLetters
            status.stores[store.name]?.unresponsiveTime = nil
            status.stores[store.name]?.isMeasured = true
            status.stores[store.name]?.stateProblem = nil
            status.stores[store.name]?.neverCleaned = store.served.isNeverCleaned ? saved.changes : nil
            for served in store.served.consumers {
                let consumer = served.author
                var known = status.stores[store.name]?.consumers[consumer] ?? .init()
                let position = saved.cursors[consumer].map { _ in saved.had(by: BinaryText(consumer)) }
                known.lag = lag(position, consumer, before: known.lag)
                for (name, failure) in known.contexts {
                    known.contexts[name]?.lag = lag(failure.shown?.number, consumer, before: failure.lag)
                }
                known.batchWindow = served.batchWindow
                known.feedLags = [:]
                for (feed, backlog) in feeds where feed.consumer == consumer {
                    known.feedLags[feed.context] = Lag(backlog)
                }
                status.stores[store.name]?.consumers[consumer] = known
            }
        }
    }
}

extension StoreControl.Positions {
    /// The highest position that a consumer has reached: repeated transactions are no lag.
    fileprivate func had(by consumer: BinaryText) -> Int64 {
        max(cursors[consumer]?.position ?? 0, reached[consumer] ?? 0)
    }

    /// How many changes the history has, without those that an earlier cleanup kept.
    var changes: Int64 { max(0, newest.number - oldest.number) }
}

extension LagReport {
    init(_ lag: Lag, at now: HistoryTimestamp) {
        self.init(
            transactions: lag.transactions, isAtLeast: lag.isAtLeast ? true : nil,
            seconds: Double(lag.age(at: now).microseconds) / 1_000_000)
    }
}
