import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon
@testable import PersistentHistory

/// A reload is all or nothing.
@Suite(.timeLimit(.minutes(60))) struct EngineReloadTests {
    private let folder: TemporaryFolder
    private let level = LiveLogLevel(.error)
    private let loaded: LoadedConfiguration
    private let engine: Engine

    init() throws {
        folder = try TemporaryFolder()
        try folder.write(
            "historyd.json",
            #"{"version": 1, "logLevel": "error", "stores": [{"name": "s", "path": "one.sqlite"}]}"#)
        loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        engine = Engine(
            loaded, persisted: [],
            Engine.Dependencies(
                stateFolder: folder.path, logger: logger, level: level,
                notifier: ServiceNotifier(logger: logger),
                status: LiveStatus(notifier: ServiceNotifier(logger: logger)),
                deliveries: DeliveryLog(logger: logger)))
    }

    @Test func batchesEndBeforeTheirStoreOrPluginDoes() async throws {
        await engine.begin()
        let store = try #require(await engine.stores.first)
        let passes = store.control.passes
        #expect(passes.tryEnter())
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { [engine] in await engine.finish([store], within: .seconds(3600)) }
            while !passes.isHeld(by: .reload) { try await Task.sleep(for: .milliseconds(1)) }
            // What must not happen is watched for a while.
            await wait(atMost: .milliseconds(300)) { await store.stop.wait() }
            #expect(!store.stop.isSignaled)
            passes.leave()
            await store.stop.wait()
            // The store's service does not run here.
            group.cancelAll()
        }
    }

    @Test func oneThatIsRefusedChangesNothing() async throws {
        try folder.write(
            "historyd.json",
            #"{"version": 1, "logLevel": "debug", "stores": [{"name": "s", "path": "two.sqlite", "poll": "never"}]}"#
        )
        await #expect(throws: ControlError.self) { try await engine.reload() }
        #expect(level.level == .error)
        #expect(await engine.loaded == loaded)
    }
}
