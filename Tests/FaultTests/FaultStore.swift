import Foundation
import GRDB
import GRDBSQLite
import TestSupport

@testable import PersistentHistory

/// A store, its state and a replica in one folder, which a test may put on a disk that fails.
struct FaultStore: Sendable {
    let folder: String
    var name = "s"
    /// Whether a feed is configured, and a replica.
    var hasFeed = true
    var hasReplica = true

    var path: String { "\(folder)/\(name).sqlite" }
    var stateFolder: String { "\(folder)/state" }
    var replica: ReplicaContext {
        ReplicaContext(name: "view", path: "\(folder)/view.sqlite", entities: nil)
    }

    static let feed = FeedID(consumer: "Main", context: "live")

    /// Makes the store, with the tables t and u.
    func make(journal: String = "WAL") throws {
        try makeUntracked(journal: journal)
        try Tracking.track(path, ["t": nil, "u": nil])
    }

    func makeUntracked(journal: String = "WAL") throws {
        try FileManager.default.createDirectory(atPath: stateFolder, withIntermediateDirectories: true)
        try write(
            """
            PRAGMA journal_mode = \(journal); CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER);
            CREATE TABLE u (id INTEGER PRIMARY KEY, n INTEGER)
            """, as: nil)
    }

    /// Runs SQL on a connection of an application, which syncs each commit.
    func write(_ sql: String, as author: String? = "App") throws {
        try Self.access(path) { db in
            try db.execute(sql: "PRAGMA synchronous = FULL")
            if let author {
                try db.installHistory()
                try db.declareAuthor(author)
            }
            try db.execute(sql: sql)
        }
    }

    /// Opens a database as any program does, for as long as the body runs.
    static func access<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        var configuration = Configuration()
        configuration.busyMode = .timeout(5)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        let result = Result { try queue.writeWithoutTransaction(body) }
        try queue.close()
        return try result.get()
    }

    // MARK: Serving

    var served: ServedStore {
        let rule = DeliveryRule(authors: ["Main"])
        var served = ServedStore(
            name: name, path: path, entities: ["t": nil, "u": nil], rule: rule,
            consumers: [
                Consumer(
                    store: name, author: "Main", rule: rule, contexts: hasReplica ? [replica] : [],
                    feeds: hasFeed ? [FeedContext(name: Self.feed.context)] : [])
            ])
        // The tests write in this process, too.
        served.isUsedInProcess = true
        return served
    }

    /// Works off everything there is.
    func serve(_ hooks: [Hook], _ events: EventList = EventList(), stop: OneShotEvent = OneShotEvent())
        async throws
    {
        try await StoreRunner(
            served, hooks: HookRegistry(hooks), stateFolder: stateFolder, reporter: events, stop: stop
        ).runOnce()
    }

    /// A program at the feed takes what there is for it, and acknowledges it.
    ///
    /// - Parameter sent: Is given the lines before they are acknowledged.
    func readFeed(sent: ([String]) -> Void = { _ in }) async throws {
        let reader = try HistoryReader(path: path)
        defer { try? reader.close() }
        let state = try StateDatabase(folder: stateFolder, store: reader.storeID)
        defer { try? state.close() }
        let keeper = FeedKeeper(store: served, source: reader, state: state, reporter: SilentReporter())
        let fetcher = try SharedFetcher(reader)
        var stream = FeedStream(Self.feed)
        while true {
            switch try await stream.step(keeper, fetcher) {
            case .again: continue
            case .idle: return
            case .lines(let bytes):
                sent(String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init))
                if let token = stream.sent { _ = try keeper.acknowledge(token, of: Self.feed) }
            }
        }
    }

    @discardableResult
    func clean() async throws -> HistoryCleaner.Outcome {
        try await ManualCleaning(served, stateFolder: stateFolder).clean().outcome
    }

    func withState<T>(_ body: (StateDatabase) throws -> T) throws -> T {
        let state = try StateDatabase(folder: stateFolder, store: storeID())
        let result = Result { try body(state) }
        try state.close()
        return try result.get()
    }

    // MARK: Looking

    func storeID() throws -> StoreID {
        let reader = try HistoryReader(path: path)
        defer { try? reader.close() }
        return reader.storeID
    }

    /// What is recorded, as `insert t 5`.
    func history() throws -> [String] {
        let reader = try HistoryReader(path: path)
        defer { try? reader.close() }
        var lines: [String] = []
        var batch = try reader.batch(after: reader.oldestToken().number)
        while true {
            for change in batch.transactions.flatMap(\.changes) {
                let key = change.objectID.values.map {
                    if case .integer(let id) = $0 { String(id) } else { "?" }
                }
                lines.append("\(change.operation.rawValue) \(change.entity.name) \(key.joined(separator: ","))")
            }
            if batch.isLast { return lines }
            batch = try reader.batch(after: batch.end)
        }
    }

    /// The oldest position that still works.
    func floor() throws -> Int64 {
        let reader = try HistoryReader(path: path)
        defer { try? reader.close() }
        return try reader.oldestToken().number
    }

    static func check(_ path: String) throws -> [String] {
        try access(path) { db in
            try String.fetchAll(db, sql: "PRAGMA integrity_check").filter { $0 != "ok" }
        }
    }

    /// Whether it has its tables and is tracked.
    func isReady() throws -> Bool {
        try Self.access(path) { db in try db.tableExists("historyd_change") && db.tableExists("t") }
    }

    /// The path of its state, if it has one.
    func existingState() throws -> String? {
        let path = StateDatabase.path(folder: stateFolder, store: try storeID())
        return FileManager.default.fileExists(atPath: path) ? path : nil
    }

    static func ids(_ path: String) throws -> [Int] {
        try access(path) { try Int.fetchAll($0, sql: "SELECT id FROM t ORDER BY id") }
    }

    /// The rows of both tables of a store or a replica, as text.
    static func rows(_ path: String) throws -> [String] {
        try access(path) { db in
            try ["t", "u"].flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1").map { "\(table) \($0)" }
            }
        }
    }
}

