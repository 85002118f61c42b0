import Foundation
import GRDB
import TestSupport

@testable import HistoryBase
@testable import PersistentHistory

/// Clocks that stand still until they are moved.
final class ManualClock: Sendable {
    private let times = Locked((wall: Int64(1_700_000_000_000), elapsed: Int64(0)))

    var clock: HistoryClock {
        HistoryClock(
            wall: { HistoryTimestamp(milliseconds: self.times.withLock { $0.wall }) },
            elapsed: { .milliseconds(self.times.withLock { $0.elapsed }) })
    }

    func advance(_ milliseconds: Int64) {
        times.withLock {
            $0.wall += milliseconds
            $0.elapsed += milliseconds
        }
    }

    /// Somebody sets the wall clock.
    func set(by milliseconds: Int64) { times.withLock { $0.wall += milliseconds } }
}

/// A store with two tables, in a folder of its own.
final class GatekeeperStore: Sendable {
    let folder: TemporaryFolder
    let path: String
    let clock = ManualClock()

    init(
        _ schema: String =
            "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER); CREATE TABLE u (id INTEGER PRIMARY KEY, n INTEGER)",
        pragmas: String = "PRAGMA journal_mode = WAL"
    ) throws {
        folder = try TemporaryFolder()
        path = folder.file("s.sqlite")
        let queue = try DatabaseQueue(path: path)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: pragmas)
            try db.execute(sql: schema)
        }
        try queue.close()
        let tables = try Self.read(path) {
            try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
        try Tracking.track(path, Dictionary(uniqueKeysWithValues: tables.map { (BinaryText($0), nil) }))
    }

    /// A connection that writes as an author.
    func writer(_ author: String?) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        configuration.prepareDatabase { db in
            try db.execute(sql: "PRAGMA synchronous = OFF")
            if let author {
                try db.installHistory()
                try db.declareAuthor(author)
            }
        }
        return try DatabaseQueue(path: path, configuration: configuration)
    }

    /// Each script is one transaction.
    func write(_ author: String?, _ scripts: String...) throws {
        let queue = try writer(author)
        for script in scripts { try queue.write { db in try db.execute(sql: script) } }
        try queue.close()
    }

    static func read<T>(_ path: String, _ body: (Database) throws -> T) throws -> T {
        var configuration = Configuration()
        configuration.busyMode = .timeout(60)
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        defer { try? queue.close() }
        return try queue.read(body)
    }

    /// The rows of both tables, as text.
    func rows(of file: String? = nil, _ tables: [String] = ["t", "u"]) throws -> [String] {
        try Self.read(file ?? path) { db in
            try tables.flatMap { table in
                try Row.fetchAll(db, sql: "SELECT * FROM \(table) ORDER BY 1").map { "\(table) \($0)" }
            }
        }
    }

    /// The numbers of the changes that are there, without one that is only a number.
    func history() throws -> [Int64] {
        try Self.read(path) {
            try Int64.fetchAll($0, sql: "SELECT id FROM historyd_change WHERE kind & 3 <> 3 ORDER BY id")
        }
    }

    func replica(_ name: String = "view", entities: Set<BinaryText>? = nil) -> ReplicaContext {
        ReplicaContext(name: name, path: folder.file("\(name).sqlite"), entities: entities)
    }

    func served(
        _ consumers: [String], contexts: [String: [ReplicaContext]] = [:],
        feeds: [String: [FeedContext]] = [:], rule: DeliveryRule? = nil,
        cleaning: CleaningStrategy = .none, maximumDuration: Duration? = nil
    ) -> ServedStore {
        let rule = rule ?? DeliveryRule(authors: Set(names: consumers))
        var served = ServedStore(
            name: "s", path: path, entities: nil, rule: rule,
            consumers: consumers.map {
                Consumer(
                    store: "s", author: $0, rule: rule, contexts: contexts[$0] ?? [], feeds: feeds[$0] ?? [])
            }, cleaning: cleaning, maximumDuration: maximumDuration, clock: clock.clock)
        // The tests write in this process, too.
        served.isUsedInProcess = true
        return served
    }

    func runner(
        _ store: ServedStore, _ hooks: [Hook] = [], _ reporter: any PipelineReporter,
        stop: OneShotEvent = OneShotEvent()
    ) -> StoreRunner {
        StoreRunner(store, hooks: HookRegistry(hooks), stateFolder: folder.path, reporter: reporter, stop: stop)
    }

    /// Works off everything there is, and tells what happened.
    @discardableResult
    func serve(_ store: ServedStore, _ hooks: [Hook] = []) async throws -> EventLog {
        let events = EventLog()
        try await runner(store, hooks, events).runOnce()
        return events
    }

    /// Works off what there is until a hook holds its consumer, and stops there.
    func serveUntilHeld(_ store: ServedStore, _ hooks: [Hook]) async throws {
        let stop = OneShotEvent()
        let events = EventLog { if case .hookHeld = $0 { stop.signal() } }
        try await runner(store, hooks, events, stop: stop).runOnce()
    }

    /// - Returns: Where a copy of the store as it is now lies.
    func backUp() async throws -> String {
        let backup = folder.file("backup.sqlite")
        try await DatabaseQueue(path: path).vacuum(into: backup)
        return backup
    }

    func state() throws -> StateDatabase {
        try StateDatabase(folder: folder.path, store: HistoryReader(path: path).storeID, clock: clock.clock)
    }

    func cursor(_ consumer: String) throws -> Int64? {
        let state = try state()
        defer { try? state.close() }
        return try state.cursors.checkpoint(of: consumer)?.position
    }
}

