import FoundationEssentials
import Logging
import TestSupport
import Testing

@testable import HistoryConfiguration
@testable import HistoryPlugins
@testable import PersistentHistory

/// A folder of scripts, removed at the end.
struct Scripts: ~Copyable {
    let folder: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "plugins-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: folder) } catch {
            Issue.record("\(folder) could not be removed: \(error)")
        }
    }

    func path(_ name: String) -> String { "\(folder)/\(name)" }

    /// Writes a script, and gives the command that runs it.
    func sh(_ text: String) throws -> [String] { ["/bin/sh", try write(text, as: "plugin.sh")] }

    func python(_ text: String) throws -> [String] {
        ["/usr/bin/env", "python3", "-u", try write(Self.prelude + text, as: "plugin.py")]
    }

    func write(_ text: String, as name: String, executable: Bool = false) throws -> String {
        let path = path(name)
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes(
            [.posixPermissions: executable ? 0o755 : 0o644], ofItemAtPath: path)
        return path
    }

    func contents(of name: String) throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: path(name))), as: UTF8.self)
    }

    /// `answer(request)` answers well; `requests()` reads them.
    private static let prelude = """
        import json, os, signal, sys, time
        def requests():
            for line in sys.stdin:
                yield json.loads(line)
        def answer(request, result=None):
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)

        """
}

/// What was logged, as it comes.
final class Journal: Sendable {
    private let entries: AsyncStream<Entry>.Continuation
    let stream: AsyncStream<Entry>

    struct Entry: Sendable, Hashable {
        let level: Logger.Level
        let text: String
        let metadata: Logger.Metadata

        func hash(into hasher: inout Hasher) { hasher.combine(text) }
        static func == (a: Self, b: Self) -> Bool { a.text == b.text && a.metadata == b.metadata }
    }

    init() { (stream, entries) = AsyncStream.makeStream() }

    var logger: Logger { Logger(label: "test") { _ in Handler(entries: self.entries) } }

    /// Ends the stream, and gives all that was logged.
    func close() async -> [Entry] {
        entries.finish()
        var all: [Entry] = []
        for await entry in stream { all.append(entry) }
        return all
    }

    private struct Handler: LogHandler {
        let entries: AsyncStream<Entry>.Continuation
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            let metadata = metadata.merging(event.metadata ?? [:]) { $1 }
            entries.yield(Entry(level: event.level, text: "\(event.message)", metadata: metadata))
        }
    }
}

/// Calls as the daemon makes them.
enum Calls {
    static let store = StoreID.sample()
    static let person = Entity(shape: 1, name: "person", columns: [], key: .column("id"), preserved: [])
    static let header = HookCallHeader(
        store: "contacts", consumer: "MainApp", hook: "test/hook",
        hookID: UUID(uuid: (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)), delivery: "d1")

    static func transaction(_ number: Int64, rows: ClosedRange<Int64> = 1...1) -> HistoryTransaction {
        HistoryTransaction(
            token: HistoryToken(store: store, number: number), author: "Widget", context: nil, processID: 7,
            timestamp: HistoryTimestamp(milliseconds: 0),
            changes: rows.map {
                HistoryChange(
                    entity: person, operation: .insert,
                    objectID: ObjectID(columns: ["id"], values: [.integer($0)]))
            })
    }

    static func observe(_ number: Int64, rows: ClosedRange<Int64> = 1...1) -> ObserverCall {
        let transaction = transaction(number, rows: rows)
        return ObserverCall(header: header, transaction: transaction, changes: transaction.changes[...])
    }

    static func observe(_ number: Int64, rows: ClosedRange<Int64>, of consumer: String) -> ObserverCall {
        let transaction = transaction(number, rows: rows)
        let header = HookCallHeader(
            store: header.store, consumer: consumer, hook: header.hook, hookID: header.hookID,
            delivery: "\(consumer)\(number)")
        return ObserverCall(header: header, transaction: transaction, changes: transaction.changes[...])
    }

    static func observes(_ count: Int) -> [ObserverCall] { (0..<count).map { observe(Int64($0 + 1)) } }

    static let merge = MergeCall(
        header: header, transactions: [transaction(1)],
        contexts: [ContextDescription(name: "view", kind: "replica", path: "/r.sqlite")])
}

/// Runs a coprocess beside the body, and stops it at the end.
func withCoprocess<Result: Sendable>(
    _ command: [String], timeout: Duration = .seconds(120), grace: Duration = .seconds(20),
    window: CoprocessProtocol.Window = .init(), environment: [String: String] = [:],
    journal: Journal = Journal(), _ body: (CoprocessPlugin) async throws -> Result
) async throws -> Result {
    let description = PluginConfiguration(
        name: "test", command: command, mode: .coprocess, environment: environment, timeout: timeout)
    let plugin = CoprocessPlugin(description, logger: journal.logger, grace: grace, window: window) { event in
        switch event {
        case .ended(let failure, _, _, _): journal.logger.warning("ended", metadata: ["error": "\(failure)"])
        case .unstartable: journal.logger.warning("unstartable")
        case .works, .began: break
        }
    }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await plugin.run() }
        defer { plugin.stop() }
        return try await body(plugin)
    }
}

func oneshot(
    _ command: [String], timeout: Duration = .seconds(120), environment: [String: String] = [:],
    journal: Journal = Journal()
) -> OneshotPlugin {
    OneshotPlugin(
        PluginConfiguration(
            name: "test", command: command, environment: environment, timeout: timeout),
        logger: journal.logger)
}
