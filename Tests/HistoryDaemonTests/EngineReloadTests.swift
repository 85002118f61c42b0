import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

/// A reload is all or nothing.
@Suite struct EngineReloadTests {
    @Test func oneThatFailsWhileItIsAppliedChangesNothing() async throws {
        let folder = try TemporaryFolder()
        func configure(_ store: String, level: String) throws {
            try folder.write(
                "historyd.json",
                #"{"version": 1, "logLevel": "\#(level)", "stores": [{"name": "s", "path": "\#(store).sqlite"}]}"#
            )
        }
        try configure("one", level: "error")
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        let level = LiveLogLevel(.error)
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let engine = try Engine(
            loaded, persisted: [],
            Engine.Surroundings(
                stateFolder: folder.path, logger: logger, level: level,
                notifier: ServiceNotifier(logger: logger),
                status: LiveStatus(notifier: ServiceNotifier(logger: logger))))
        // From now on no further store can be watched.
        engine.observer.stop()
        try await engine.observer.run()

        try configure("two", level: "debug")
        await #expect(throws: ControlError.self) { try await engine.reload() }
        #expect(level.level == .error)
        #expect(await engine.loaded == loaded)
    }
}