/// What was reported.
final class EventList: PipelineReporter {
    private let events = Locked<[PipelineEvent]>([])

    func report(_ event: PipelineEvent) { events.withLock { $0.append(event) } }

    var all: [PipelineEvent] { events.withLock { $0 } }
}

/// A hook that remembers each delivery: its id, and what was in it.
final class DeliveryLog: HookEndpoint {
    struct Delivery: Sendable, Hashable {
        let id: String
        /// `insert t 5`, or `expired 3 > 9`.
        let content: String
    }

    private let log = Locked<[Delivery]>([])
    private let isRefused: @Sendable (String) -> Bool

    init(refusing isRefused: @escaping @Sendable (String) -> Bool = { _ in false }) {
        self.isRefused = isRefused
    }

    var all: [Delivery] { log.withLock { $0 } }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        for (index, call) in calls.enumerated() {
            let objects = call.changes.map { change in
                change.objectID.values.map { if case .integer(let id) = $0 { String(id) } else { "?" } }
                    .joined(separator: ",")
            }
            let first = call.changes.first
            let content =
                "\(first?.operation.rawValue ?? "") \(first?.entity.name ?? "") \(objects.joined(separator: " "))"
            if isRefused(content) {
                return ObserverOutcome(succeeded: index, failure: HookFailure(.refused, "not this one"))
            }
            log.withLock { $0.append(Delivery(id: call.header.delivery, content: content)) }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }

    func expired(_ call: ExpiredCall) async throws(HookFailure) {
        let expiry = call.expiry
        let content =
            "\(expiry.reason.rawValue) \(expiry.lost.map { "\($0.number)" } ?? "-") > \(expiry.after.number)"
        log.withLock { $0.append(Delivery(id: call.header.delivery, content: content)) }
    }

    func hook(_ name: String = "p/o", then: FailurePolicy.AfterLastAttempt = .hold) -> Hook {
        Hook(
            id: UUID(uuidString: "00000000-0000-0000-0000-000000000001") ?? UUID(), name: name, kind: .observer,
            consumer: nil, endpoint: self,
            policy: FailurePolicy(
                attempts: 1, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: then))
    }
}
