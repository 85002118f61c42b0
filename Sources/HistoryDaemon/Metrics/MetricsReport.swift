import HistoryConfiguration
import HistoryControl
import PersistentHistory

/// The input of the metrics.
struct MetricsReport {
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
    /// The size of a file; nil where it does not exist.
    let size: (String) -> Int64?
    /// The templates whose stores have metrics of their own.
    var detailed: Set<String> = []

    /// The stores that have metrics of their own: a folder may have thousands of stores.
    private var stores: [StoreReport] {
        report.stores.filter { store in store.template.map { detailed.contains($0) } ?? true }
    }
}

extension MetricsReport {
    /// All metrics. This is the only list of them: tests compare the monitoring page, the alert rules and the
    /// dashboard with it.
    ///
    /// Names follow https://prometheus.io/docs/practices/naming/: base units, `_total` for counters.
    func text() -> [UInt8] {
        var text = MetricsText()
        text.write(
            "historyd_build_info", "Always 1; the label version tells which historyd runs.",
            [([("version", report.version)], 1)])
        text.write(
            "historyd_start_time_seconds", "When the daemon started, in seconds since 1970.",
            Double(startedAt.milliseconds) / 1000)
        text.write(
            "historyd_health_status", "0 healthy, 1 degraded, 2 failing, as historyctl health reports it.",
            Double(status.health(at: now).verdict.rank))
        text.write(
            "historyd_reload_last_success_timestamp_seconds",
            "When the configuration in force was read, in seconds since 1970.",
            Double(configuredAt.milliseconds) / 1000)
        text.write(
            "historyd_reload_last_successful",
            "Whether the last reload succeeded; 0 if an older configuration is in force.",
            status.refusal == nil ? 1 : 0)
        text.write(
            "historyd_log_dropped_lines", "Lines that the journal did not accept in time.", as: .counter,
            Double(droppedLines))
        text.write(
            "historyd_loop_stalls", "How often a piece of work held up the main loop for more than 20 ms.",
            as: .counter, Double(loopStalls.count))
        text.write(
            "historyd_loop_longest_stall_seconds", "The longest of these.", loopStalls.longest / .seconds(1))
        writeTemplates(&text)
        writeStores(&text)
        writeConsumers(&text)
        writeContexts(&text)
        writeHooks(&text)
        return text.end()
    }

    private func writeTemplates(_ text: inout MetricsText) {
        let templates = report.templates ?? []
        func write(
            _ name: String, _ help: String, as kind: MetricsText.Kind = .gauge,
            _ value: (TemplateReport) -> Double
        ) { text.write(name, help, as: kind, templates.map { ([("template", $0.name)], value($0)) }) }
        text.write(
            "historyd_template_stores", "Stores of the folder, by state, as historyctl status reports it.",
            templates.flatMap { template in
                [
                    ("open", template.open), ("waiting", template.waiting), ("paused", template.paused),
                    ("resting", template.resting),
                ].map {
                    ([("template", template.name), ("state", $0)], Double($1))
                }
            })
        write("historyd_template_watched", "Whether the folder is watched.") { $0.problem == nil ? 1 : 0 }
        write("historyd_template_failing_stores", "Stores with a problem, or with a consumer that has one.") {
            Double($0.failing)
        }
        write(
            "historyd_template_longest_lag_seconds",
            "Age of the oldest transaction that a consumer of these stores has not processed."
        ) { $0.longestLag }
        write(
            "historyd_template_dead_letters", "Calls of these stores that wait to be retried or dropped."
        ) { Double($0.deadLetters) }
        write(
            "historyd_template_refused_files", "Files in the folder that were refused since it is watched.",
            as: .counter
        ) { Double($0.refused) }
        var delays: [String: DurationHistogram] = [:]
        for store in report.stores {
            guard let template = store.template else { continue }
            for consumer in status.stores[store.name]?.consumers.values.map(\.delays) ?? [] {
                delays[template, default: DurationHistogram()].add(consumer)
            }
        }
        text.write(
            "historyd_template_delivery_delay_seconds",
            "Time from a transaction's commit to its delivery to a hook, of all stores of the folder.",
            histograms: templates.map { ([("template", $0.name)], delays[$0.name] ?? DurationHistogram()) })
    }

