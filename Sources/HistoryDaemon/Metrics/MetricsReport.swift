import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// What the metrics are made of.
struct MetricsSource {
    let report: DaemonReport
    let status: RuntimeStatus
    let hooks: [String]
    let startedAt: HistoryTimestamp
    let configuredAt: HistoryTimestamp
    let droppedLines: Int
    let loopStalls: (count: Int, longest: Duration)
    let now: HistoryTimestamp
    /// The sizes of the histories of open stores, estimated.
    let historySizes: [String: Int64]
    /// The size of a file; nil where there is none.
    let size: (String) -> Int64?
}

extension MetricsSource {
    /// All metrics.
    func text() -> [UInt8] {
        var text = MetricsText()
        text.write(.buildInfo, [([("version", report.version)], 1)])
        text.write(.startTime, Double(startedAt.milliseconds) / 1000)
        text.write(.healthStatus, Double(status.health(at: now).verdict.rank))
        text.write(.reloadTime, Double(configuredAt.milliseconds) / 1000)
        text.write(.reloadSuccess, status.refusal == nil ? 1 : 0)
        text.write(.droppedLines, Double(droppedLines))
        text.write(.loopStalls, Double(loopStalls.count))
        text.write(.longestLoopStall, loopStalls.longest / .seconds(1))
        writeStores(&text)
        writeConsumers(&text)
        writeContexts(&text)
        writeHooks(&text)
        return text.end()
    }

    private func writeStores(_ text: inout MetricsText) {
        func write(_ metric: Metric, _ value: (StoreReport) -> Double?) {
            text.write(
                metric,
                report.stores.compactMap { store in value(store).map { ([("store", store.name)], $0) } })
        }
        func known(_ store: StoreReport) -> RuntimeStatus.Store? { status.stores[store.name] }
        // A paused store is open, unless something else is wrong with it.
        write(.storeOpen) { $0.newest != nil ? 1 : 0 }
        write(.storePaused) { $0.state == .paused ? 1 : 0 }
        write(.storeTracked) { known($0)?.isTracked ?? true ? 1 : 0 }
        write(.storeStateWritable) { known($0)?.isStateFailing ?? false ? 0 : 1 }
        write(.storePosition) { Self.number($0.newest) }
        write(.storeOldestPosition) { Self.number($0.oldest) }
        write(.storeChanges) { Self.number($0.newest) }
        write(.storeHistoryChanges) { store in
            Self.number(store.newest).flatMap { newest in
                Self.number(store.oldest).map { max(0, newest - $0) }
            }
        }
        write(.storeHistorySize) { historySizes[$0.name].map { Double($0) } }
        write(.storeSize) { size($0.path).map { Double($0) } }
        write(.storeWALSize) { Double(size($0.path + "-wal") ?? 0) }
        write(.cleanupTime) { store in
            status.counters.stores[store.name]?.cleanedAt.map { Double($0) / 1000 }
        }
        write(.cleanupDeleted) { Double(status.counters.stores[$0.name]?.deletedChanges ?? 0) }
    }

    private func writeConsumers(_ text: inout MetricsText) {
        let consumers = report.stores.flatMap(\.consumers)
        func labels(_ consumer: ConsumerReport) -> MetricsText.Labels {
            [("store", consumer.store), ("consumer", consumer.consumer)]
        }
        func write(_ metric: Metric, _ value: (ConsumerReport) -> Double?) {
            text.write(
                metric, consumers.compactMap { consumer in value(consumer).map { (labels(consumer), $0) } })
        }
        text.write(
            .consumerState,
            consumers.flatMap { consumer in
                ConsumerReport.State.allCases.map { state in
                    (labels(consumer) + [("state", state.rawValue)], consumer.state == state ? 1 : 0)
                }
            })
        write(.consumerPosition) { Self.number($0.cursor) }
        write(.consumerLagTransactions) { $0.lag.map { Double($0.transactions) } }
        write(.consumerLag) { $0.lag?.seconds }
        text.write(
            .deliveryDelay,
            histograms: consumers.compactMap { consumer in
                status.stores[consumer.store]?.consumers[consumer.consumer].map {
                    (labels(consumer), $0.delays)
                }
            })
        write(.deadLetters) { $0.deadLetters.map { Double($0) } ?? 0 }
        write(.deadLettersKept) {
            Double(status.counters.stores[$0.store]?.deadLetters[$0.consumer] ?? 0)
        }
    }

