import CSimulation
import FoundationEssentials
import PersistentHistory

/// What a plugin keeps for a consumer: rows by entity and key, as of a position.
struct PluginIndex: Codable, Sendable {
    var through: String?
    var rows: [String: String] = [:]

    /// Of the columns that each table has in all its shapes.
    private static let columns = ["person": 3, "item": 2]

    /// - Parameter answer: The writer's, with the rows of a store.
    static func rows(of answer: [String]) -> [String: String] {
        guard answer[0] == "ok" else { return [:] }
        var rows: [String: String] = [:]
        for (entity, text) in zip(
            ["person", "item"], answer[1].split(separator: "|", omittingEmptySubsequences: false))
        {
            for row in text.split(separator: ";") {
                rows[key(entity, of: String(row))] = cut(String(row), entity)
            }
        }
        return rows
    }

    private static func key(_ entity: String, of row: String) -> String {
        "\(entity) \(row.prefix { $0 != "," })"
    }

    private static func cut(_ row: String, _ entity: String) -> String {
        row.split(separator: ",", omittingEmptySubsequences: false).prefix(columns[entity] ?? 0)
            .joined(separator: ",")
    }

    mutating func take(_ row: String, _ change: ContextCall.Change) {
        let isText = change.entityName == "item"
        let key = isText ? "\"\(change.key)\"" : change.key
        rows["\(change.entityName) \(key)"] = row.isEmpty ? nil : Self.cut(row, change.entityName)
    }
}

/// A call of a context that a plugin keeps.
struct ContextCall: Decodable {
    struct Change: Decodable {
        var entityName: String
        var objectID: [String: Value]
        var key: String { objectID.values.first?.text ?? "" }
    }

    struct Value: Decodable {
        var text: String

        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            text = try (try? container.decode(Int64.self)).map(String.init) ?? container.decode(String.self)
        }
    }

    struct Transaction: Decodable { var changes: [Change] }

    struct Parameters: Decodable {
        var store: String
        var consumer: String
        var after: String?
        var through: String?
        var transactions: [Transaction]?
    }

    var id: Int64
    var method: String
    var params: Parameters

    init?(_ line: [UInt8]) {
        guard let call = try? JSONDecoder().decode(Self.self, from: Data(line)),
            call.method.hasPrefix("context.")
        else { return nil }
        self = call
    }
}

extension PluginProcesses {
    func index(_ store: String, _ consumer: String) -> PluginIndex {
        indexes.withLock { $0["\(store)/\(consumer)"] } ?? kept(store, consumer) ?? PluginIndex()
    }

    private func keeps(_ store: String) -> Bool {
        truth.scenario.stores.first { $0.name == store }?.keepsIndexes ?? false
    }

    private func kept(_ store: String, _ consumer: String) -> PluginIndex? {
        guard keeps(store), let data = FileManager.default.contents(atPath: files.index(store, consumer)) else {
            return nil
        }
        return try? JSONDecoder().decode(PluginIndex.self, from: data)
    }

    private func keep(_ index: PluginIndex, _ store: String, _ consumer: String) {
        indexes.withLock { $0["\(store)/\(consumer)"] = index }
        guard keeps(store), let data = try? JSONEncoder().encode(index) else { return }
        let isWritten = FileManager.default.createFile(atPath: files.index(store, consumer), contents: data)
        precondition(isWritten)
    }

    /// Another process knows only what is in a file.
    func forgetIndexes(of plugin: String) {
        let store = plugin.replacing("p", with: "s")
        indexes.withLock { indexes in indexes = indexes.filter { !$0.key.hasPrefix(store + "/") } }
    }

    /// - Returns: The call's result, or its error, as a member.
    func perform(_ call: ContextCall) -> String {
        let (store, consumer) = (call.params.store, call.params.consumer)
        let outcome = result(of: call)
        record.write("context", store, consumer, call.method, call.params.through ?? "", outcome)
        return outcome
    }

    private func result(of call: ContextCall) -> String {
        let (store, consumer) = (call.params.store, call.params.consumer)
        var index = index(store, consumer)
        switch call.method {
        case "context.checkpoint": return "\"result\":\(index.through.map { "\"\($0)\"" } ?? "null")"
        case "context.merge":
            guard index.through == call.params.after else { return Self.refusal("It is elsewhere.") }
            for change in call.params.transactions?.flatMap(\.changes) ?? [] {
                let answer = writer.order("row", files.store(store), change.entityName, change.key)
                guard answer[0] == "ok" else { return Self.refusal(answer[0]) }
                index.take(answer[1], change)
            }
        case "context.refill":
            let answer = writer.order("rows", files.store(store))
            guard answer[0] == "ok" else { return Self.refusal(answer[0]) }
            index.rows = PluginIndex.rows(of: answer)
        default: return "\"result\":null"
        }
        index.through = call.params.through
        keep(index, store, consumer)
        return "\"result\":null"
    }

    private static func refusal(_ why: String) -> String {
        "\"error\":{\"code\":-32000,\"message\":\"\(why)\"}"
    }
}
