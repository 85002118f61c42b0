import PersistentHistory
import ServiceLifecycle

/// The observer of all stores. It is created when the first store is to be watched: if the limit of inotify
/// instances is reached, the stores wait for that, and the daemon does not end.
final class SharedObserver: Service {
    private let current = Locked<StoreObserver?>(nil)
    private let observers: AsyncStream<StoreObserver>
    private let made: AsyncStream<StoreObserver>.Continuation

    init() { (observers, made) = AsyncStream.makeStream() }

    /// Starts to watch a store.
    ///
    /// - Throws: `ObserverError`; the call can be repeated.
    func watch(_ path: String) throws(ObserverError) -> StoreSignals {
        let observer = try current.withLock { current throws(ObserverError) in
            if let current { return current }
            let observer = try StoreObserver()
            made.yield(observer)
            current = observer
            return observer
        }
        return try observer.watch(path)
    }

    func run() async throws {
        await withGracefulShutdownHandler {
            for await observer in observers {
                do throws(ObserverError) {
                    try await observer.run()
                } catch {
                    // Its stores get the same error, report it, and create another observer.
                    current.withLock { $0 = nil }
                }
            }
        } onGracefulShutdown: {
            self.made.finish()
            self.current.withLock { $0 }?.stop()
        }
    }
}
