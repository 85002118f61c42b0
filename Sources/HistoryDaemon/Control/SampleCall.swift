import FoundationEssentials
import Glibc
import HistoryConfiguration
import HistoryPlugins
import HistoryControl
import Logging
import PersistentHistory

/// A call that a hook could get, made to see what the plugin does with it. It says that it is a sample, its delivery id
/// begins with `test-`, and its object is one that a store hardly has: a plugin that keeps something of it damages nothing.
struct SampleCall {
    private static let key = -1

    private let hook: HookConfiguration
    private let plugin: PluginConfiguration
    private let store: ServedStore?

    init(_ hook: HookConfiguration, of plugin: PluginConfiguration, store: ServedStore?) {
        self.hook = hook
        self.plugin = plugin
        self.store = store
    }

    /// Starts the plugin, makes the call, and ends it.
    func make() async throws -> PluginTest {
        let header = HookCallHeader(
            store: store?.name ?? "sample",
            consumer: hook.consumer ?? store?.consumers.first?.author ?? "sample",
            hook: hook.fullName, hookID: hook.id, delivery: "test-\(UUID.random().uuidString.lowercased())")
        let call = try parameters(header)
        let errors = Locked<[String]>([])
        let logger = Logger(label: "test") { _ in CapturedErrors(lines: errors) }
        var running = RunningPlugin(plugin, logger: logger)
        let start = ContinuousClock.now
        let answer: Result<String?, HookFailure>
        if let coprocess = running.coprocess {
            answer = await withTaskGroup(of: Void.self) { group in
                group.addTask { await coprocess.run() }
                let answer = await self.answer(of: coprocess, header, call)
                coprocess.stop()
                await group.waitForAll()
                return answer
            }
        } else {
            answer = await self.answer(of: running.endpoint, header, call)
        }
        running.service = nil
        let time = start.duration(to: .now)
        var test = PluginTest(
            hook: hook.fullName, call: call, succeeded: true, result: nil, problem: nil,
            seconds: Double(time.microseconds) / 1_000_000, errors: errors.withLock { $0 })
        switch answer {
        case .success(let result): test.result = result
        case .failure(let failure): (test.succeeded, test.problem) = (false, failure.message)
        }
        return test
    }

    private func answer(of endpoint: any HookEndpoint, _ header: HookCallHeader, _ call: String) async
        -> Result<String?, HookFailure>
    {
        if let coprocess = endpoint as? CoprocessPlugin {
            do throws(HookFailure) { try await coprocess.waitUntilStarted() } catch { return .failure(error) }
        }
        switch hook.kind {
        case .observer:
            let outcome = await endpoint.observe([ObserverCall(header: header, kept: call)])
            if outcome.succeeded == 1 { return .success(nil) }
            return .failure(outcome.failure ?? HookFailure(.cancelled, "The call was cancelled."))
        case .merge:
            do throws(HookFailure) {
                return .success(
                    try await endpoint.merge(MergeCall(header: header, kept: call)).verdict.rawValue)
            } catch {
                return .failure(error)
            }
        }
    }

    // MARK: The parameters

    private struct Parameters: Encodable {
        let store: String
        let consumer: String
        let hook: String
        let hookID: String
        let delivery: String
        let sample = true
        var valuesAt: String?
        var transaction: Transaction?
        var transactions: [Transaction]?
        var contexts: [Member]
    }

    /// A change, for an observer; a context, for a merge hook.
    private struct Member: Encodable {
        var entityName: String?
        var operation: String?
        var objectID: [String: Int]?
        var objectIDURL: String?
        var values: [String: Int]?
        var timestamp: String?
        var author: String?
        var name: String?
        var kind: String?
        var path: String?
    }

    private struct Transaction: Encodable {
        let token: String
        let author = "historyctl"
        let context = "test"
        let processID = getpid()
        let timestamp: String
        var changes: [Member]?
    }

    private func parameters(_ header: HookCallHeader) throws -> String {
        let (id, now) = (StoreID.none, HistoryTimestamp.now.description)
        let entity = hook.entity ?? store?.entities?.keys.min()?.text ?? "sample"
        let object = ObjectID(columns: ["id"], values: [.integer(Int64(Self.key))])
        let table = Entity(shape: 1, name: entity, columns: [], key: .column("id"), preserved: [])
        let operation = ChangeOperation.allCases.first { hook.operations.contains($0) } ?? .insert
        let change = Member(
            entityName: entity, operation: operation.rawValue, objectID: ["id": Self.key],
            objectIDURL: HistoryJSON.objectIDURL(of: object, in: table, store: id),
            values: hook.maximumValueBytes != nil && operation != .delete ? ["id": Self.key] : nil)
        let transaction = Transaction(token: "\(id):1", timestamp: now)
        var parameters = Parameters(
            store: header.store, consumer: header.consumer, hook: header.hook,
            hookID: header.hookID.uuidString, delivery: header.delivery,
            valuesAt: hook.maximumValueBytes.map { _ in transaction.token }, contexts: [])
        switch hook.kind {
        case .observer:
            var context = change
            (context.timestamp, context.author) = (now, "historyctl")
            (parameters.transaction, parameters.contexts) = (transaction, [context])
        case .merge:
            var whole = transaction
            whole.changes = [change]
            parameters.transactions = [whole]
            let consumer = store?.consumers.first { $0.author.hasSameBytes(as: header.consumer) }
            parameters.contexts = (consumer?.descriptions ?? []).map {
                Member(name: $0.name, kind: $0.kind, path: $0.path)
            }
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(parameters), as: UTF8.self)
    }
}

/// Takes what a plugin writes to standard error.
private struct CapturedErrors: LogHandler {
    let lines: Locked<[String]>
    var metadata: Logger.Metadata = [:]
    var metadataProvider: Logger.MetadataProvider?
    var logLevel = Logger.Level.info

    /// More is of no use to a person.
    private static let most = 100

    init(lines: Locked<[String]>) { self.lines = lines }

    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        lines.withLock { if $0.count < Self.most { $0.append("\(event.message)") } }
    }
}
