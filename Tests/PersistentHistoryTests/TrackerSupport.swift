import Foundation
import GRDB
import PersistentHistory
import TestSupport

/// A store with people and items, and what a program that tracks it needs: by the public interface alone.
final class TrackedStore: Sendable {
    private let folder: TemporaryFolder
    let path: String
    let replica: ReplicaContext

    init() throws {
        folder = try TemporaryFolder()
        path = folder.file("store.sqlite")
        replica = ReplicaContext(name: "view", path: folder.file("view.sqlite"), entities: nil)
        try DatabaseQueue(path: path).writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA journal_mode = WAL;
                    CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT);
                    CREATE TABLE item (
                        id INTEGER PRIMARY KEY, uniqueID TEXT, createdAt INTEGER, title TEXT, note TEXT);
                    """)
        }
        try Tracking.track(path, ["person": ["name", "email"], "item": nil])
    }

    var stateFolder: String { folder.path }

    func tracker(
        _ author: String = "MainApp", others: [String] = ["Widget"], batch: [String] = ["Importer"],
        contexts: [ReplicaContext] = [], deliversUnlisted: Bool = true, clean: TransactionCleanStrategy = .none,
        maximumDuration: Duration? = nil, reporter: any PipelineReporter = SilentReporter(),
        autoStart: Bool = true
    ) -> PersistentHistoryTracker {
        var configuration = PersistentHistoryTracker.Configuration(
            store: path, currentAuthor: author, allAuthors: [author] + others + batch, stateFolder: stateFolder)
        configuration.contexts = contexts
        configuration.batchAuthors = batch
        configuration.deliversUnlisted = deliversUnlisted
        configuration.cleanStrategy = clean
        configuration.maximumDuration = maximumDuration
        configuration.reporter = reporter
        configuration.autoStart = autoStart
        return PersistentHistoryTracker(configuration)
    }

    /// One transaction.
    @discardableResult
    func write(_ sql: String, as author: String = "Widget") throws -> HistoryToken? {
        try AuthoredSQL.run(sql, on: path, author: author)
    }

    /// A query's rows, with a space between their values.
    func rows(_ sql: String) throws -> [String] { try Self.rows(sql, path) }
    func replicaRows(_ sql: String) throws -> [String] { try Self.rows(sql, replica.path) }

    private static func rows(_ sql: String, _ path: String) throws -> [String] {
        try DatabaseQueue(path: path).read { db in
            try Row.fetchAll(db, sql: sql).map { row in
                row.databaseValues.map { $0.storage.value.map { "\($0)" } ?? "-" }.joined(separator: " ")
            }
        }
    }
}

/// What closures say, in order.
actor Notes {
    private(set) var all: [String] = []
    private var waiters: [(count: Int, waiter: CheckedContinuation<Void, Never>)] = []

    func add(_ note: String) {
        all.append(note)
        for waiter in waiters where waiter.count <= all.count { waiter.waiter.resume() }
        waiters.removeAll { $0.count <= all.count }
    }

    /// Waits for so many; the suite's time limit ends a wait for ever.
    func first(_ count: Int) async -> [String] {
        if all.count < count { await withCheckedContinuation { waiters.append((count, $0)) } }
        return Array(all.prefix(count))
    }
}

/// Runs a tracker beside the body, and ends it.
func running(_ tracker: PersistentHistoryTracker, _ body: () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await tracker.run() }
        try await body()
        group.cancelAll()
        try await group.waitForAll()
    }
}
