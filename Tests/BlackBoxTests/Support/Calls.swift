import Foundation

/// One call of a hook, as the plugin wrote it down.
struct Call: Sendable {
    /// `ok`, or how the plugin misbehaved.
    let manner: String
    /// The message as it came.
    let text: String
    let params: Params
    let isMerge: Bool

    struct Params: Decodable, Sendable {
        let store: String
        let consumer: String
        let hook: String
        let delivery: String
        let transaction: Transaction?
        /// None in a call that tells of expiry.
        let contexts: [Context]
        let transactions: [Transaction]?
        let reason: String?
        let lost: String?
        let after: String?

        private enum CodingKeys: CodingKey {
            case store, consumer, hook, delivery, transaction, contexts, transactions, reason, lost, after
        }

        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: CodingKeys.self)
            store = try container.decode(String.self, forKey: .store)
            consumer = try container.decode(String.self, forKey: .consumer)
            hook = try container.decode(String.self, forKey: .hook)
            delivery = try container.decode(String.self, forKey: .delivery)
            transaction = try container.decodeIfPresent(Transaction.self, forKey: .transaction)
            transactions = try container.decodeIfPresent([Transaction].self, forKey: .transactions)
            reason = try container.decodeIfPresent(String.self, forKey: .reason)
            lost = try container.decodeIfPresent(String.self, forKey: .lost)
            after = try container.decodeIfPresent(String.self, forKey: .after)
            contexts =
                reason == nil
                ? try container.decode([Context].self, forKey: .contexts)
                : try container.decodeIfPresent([Context].self, forKey: .contexts) ?? []
        }
    }

    struct Transaction: Decodable, Sendable {
        let token: String
        let author: String?
        let changes: [Context]?

        var number: Int { token.split(separator: ":").last.flatMap { Int($0) } ?? 0 }
    }

    /// A change, or what a merge hook merges into.
    struct Context: Decodable, Sendable {
        let entityName: String?
        let operation: String?
        let objectIDURL: String?
        let name: String?

        /// `p42`
        var key: String { objectIDURL?.split(separator: "/").last.map(String.init) ?? "" }
    }

    private struct Request: Decodable {
        let method: String?
        let params: Params?
    }

    init(_ line: String) throws {
        let space = line.firstIndex(of: " ") ?? line.endIndex
        manner = String(line[..<space])
        text = String(line[space...].dropFirst())
        // A oneshot plugin in sh puts its environment first.
        let json = Data(text[(text.firstIndex(of: "{") ?? text.startIndex)...].utf8)
        let decoder = JSONDecoder()
        if let params = try decoder.decode(Request.self, from: json).params {
            self.params = params
        } else {
            params = try decoder.decode(Params.self, from: json)
        }
        isMerge = params.transactions != nil
    }

    /// `audit/all MainApp 3 Widget person insert p1 p2`, or for a merge hook
    /// `audit/merge MainApp [3 Widget person insert p1, …]`, or where history was lost
    /// `audit/all MainApp expired 3 > 9`.
    var summary: String {
        let head = "\(params.hook) \(params.consumer)"
        if let reason = params.reason {
            let numbers = [params.lost, params.after].map {
                $0?.split(separator: ":").last.map(String.init) ?? "-"
            }
            return "\(head) \(reason) \(numbers[0]) > \(numbers[1])"
        }
        if let transaction = params.transaction {
            let first = params.contexts.first
            let keys = params.contexts.map(\.key).joined(separator: " ")
            return
                "\(head) \(transaction.number) \(transaction.author ?? "-") \(first?.entityName ?? "") \(first?.operation ?? "") \(keys)"
        }
        let transactions = (params.transactions ?? []).map { "\($0.number) \($0.author ?? "-")" }
        return "\(head) [\(transactions.joined(separator: ", "))]"
    }

    /// The message with placeholders for what differs from run to run.
    func normalized(processes: [pid_t: String] = [:]) -> String {
        var text = text
        text.replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/, with: "STORE")
        text.replace(/"id":[0-9]+,"method"/, with: #""id":ID,"method""#)
        text.replace(/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/, with: "TIME")
        for (process, name) in processes {
            text.replace("\"processID\":\(process)", with: "\"processID\":\(name)")
        }
        return text
    }
}

extension Workbench {
    /// All calls so far.
    func calls() throws -> [Call] { try RunningProgram.text(path("calls")).wholeLines.map(Call.init) }

    /// Waits for so many calls.
    @discardableResult
    func calls(_ count: Int, of daemon: DaemonUnderTest) async throws -> [Call] {
        try await eventually(
            "\(count) calls",
            state: {
                "There were:\n\(RunningProgram.text(self.path("calls")))and the log was:\n\(daemon.log.joined(separator: "\n"))"
            }
        ) {
            RunningProgram.hasLines(count, self.path("calls")) ? try self.calls() : nil
        }
    }

    /// Waits until the daemon's only consumer is done with a transaction: one that is stopped or
    /// replaced in a call is called again.
    func waitForCursor(at number: Int, _ daemon: DaemonUnderTest) async throws {
        let state = path("state/\(try await id()).sqlite")
        try await eventually("the cursor at \(number)", state: { daemon.log.joined(separator: "\n") }) {
            try await self.sql("SELECT position FROM cursor", of: state) == "\(number)\n"
        }
    }

    /// The store's id.
    func id() async throws -> String {
        try await sql("SELECT value FROM historyd_store WHERE key = 'id'").trimmingCharacters(in: .newlines)
    }
}
