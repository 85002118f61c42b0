import CSimulation
import PersistentHistory

/// A plugin that answers as the script says, and notes each call.
///
/// One for each store, which serves its hooks one call after the other.
final class ScriptedPlugin: LoopEndpoint {
    private let store: String
    private let record: Record
    private let deliveries: Deliveries
    private nonisolated let manners = Locked(Manners.well)

    nonisolated init(store: String, record: Record, deliveries: Deliveries) {
        self.store = store
        self.record = record
        self.deliveries = deliveries
    }

    nonisolated func behave(_ manners: Manners) { self.manners.withLock { $0 = manners } }

    private var pause: Duration {
        switch manners.withLock({ $0 }) {
        case .well: .microseconds(Int64(csimulation_random() % 400))
        case .slow: .milliseconds(Int64(csimulation_random() % 2000))
        case .refuses, .fails: .milliseconds(1)
        case .silent: .seconds(5)
        }
    }

    /// Whether a call succeeds.
    private func answers() -> HookFailure? {
        switch manners.withLock({ $0 }) {
        case .well, .slow: nil
        case .silent: HookFailure(.timedOut, "The plugin has not answered.")
        case .refuses: HookFailure(.refused, "The plugin refuses.")
        case .fails: csimulation_random() % 2 == 0 ? HookFailure(.died, "The plugin has died.") : nil
        }
    }

    func begin(_ request: HookRequest, answer: @escaping @Sendable (HookAnswer) -> Void)
        -> any HookConversation
    {
        let conversation = Conversation(request, self, answer)
        try? HistoryLoop.shared().soon { conversation.continue() }
        return conversation
    }

    @LoopActor private final class Conversation: HookConversation {
        private let request: HookRequest
        private let plugin: ScriptedPlugin
        private var answer: (@Sendable (HookAnswer) -> Void)?
        private var timer: LoopTimer?
        private var succeeded = 0

        nonisolated init(
            _ request: HookRequest, _ plugin: ScriptedPlugin, _ answer: @escaping @Sendable (HookAnswer) -> Void
        ) {
            self.request = request
            self.plugin = plugin
            self.answer = answer
        }

        func `continue`() {
            guard let loop = try? HistoryLoop.shared() else { return }
            timer = loop.schedule(after: plugin.pause) { self.reply() }
        }

        private func reply() {
            let failure = plugin.answers()
            switch request {
            case .observe(let calls):
                guard succeeded < calls.count else {
                    return end(.observed(ObserverOutcome(succeeded: succeeded)))
                }
                plugin.note(calls[succeeded], failure)
                if let failure {
                    return end(.observed(ObserverOutcome(succeeded: succeeded, failure: failure)))
                }
                succeeded += 1
                if succeeded == calls.count { return end(.observed(ObserverOutcome(succeeded: succeeded))) }
                self.continue()
            case .merge:
                if let failure { return end(.merged(.failure(failure))) }
                end(.merged(.success(MergeResult(.goOn))))
            case .expired(let call):
                plugin.record.write("expired", plugin.store, call.header.consumer, "\(call.expiry.reason)")
                end(.expired(failure))
            }
        }

        nonisolated func cancel() {
            try? HistoryLoop.shared().soon {
                self.timer?.cancel()
                switch self.request {
                case .observe: self.end(.observed(ObserverOutcome(succeeded: self.succeeded)))
                case .merge: self.end(.merged(.failure(HookFailure(.cancelled, "Cancelled."))))
                case .expired: self.end(.expired(HookFailure(.cancelled, "Cancelled.")))
                }
            }
        }

        private func end(_ result: HookAnswer) {
            let answer = answer
            self.answer = nil
            answer?(result)
        }
    }

    @LoopActor private func note(_ call: ObserverCall, _ failure: HookFailure?) {
        let header = call.header
        record.write(
            "call", store, header.consumer, header.hook, header.delivery, "\(call.transaction.token.number)",
            failure.map { "\($0.reason)" } ?? "ok", Self.content(of: call))
        if failure == nil {
            deliveries.add(store, header.consumer, header.hook, call.transaction.token.number)
        }
    }

    private static func content(of call: ObserverCall) -> String {
        call.changes.map { "\($0.entity.name).\($0.operation).\($0.objectID.values)" }.joined(separator: ",")
    }

    // Only the loop calls it.
    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome { ObserverOutcome(succeeded: 0) }
    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
}

/// What the hooks have had, in this life and before.
final class Deliveries: Sendable {
    private let had = Locked<[String: Set<Int64>]>([:])

    func add(_ store: String, _ consumer: String, _ hook: String, _ number: Int64) {
        had.withLock { _ = $0["\(store)/\(consumer)/\(hook)", default: []].insert(number) }
    }

    func have(_ store: String, _ consumer: String, _ hook: String) -> Set<Int64> {
        had.withLock { $0["\(store)/\(consumer)/\(hook)"] ?? [] }
    }
}