/// Runs what blocks on a thread of its own: the tests' own threads are few.
func onThread<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
    try await withCheckedThrowingContinuation { continuation in
        Thread { continuation.resume(with: Result { try body() }) }.start()
    }
}

/// Remembers what happened.
final class EventLog: PipelineReporter {
    private let events = Locked<[PipelineEvent]>([])
    private let onReport: @Sendable (PipelineEvent) -> Void

    init(_ onReport: @escaping @Sendable (PipelineEvent) -> Void = { _ in }) { self.onReport = onReport }

    func report(_ event: PipelineEvent) {
        events.withLock { $0.append(event) }
        onReport(event)
    }

    func all() -> [PipelineEvent] { events.withLock { $0 } }
    func names() -> [String] { all().map { String("\($0)".prefix { $0 != "(" }) } }
    func count(_ name: String) -> Int { names().count { $0 == name } }
}

/// A hook that remembers what it was told: `insert t 5`, or `expired 3 > 9`.
final class Listener: HookEndpoint {
    private let told = Locked<(lines: [String], counts: [String: Int])>(([], [:]))
    private let failing: @Sendable (String, _ attempt: Int) -> Bool

    init(failing: @escaping @Sendable (String, Int) -> Bool = { _, _ in false }) { self.failing = failing }

    func all() -> [String] { told.withLock { $0.lines } }

    private func tell(_ line: String) throws(HookFailure) {
        let attempt = told.withLock { told in
            told.lines.append(line)
            told.counts[line, default: 0] += 1
            return told.counts[line] ?? 0
        }
        if failing(line, attempt) { throw HookFailure(.refused, "not now") }
    }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        for (index, call) in calls.enumerated() {
            let objects = call.changes.map { change in
                change.objectID.values.map { if case .integer(let id) = $0 { String(id) } else { "?" } }
                    .joined(separator: ",")
            }
            let first = call.changes.first
            let line =
                "\(first?.operation.rawValue ?? "") \(first?.entity.name ?? "") \(objects.joined(separator: " "))"
            do throws(HookFailure) {
                try tell(line)
            } catch {
                return ObserverOutcome(succeeded: index, failure: error)
            }
        }
        return ObserverOutcome(succeeded: calls.count)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }

    func expired(_ call: ExpiredCall) async throws(HookFailure) {
        let lost = call.expiry.lost.map { "\($0.number)" } ?? "-"
        let entities = call.expiry.entities.map { " \($0)" }.joined()
        try tell("\(call.expiry.reason.rawValue) \(lost) > \(call.expiry.after.number)\(entities)")
    }

    func observer(
        _ name: String = "p/o", for consumer: String? = nil, attempts: Int = 1,
        then: FailurePolicy.AfterLastAttempt = .hold
    ) -> Hook {
        Hook(
            id: UUID(), name: name, kind: .observer, consumer: consumer, endpoint: self,
            policy: FailurePolicy(
                attempts: attempts, initialDelay: .milliseconds(1), maximumDelay: .milliseconds(1),
                afterLastAttempt: then))
    }
}