    private func writeStores(_ text: inout MetricsText) {
        func write(
            _ name: String, _ help: String, as kind: MetricsText.Kind = .gauge,
            _ value: (StoreReport) -> Double?
        ) {
            text.write(
                name, help, as: kind,
                stores.compactMap { store in value(store).map { ([("store", store.name)], $0) } })
        }
        func known(_ store: StoreReport) -> RuntimeStatus.Store? { status.stores[store.name] }
        // A paused store is open, unless something else is wrong with it.
        write("historyd_store_open", "Whether the store is open.") { $0.newest != nil ? 1 : 0 }
        write("historyd_store_paused", "Whether an operator holds the store's delivery.") {
            $0.state == .paused ? 1 : 0
        }
        write("historyd_store_tracked", "Whether all configured entities are tracked.") {
            known($0)?.isTracked ?? true ? 1 : 0
        }
        write(
            "historyd_store_state_writable",
            "Whether the daemon can save the positions of the store's consumers."
        ) { known($0)?.isStateFailing ?? false ? 0 : 1 }
        write("historyd_store_position", "The number of the newest change.") { Self.number($0.newest) }
        write("historyd_store_oldest_position", "The number up to which the history was deleted.") {
            Self.number($0.oldest)
        }
        write("historyd_store_changes", "Changes ever recorded in the store.", as: .counter) {
            Self.number($0.newest)
        }
        write(
            "historyd_store_history_changes",
            "Changes in the store's history, at most: deleted changes in between count."
        ) { store in
            Self.number(store.newest).flatMap { newest in
                Self.number(store.oldest).map { max(0, newest - $0) }
            }
        }
        write(
            "historyd_store_history_size_bytes",
            "Size of the store's history, estimated from 64 of its changes. Deleted changes in between count."
        ) { historySizes[$0.name].map { Double($0) } }
        write("historyd_store_size_bytes", "Size of the store's file.") { size($0.path).map { Double($0) } }
        write("historyd_store_wal_size_bytes", "Size of the store's write-ahead log.") {
            Double(size($0.path + "-wal") ?? 0)
        }
        write(
            "historyd_cleanup_last_run_timestamp_seconds",
            "When history of the store was last deleted, in seconds since 1970."
        ) { status.counters.stores[$0.name]?.cleanedAt.map { Double($0) / 1000 } }
        write(
            "historyd_cleanup_deleted_changes",
            "Changes deleted from the store's history. Kept over restarts.", as: .counter
        ) { Double(status.counters.stores[$0.name]?.deletedChanges ?? 0) }
        write(
            "historyd_cleanup_steps", "Transactions of cleanups since the daemon started.", as: .counter
        ) { known($0).map { Double($0.cleaningEffort.steps) } }
        write(
            "historyd_cleanup_refusals",
            "How often a step of a cleanup was put off because another connection was in a transaction.",
            as: .counter
        ) { known($0).map { Double($0.cleaningEffort.refusals) } }
        write(
            "historyd_cleanup_steps_at_risk",
            "Steps of cleanups that were taken although another connection was in a transaction, which can fail by it.",
            as: .counter
        ) { known($0).map { Double($0.cleaningEffort.atRisk) } }
        write(
            "historyd_cleanup_longest_wait_seconds",
            "For how long a step of a cleanup was put off at most since the daemon started."
        ) { known($0).map { $0.cleaningEffort.longestWait / .seconds(1) } }
    }

    private func writeConsumers(_ text: inout MetricsText) {
        let consumers = stores.flatMap(\.consumers)
        func labels(_ consumer: ConsumerReport) -> MetricsText.Labels {
            [("store", consumer.store), ("consumer", consumer.consumer)]
        }
        func write(
            _ name: String, _ help: String, as kind: MetricsText.Kind = .gauge,
            _ value: (ConsumerReport) -> Double?
        ) {
            text.write(
                name, help, as: kind,
                consumers.compactMap { consumer in value(consumer).map { (labels(consumer), $0) } })
        }
        text.write(
            "historyd_consumer_state",
            "1 for the state that the consumer is in, as historyctl consumers reports it.",
            consumers.flatMap { consumer in
                ConsumerReport.State.allCases.map { state in
                    (labels(consumer) + [("state", state.rawValue)], consumer.state == state ? 1 : 0)
                }
            })
        write(
            "historyd_consumer_position", "The number of the last change that the consumer has processed."
        ) { Self.number($0.cursor) }
        write(
            "historyd_consumer_lag_transactions",
            "Transactions that the consumer has not processed; counting ends after 10000 changes."
        ) { $0.lag.map { Double($0.transactions) } }
        write(
            "historyd_consumer_lag_seconds",
            "Age of the oldest transaction that the consumer has not processed; 0 if it has caught up."
        ) { $0.lag?.seconds }
        write(
            "historyd_consumer_lag_limit_seconds",
            "Beyond this lag the consumer is not healthy: healthyLag, and its batchWindow."
        ) { consumer in
            let limit = status.healthyLags[consumer.store] ?? StoreConfiguration.defaultHealthyLag
            let window = status.stores[consumer.store]?.consumers[consumer.consumer]?.batchWindow ?? .zero
            return (limit + window) / .seconds(1)
        }
        text.write(
            "historyd_delivery_delay_seconds",
            "Time from a transaction's commit to its delivery to a hook.",
            histograms: consumers.compactMap { consumer in
                status.stores[consumer.store]?.consumers[consumer.consumer].map {
                    (labels(consumer), $0.delays)
                }
            })
        write("historyd_dead_letters", "Calls that were given up, and wait to be retried or dropped.") {
            $0.deadLetters.map { Double($0) } ?? 0
        }
        write("historyd_dead_letters_kept", "Calls ever given up. Kept over restarts.", as: .counter) {
            Double(status.counters.stores[$0.store]?.deadLetters[$0.consumer] ?? 0)
        }
    }