    private func writeContexts(_ text: inout MetricsText) {
        func write(
            _ kind: String, label: String, _ up: Metric, _ transactions: Metric, _ lag: Metric,
            isUp: (ContextReport) -> Bool = { $0.problem == nil }
        ) {
            let contexts = report.stores.flatMap(\.consumers).flatMap { consumer in
                consumer.contexts.filter { $0.kind == kind }.map { context in
                    (
                        [("store", consumer.store), ("consumer", consumer.consumer), (label, context.name)]
                            as MetricsText.Labels, context
                    )
                }
            }
            text.write(up, contexts.map { ($0, isUp($1) ? 1 : 0) })
            text.write(
                transactions,
                contexts.compactMap { labels, context in
                    context.lag.map { (labels, Double($0.transactions)) }
                })
            text.write(lag, contexts.compactMap { labels, context in context.lag.map { (labels, $0.seconds) } })
        }
        write("replica", label: "replica", .replicaUp, .replicaLagTransactions, .replicaLag)
        write(
            "plugin", label: "context", .pluginContextUp, .pluginContextLagTransactions, .pluginContextLag)
        write("feed", label: "feed", .feedConnected, .feedLagTransactions, .feedLag) {
            $0.feed?.state == .connected
        }
    }

    private func writeHooks(_ text: inout MetricsText) {
        func write(_ metric: Metric, _ value: (String) -> Double) {
            text.write(metric, hooks.map { ([("hook", $0)], value($0)) })
        }
        write(.hookCalls) { Double(status.hooks[$0]?.calls ?? 0) }
        write(.hookFailures) { Double(status.counters.hooks[$0]?.failures ?? 0) }
        write(.hookRetries) { Double(status.counters.hooks[$0]?.retries ?? 0) }
        write(.hookHeld) { hook in
            Double(status.stores.values.flatMap(\.consumers.values).count { $0.heldHooks.contains(hook) })
        }
        text.write(
            .hookDuration,
            histograms: hooks.map { ([("hook", $0)], status.hooks[$0]?.callTimes ?? DurationHistogram()) })
        let plugins = report.plugins ?? []
        text.write(
            .pluginUp, plugins.map { ([("plugin", $0.name)], $0.state == .running ? 1 : 0) })
        text.write(
            .pluginEnds,
            plugins.map { ([("plugin", $0.name)], Double(status.counters.pluginEnds[$0.name] ?? 0)) })
    }

    private static func number(_ token: String?) -> Double? {
        token.flatMap { HistoryToken($0) }.map { Double($0.number) }
    }
}

extension ControlHandler {
    /// What `GET /v1/metrics` answers.
    func metrics() async -> [UInt8] {
        let report = await status()
        let sizes = await forEachStore(await engine.stores) { store in
            // One that is not open, or locked at the moment, has none.
            (store.name, try? await store.control.historySize())
        }
        return MetricsSource(
            report: report, status: dependencies.status.read { $0 },
            hooks: await engine.catalog.hooks.map(\.fullName), startedAt: startedAt,
            configuredAt: configuredAt.withLock { $0 }, droppedLines: JournalWriter.shared.droppedInAll,
            loopStalls: (try? HistoryLoop.shared().stalls) ?? (0, .zero), now: .now,
            historySizes: Dictionary(sizes.compactMap { name, size in size.map { (name, $0) } }) { $1 },
            size: Self.size
        ).text()
    }

    /// What `GET /v1/health` answers.
    func health() async -> HealthReport {
        await measure()
        return dependencies.status.read { $0.health(at: .now) }
    }

    private static func size(_ path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }
}
