import Glibc
import HistoryConfiguration
import HistoryControl
import PersistentHistory

extension ControlHandler {
    /// The response to `GET /v1/metrics`.
    func metrics() async -> [UInt8] {
        let report = await status()
        let detailed = Set(await engine.folders.map(\.template).filter(\.hasMetricsPerStore).map(\.name))
        let measured = await engine.stores.filter { store in
            store.configuration.template.map { detailed.contains($0) } ?? true
        }
        let sizes = await forEachStore(measured) { store in
            // A store that is not open, or is locked at the moment, has no size.
            (store.name, try? await store.control.historySize())
        }
        return MetricsReport(
            report: report, status: dependencies.status.read { $0 },
            hooks: await engine.catalog.hooks.map(\.fullName), startedAt: startedAt,
            configuredAt: configuredAt.withLock { $0 }, droppedLines: LogOutput.droppedLines,
            loopStalls: (try? HistoryLoop.shared().stalls) ?? (0, .zero), now: .now,
            historySizes: Dictionary(sizes.compactMap { name, size in size.map { (name, $0) } }) { $1 },
            size: Self.size, detailed: detailed
        ).text()
    }

    /// How long a report of health waits for stores that are opened for the first time.
    private static let opening: Duration = .seconds(2)

    /// The response to `GET /v1/health`.
    func health() async -> HealthReport {
        // What a consumer lacks is known once its store is open.
        await engine.waitForStores(atMost: Self.opening)
        await measure()
        return dependencies.status.read { $0.health(at: .now) }
    }

    private static func size(_ path: String) -> Int64? {
        var status = stat()
        return stat(path, &status) == 0 ? Int64(status.st_size) : nil
    }
}