    private func writeContexts(_ text: inout MetricsText) {
        func write(
            _ kind: String, as label: String, up: String, _ help: String, lag: String, of missing: String,
            limit: Int = 10_000, isUp: (ContextReport) -> Bool = { $0.problem == nil }
        ) {
            let contexts = stores.flatMap(\.consumers).flatMap { consumer in
                consumer.contexts.filter { $0.kind == kind }.map { context in
                    (
                        [("store", consumer.store), ("consumer", consumer.consumer), (label, context.name)]
                            as MetricsText.Labels, context
                    )
                }
            }
            text.write(up, help, contexts.map { ($0, isUp($1) ? 1 : 0) })
            text.write(
                "\(lag)_transactions", "Transactions that \(missing); counting ends after \(limit) changes.",
                contexts.compactMap { labels, context in
                    context.lag.map { (labels, Double($0.transactions)) }
                })
            text.write(
                "\(lag)_seconds", "Age of the oldest transaction that \(missing).",
                contexts.compactMap { labels, context in context.lag.map { (labels, $0.seconds) } })
        }
        write(
            "replica", as: "replica", up: "historyd_replica_up", "Whether the replica can be written.",
            lag: "historyd_replica_lag", of: "the replica does not show")
        write(
            "plugin", as: "context", up: "historyd_plugin_context_up",
            "Whether the plugin takes in the changes of its context.", lag: "historyd_plugin_context_lag",
            of: "the plugin's context does not show")
        write(
            "feed", as: "feed", up: "historyd_feed_connected", "Whether a program is connected to the feed.",
            lag: "historyd_feed_lag", of: "the feed's program has not acknowledged", limit: 5000
        ) { $0.feed?.state == .connected }
    }

    private func writeHooks(_ text: inout MetricsText) {
        func write(
            _ name: String, _ help: String, as kind: MetricsText.Kind = .gauge, _ value: (String) -> Double
        ) { text.write(name, help, as: kind, hooks.map { ([("hook", $0)], value($0)) }) }
        write(
            "historyd_hook_calls", "Calls of the hook that succeeded since the daemon started.", as: .counter
        ) { Double(status.hooks[$0]?.calls ?? 0) }
        write(
            "historyd_hook_failures", "Attempts to call the hook that failed. Kept over restarts.",
            as: .counter
        ) { Double(status.counters.hooks[$0]?.failures ?? 0) }
        write(
            "historyd_hook_retries",
            "Failed attempts after which the call is tried again. Kept over restarts.", as: .counter
        ) { Double(status.counters.hooks[$0]?.retries ?? 0) }
        write("historyd_hook_held", "Consumers that wait for the hook, whose last attempt has failed.") {
            hook in
            Double(status.stores.values.flatMap(\.consumers.values).count { $0.heldHooks.contains(hook) })
        }
        text.write(
            "historyd_hook_call_duration_seconds", "Duration of the hook's successful calls.",
            histograms: hooks.map { ([("hook", $0)], status.hooks[$0]?.callTimes ?? DurationHistogram()) })
        let plugins = report.plugins ?? []
        text.write(
            "historyd_plugin_up", "Whether the plugin's process works.",
            plugins.map { ([("plugin", $0.name)], $0.state == .running ? 1 : 0) })
        text.write(
            "historyd_plugin_process_ends",
            "How often the plugin's process ended unexpectedly, or could not be started. Kept over restarts.",
            as: .counter,
            plugins.map { ([("plugin", $0.name)], Double(status.counters.pluginEnds[$0.name] ?? 0)) })
    }

    private static func number(_ token: String?) -> Double? {
        token.flatMap { HistoryToken($0) }.map { Double($0.number) }
    }
}