/// A program at a feed of a store that nobody serves at the moment: what it was sent, and what it has
/// acknowledged. It is compared with what it may be sent.
final class FeedReader {
    let feed: FeedID
    /// The numbers of the transactions that it was sent.
    private(set) var had: Set<Int64> = []
    /// The last that it has acknowledged.
    private(set) var acknowledged: Int64 = 0
    /// Changes that it was told are lost.
    private(set) var lost: Set<Int64> = []
    private(set) var expiries = 0

    init(_ feed: FeedID) { self.feed = feed }

    /// Connects, takes some lines, and acknowledges what it likes.
    ///
    /// - Parameters:
    ///   - most: How many lines it takes before it goes.
    ///   - acknowledges: Whether a transaction is acknowledged.
    func connect(_ store: ServedStore, _ folder: String, most: Int, acknowledges: (Int64) -> Bool) async throws
    {
        let feeds = try OpenFeeds(store, folder)
        defer { feeds.close() }
        let (keeper, fetcher) = (feeds.keeper, feeds.fetcher)
        var stream = FeedStream(feed)
        var count = 0
        while true {
            switch try await stream.step(keeper, fetcher) {
            case .again: continue
            case .idle: return
            case .lines(let bytes):
                for line in bytes.split(separator: UInt8(ascii: "\n")) {
                    let number = try take(line)
                    count += 1
                    if let number, acknowledges(number) {
                        _ = try keeper.acknowledge(
                            HistoryToken(store: feeds.reader.storeID, number: number), of: feed)
                        acknowledged = number
                    }
                    if count >= most { return }
                }
            }
        }
    }

    /// - Returns: What can be acknowledged.
    private func take(_ line: ArraySlice<UInt8>) throws -> Int64? {
        let message = try JSONDecoder().decode(Line.self, from: Data(line))
        func number(_ token: String?) -> Int64 { token.flatMap { HistoryToken($0)?.number } ?? 0 }
        if let expired = message.expired {
            expiries += 1
            lost.formUnion(stride(from: number(expired.lost) + 1, through: number(expired.after), by: 1))
            acknowledged = number(expired.after)
            return number(expired.after)
        }
        guard let token = message.token else { return nil }
        if number(token) <= acknowledged { throw Repeated(number: number(token), acknowledged: acknowledged) }
        had.insert(number(token))
        return number(token)
    }

    private struct Repeated: Error {
        let number: Int64
        let acknowledged: Int64
    }

    private struct Line: Decodable {
        struct Expired: Decodable {
            let lost: String?
            let after: String
        }

        let token: String?
        let expired: Expired?
    }
}

/// What the feeds of a store are read by, without a session.
struct OpenFeeds {
    let reader: HistoryReader
    let keeper: FeedKeeper
    let fetcher: SharedFetcher
    private let state: StateDatabase

    init(_ store: ServedStore, _ folder: String) throws {
        reader = try HistoryReader(path: store.path, partSize: store.partSize)
        state = try StateDatabase(folder: folder, store: reader.storeID, clock: store.clock)
        keeper = FeedKeeper(store: store, source: reader, state: state, reporter: SilentReporter())
        fetcher = try SharedFetcher(reader)
    }

    func close() {
        try? reader.close()
        try? state.close()
    }
}
