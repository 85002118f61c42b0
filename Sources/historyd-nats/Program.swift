import Foundation
import HistoryConfiguration
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// All publishers and followers of a configuration, each on its own thread.
struct Program: Sendable {
    let configuration: NATSConfiguration
    let logger: Logger
    /// The status of publishers and followers so far, which continues over a reload.
    var earlier: [WorkerStatus] = []
    /// Called when one of them starts or stops working.
    var statusChanged: @Sendable () -> Void = {}

    /// Publishes and follows until a command ends it.
    ///
    /// - Parameters:
    ///   - observer: Watches the stores.
    ///   - isUp: Receives the status of publishers and followers, once they run.
    ///   - next: Returns when the program is to end.
    /// - Throws: What a part throws.
    func run(
        _ observer: StoreObserver, isUp: ([WorkerStatus]) -> Void, until next: () async -> Void
    ) async throws {
        let (publishers, followers) = workers()
        let wakeUps = publishers.map(\.wakeUp) + followers.map(\.wakeUp)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for publisher in publishers {
                group.addTask { try await watch(publisher, observer) }
                if let feed = publisher.feed { group.addTask { await feed.run() } }
                group.addTask { await onPool { publisher.publisher.run() } }
            }
            for follower in followers { group.addTask { await onPool { follower.run() } } }
            isUp(publishers.map(\.status) + followers.map(\.status))
            await next()
            for wakeUp in wakeUps { wakeUp.stop() }
            group.cancelAll()
            while let result = await group.nextResult() {
                if case .failure(let error) = result, !(error is CancellationError) { throw error }
            }
        }
    }

    /// Publishes and follows everything there is, once.
    ///
    /// - Returns: Whether everything succeeded.
    func runOnce() async -> Bool {
        let (publishers, followers) = workers()
        return await withTaskGroup(of: Bool.self) { group in
            for publisher in publishers {
                group.addTask {
                    await attempt(publisher.publication.store) {
                        try publisher.publisher.runOnce(newEpoch: false)
                    }
                }
            }
            var isLevel = await group.reduce(true) { $0 && $1 }
            // They also follow what this program publishes itself.
            for follower in followers {
                group.addTask { await attempt(follower.following.path) { try follower.runOnce() } }
            }
            isLevel = await group.reduce(isLevel) { $0 && $1 }
            return isLevel
        }
    }

    /// Starts a new epoch: the operator has decided that the store is right and its stream is not.
    func publishNewEpoch(_ name: String) async -> Bool {
        guard let publisher = workers().publishers.first(where: { $0.publication.name == name }) else {
            logger.error("The configuration publishes nothing as \"\(name)\".")
            return false
        }
        return await attempt(publisher.publication.store) {
            try publisher.publisher.takeOver(newEpoch: true)
        }
    }

    private func attempt(_ path: String, _ body: @escaping @Sendable () throws -> Void) async -> Bool {
        await onPool { [logger] in
            do {
                try body()
                return true
            } catch {
                logger.error("\"\(path)\": \(error).")
                return false
            }
        }
    }

    // MARK: Parts

    private struct PublishingWorker: Sendable {
        let publisher: Publisher
        let feed: FeedAcknowledger?
        var publication: NATSConfiguration.Publication { publisher.publication }
        var wakeUp: WorkerSignal { publisher.wakeUp }
        var status: WorkerStatus { publisher.status }
    }

    /// Nil outside of the unit.
    static var stateFolder: String? {
        ProcessInfo.processInfo.environment["STATE_DIRECTORY"]?.split(separator: ":").first.map(String.init)
    }

    private func workers() -> (publishers: [PublishingWorker], followers: [Follower]) {
        let folder = Self.stateFolder
        let publishers = configuration.publish.map { publication in
            let feed = publication.feed.map { FeedAcknowledger($0, hold: publication.hold, logger: logger) }
            let publisher = Publisher(
                connect: NATSConnection.connect, configuration: configuration, publication: publication,
                folder: folder ?? NSTemporaryDirectory(),
                memory: MemoryFile(in: folder, of: publication.name), wakeUp: WorkerSignal(),
                status: status(.publish, publication.name, publication.store), logger: logger,
                acknowledged: { number in feed?.acknowledged(through: number) })
            return PublishingWorker(publisher: publisher, feed: feed)
        }
        let followers = configuration.follow.map { following in
            Follower(
                connect: NATSConnection.connect, configuration: configuration, following: following,
                wakeUp: WorkerSignal(),
                status: status(.follow, following.name, following.path), logger: logger)
        }
        return (publishers, followers)
    }

    private func status(_ role: WorkerReport.Role, _ name: String, _ path: String) -> WorkerStatus {
        let known = earlier.first { status in
            let report = status.plain
            return report.role == role && report.name == name && report.path == path
        }
        return known ?? WorkerStatus(role, name: name, path: path, changed: statusChanged)
    }

    /// Wakes up a publisher with each signal of its store: the publisher reads the commits itself.
    private func watch(_ worker: PublishingWorker, _ observer: StoreObserver) async throws {
        while !Task.isCancelled {
            do {
                // The first signal stands for commits from before the watch. Resolving the store's path may
                // wait for a disk.
                let signals = try await onPool { [store = worker.publication.store] () async throws in
                    try observer.watch(store)
                }
                try await signals.forEach { worker.wakeUp.signal(.commit) }
                return
            } catch {
                logger.warning("The store \"\(worker.publication.store)\" cannot be watched: \(error).")
                try await Task.sleep(for: .seconds(5), clock: .loop)
            }
        }
    }
}
