import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryDaemon

/// A reload is all or nothing.
@Suite struct EngineReloadTests {
    @Test func oneThatIsRefusedChangesNothing() async throws {
        let folder = try TemporaryFolder()
        try folder.write(
            "historyd.json",
            #"{"version": 1, "logLevel": "error", "stores": [{"name": "s", "path": "one.sqlite"}]}"#)
        let loaded = try LoadedConfiguration.load(file: folder.file("historyd.json"))
        let level = LiveLogLevel(.error)
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        logger.logLevel = .critical
        let engine = Engine(
            loaded, persisted: [],
            Engine.Dependencies(
                stateFolder: folder.path, logger: logger, level: level,
                notifier: ServiceNotifier(logger: logger),
                status: LiveStatus(notifier: ServiceNotifier(logger: logger)),
                deliveries: DeliveryLog(logger: logger)))
        try folder.write(
            "historyd.json",
            #"{"version": 1, "logLevel": "debug", "stores": [{"name": "s", "path": "two.sqlite", "poll": "never"}]}"#
        )
        await #expect(throws: ControlError.self) { try await engine.reload() }
        #expect(level.level == .error)
        #expect(await engine.loaded == loaded)
    }
}
