import PersistentHistory

/// Notifies consumers that have contexts with a plugin when a process of it begins. A reload, a restart or a crash puts one
/// in the place of another.
final class PluginStarts: Sendable {
    private struct Watchers {
        var lastNumber = 0
        var all: [Int: (plugin: String, processes: AsyncStream<Int>.Continuation)] = [:]
    }

    private let watchers = Locked(Watchers())

    func began(_ process: Int, of plugin: String) {
        let interested = watchers.withLock { $0.all.values.filter { $0.plugin == plugin } }
        for watcher in interested { watcher.processes.yield(process) }
    }

    /// The processes that begin from now on. What is not read in time is left out but for the newest.
    func processes(of plugin: String) -> AsyncStream<Int> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = watchers.withLock { watchers in
                watchers.lastNumber += 1
                watchers.all[watchers.lastNumber] = (plugin, continuation)
                return watchers.lastNumber
            }
            continuation.onTermination = { [watchers] _ in watchers.withLock { $0.all[number] = nil } }
        }
    }
}
