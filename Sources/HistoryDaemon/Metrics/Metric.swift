/// Every metric that the daemon exposes. This is the only list of them: the page about monitoring, the alert rules and
/// the dashboard are checked against it.
///
/// Names follow https://prometheus.io/docs/practices/naming/: base units, `_total` for counters.
enum Metric: String, CaseIterable, Sendable {
    case buildInfo = "historyd_build_info"
    case startTime = "historyd_start_time_seconds"
    case healthStatus = "historyd_health_status"
    case reloadTime = "historyd_reload_last_success_timestamp_seconds"
    case reloadSuccess = "historyd_reload_last_successful"
    case droppedLines = "historyd_log_dropped_lines"
    case loopStalls = "historyd_loop_stalls"
    case longestLoopStall = "historyd_loop_longest_stall_seconds"

    case storeOpen = "historyd_store_open"
    case storePaused = "historyd_store_paused"
    case storeTracked = "historyd_store_tracked"
    case storeStateWritable = "historyd_store_state_writable"
    case storePosition = "historyd_store_position"
    case storeOldestPosition = "historyd_store_oldest_position"
    case storeChanges = "historyd_store_changes"
    case storeHistoryChanges = "historyd_store_history_changes"
    case storeHistorySize = "historyd_store_history_size_bytes"
    case storeSize = "historyd_store_size_bytes"
    case storeWALSize = "historyd_store_wal_size_bytes"
    case cleanupTime = "historyd_cleanup_last_run_timestamp_seconds"
    case cleanupDeleted = "historyd_cleanup_deleted_changes"

    case consumerState = "historyd_consumer_state"
    case consumerPosition = "historyd_consumer_position"
    case consumerLagTransactions = "historyd_consumer_lag_transactions"
    case consumerLag = "historyd_consumer_lag_seconds"
    case deliveryDelay = "historyd_delivery_delay_seconds"
    case deadLetters = "historyd_dead_letters"
    case deadLettersKept = "historyd_dead_letters_kept"

    case replicaUp = "historyd_replica_up"
    case replicaLagTransactions = "historyd_replica_lag_transactions"
    case replicaLag = "historyd_replica_lag_seconds"
    case pluginContextUp = "historyd_plugin_context_up"
    case pluginContextLagTransactions = "historyd_plugin_context_lag_transactions"
    case pluginContextLag = "historyd_plugin_context_lag_seconds"
    case feedConnected = "historyd_feed_connected"
    case feedLagTransactions = "historyd_feed_lag_transactions"
    case feedLag = "historyd_feed_lag_seconds"

    case hookCalls = "historyd_hook_calls"
    case hookFailures = "historyd_hook_failures"
    case hookRetries = "historyd_hook_retries"
    case hookHeld = "historyd_hook_held"
    case hookDuration = "historyd_hook_call_duration_seconds"
    case pluginUp = "historyd_plugin_up"
    case pluginEnds = "historyd_plugin_process_ends"

    enum Kind: String {
        case gauge, counter, histogram
    }

    var kind: Kind {
        switch self {
        case .droppedLines, .loopStalls, .storeChanges, .cleanupDeleted, .deadLettersKept, .hookCalls,
            .hookFailures,
            .hookRetries, .pluginEnds:
            .counter
        case .deliveryDelay, .hookDuration: .histogram
        default: .gauge
        }
    }

    /// As OpenMetrics has it, the last part of the name.
    var unit: String? { ["seconds", "bytes"].first { rawValue.hasSuffix("_\($0)") } }

    /// The name of its samples, as it is queried.
    var sampleName: String { kind == .counter ? rawValue + "_total" : rawValue }

    var help: String {
        switch self {
        case .buildInfo: "Always 1; the label version tells which historyd runs."
        case .startTime: "When the daemon started, in seconds since 1970."
        case .healthStatus: "0 healthy, 1 degraded, 2 failing, as historyctl health reports it."
        case .reloadTime: "When the configuration in force was read, in seconds since 1970."
        case .reloadSuccess: "Whether the last reload succeeded; 0 if an older configuration is in force."
        case .droppedLines: "Lines that the journal did not accept in time."
        case .loopStalls: "How often a piece of work held up the main loop for more than 20 ms."
        case .longestLoopStall: "The longest of these."
        case .storeOpen: "Whether the store is open."
        case .storePaused: "Whether an operator holds the store's delivery."
        case .storeTracked: "Whether all configured entities are tracked."
        case .storeStateWritable: "Whether the daemon can save the positions of the store's consumers."
        case .storePosition: "The number of the newest change."
        case .storeOldestPosition: "The number up to which the history was deleted."
        case .storeChanges: "Changes ever recorded in the store."
        case .storeHistoryChanges:
            "Changes in the store's history, at most: deleted changes in between count."
        case .storeHistorySize:
            "Size of the store's history, estimated from 64 of its changes. Deleted changes in between count."
        case .storeSize: "Size of the store's file."
        case .storeWALSize: "Size of the store's write-ahead log."
        case .cleanupTime: "When history of the store was last deleted, in seconds since 1970."
        case .cleanupDeleted: "Changes deleted from the store's history. Kept over restarts."
        case .consumerState: "1 for the state that the consumer is in, as historyctl consumers reports it."
        case .consumerPosition: "The number of the last change that the consumer has processed."
        case .consumerLagTransactions:
            "Transactions that the consumer has not processed; counting ends after 10000 changes."
        case .consumerLag:
            "Age of the oldest transaction that the consumer has not processed; 0 if it has caught up."
        case .deliveryDelay: "Time from a transaction's commit to its delivery to a hook."
        case .deadLetters: "Calls that were given up, and wait to be retried or dropped."
        case .deadLettersKept: "Calls ever given up. Kept over restarts."
        case .replicaUp: "Whether the replica can be written."
        case .replicaLagTransactions:
            "Transactions that the replica does not show; counting ends after 10000 changes."
        case .replicaLag: "Age of the oldest transaction that the replica does not show."
        case .pluginContextUp: "Whether the plugin takes in the changes of its context."
        case .pluginContextLagTransactions:
            "Transactions that the plugin's context does not show; counting ends after 10000 changes."
        case .pluginContextLag: "Age of the oldest transaction that the plugin's context does not show."
        case .feedConnected: "Whether a program is connected to the feed."
        case .feedLagTransactions:
            "Transactions that the feed's program has not acknowledged; counting ends after 5000 changes."
        case .feedLag: "Age of the oldest transaction that the feed's program has not acknowledged."
        case .hookCalls: "Calls of the hook that succeeded since the daemon started."
        case .hookFailures: "Attempts to call the hook that failed. Kept over restarts."
        case .hookRetries: "Failed attempts after which the call is tried again. Kept over restarts."
        case .hookHeld: "Consumers that wait for the hook, whose last attempt has failed."
        case .hookDuration: "Duration of the hook's successful calls."
        case .pluginUp: "Whether the plugin's process works."
        case .pluginEnds:
            "How often the plugin's process ended unexpectedly, or could not be started. Kept over restarts."
        }
    }
}
