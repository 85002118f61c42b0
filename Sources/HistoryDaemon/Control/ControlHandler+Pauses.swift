import HistoryControl
import Logging
import PersistentHistory

/// Pauses and resumes the delivery of stores and consumers.
extension ControlHandler {
    /// A store, or one of its consumers, that is paused or resumed.
    private struct Paused {
        let store: RunningStore
        let consumer: String?

        var holder: PassControl.Holder { consumer.map { .consumer(BinaryText($0)) } ?? .operatorOrder }
        var isPaused: Bool { store.control.passes.isHeld(by: holder) }
        var kept: KeptPauses.Pause { .init(store: store.name, consumer: consumer) }
        var title: String {
            consumer.map { "Consumer \"\($0)\" of store \"\(store.name)\"" } ?? "Store \"\(store.name)\""
        }
        var metadata: Logger.Metadata {
            var metadata: Logger.Metadata = ["store": "\(store.name)"]
            if let consumer { metadata["consumer"] = "\(consumer)" }
            return metadata
        }
    }

    private func paused(_ name: String?, _ consumer: String?) async throws(ControlError) -> [Paused] {
        guard let consumer else { return try await stores(name).map { Paused(store: $0, consumer: nil) } }
        // A pattern stands for all stores that match.
        let stores =
            name.map(NamePattern.isPattern) ?? false
            ? try await stores(name, with: consumer) : [try await store(name, with: consumer)]
        return stores.map { Paused(store: $0, consumer: consumer) }
    }

    /// Returns when the current batches have ended.
    func pause(_ name: String?, consumer: String?, keep: Bool, _ peer: Peer) async throws -> PauseReport {
        let all = try await paused(name, consumer)
        for each in all where !each.isPaused {
            each.store.control.passes.hold(by: each.holder)
            let until =
                keep ? "until it is resumed, also over restarts" : "until it is resumed, or the daemon ends"
            logger.report(.paused, "\(each.title) is paused, by \(peer), \(until).", metadata: each.metadata)
        }
        await showPaused()
        for each in all { await each.store.control.passes.quiet(consumer) }
        if keep { try await keepPauses(all, true) }
        return report(all)
    }

    func resume(_ name: String?, consumer: String?, _ peer: Peer) async throws -> PauseReport {
        let all = try await paused(name, consumer)
        // The file is written first, so that a restart does not pause again what was resumed.
        try await keepPauses(all, false)
        for each in all where each.isPaused {
            each.store.control.passes.release(by: each.holder)
            logger.report(.resumed, "\(each.title) goes on, by \(peer).", metadata: each.metadata)
        }
        await showPaused()
        return report(all)
    }

    private func keepPauses(_ all: [Paused], _ kept: Bool) async throws {
        let pauses = all.map(\.kept).filter { engine.keptPauses.contains($0) != kept }
        // It waits for a disk, and for a reload, only where there is something to write.
        if pauses.isEmpty { return }
        try await jobs.perform { [engine] in
            try await onPool { () async throws in try engine.keptPauses.set(pauses, kept: kept) }
        }
    }

    private func showPaused() async {
        let stores = await engine.stores
        dependencies.status.update { status in for store in stores { status.setPaused(of: store) } }
    }

    private func report(_ all: [Paused]) -> PauseReport {
        PauseReport(
            stores: all.map { each in
                var report = PauseReport.Store(name: each.store.name, paused: each.isPaused)
                report.consumer = each.consumer
                if each.isPaused { report.kept = engine.keptPauses.contains(each.kept) }
                if each.consumer == nil, !each.isPaused {
                    let others = each.store.pausedConsumers
                    if !others.isEmpty { report.pausedConsumers = others }
                }
                return report
            })
    }
}

extension RunningStore {
    /// The consumers that are paused by themselves.
    var pausedConsumers: [String] {
        served.consumers.map(\.author).filter { control.passes.isHeld(by: .consumer(BinaryText($0))) }
    }
}

extension RuntimeStatus {
    /// Copies a store's pauses into the status.
    mutating func setPaused(of store: RunningStore) {
        setPaused(store.control.passes.isHeld(by: .operatorOrder), store.name)
        let paused = Set(store.pausedConsumers)
        for consumer in store.served.consumers.map(\.author) {
            let isPaused = paused.contains(consumer)
            if isPaused || stores[store.name]?.consumers[consumer]?.isPaused == true {
                stores[store.name, default: Store()].consumers[consumer, default: Consumer()].isPaused =
                    isPaused
            }
        }
    }
}
