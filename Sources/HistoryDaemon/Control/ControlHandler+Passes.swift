import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

/// Starts passes, waits for them and follows them.
extension ControlHandler {
    /// The default timeout of a pass.
    static let runTimeout: Duration = .seconds(60)

    /// Runs a pass now, with everything that failed. Returns when each consumer is caught up or has failed
    /// again.
    ///
    /// - Throws: `ControlError` with `.timedOut` if that takes longer than the timeout.
    func run(_ name: String?, _ timeout: String?) async throws -> ConsumerList {
        let limit = try timeout.map { text throws(ControlError) in try Self.duration(text) } ?? Self.runTimeout
        let stores = try await stores(name)
        let paused = stores.filter { $0.control.passes.isHeld(by: .operatorOrder) }
        guard paused.isEmpty else {
            throw ControlError(
                .paused, "Paused: \(paused.map(\.name).quotedList). Resume them before you run a pass.")
        }
        let isDone = try await within(limit) { try await pass(stores, within: limit) }
        guard isDone ?? false else {
            throw ControlError(
                .timedOut, "The pass did not end within \(limit.text): \(await unfinished(stores)).")
        }
        return ConsumerList(consumers: await consumers(of: stores))
    }

    /// Starts a pass of all stores, and waits for it.
    private func pass(_ stores: [RunningStore], within limit: Duration) async throws -> Bool {
        var waits: [(consumer: RuntimeStatus.ConsumerID, failures: Int, newest: HistoryToken)] = []
        for store in stores {
            // A consumer that is paused by itself stays where it is.
            let paused = Set(store.pausedConsumers)
            let consumers = store.served.consumers.filter { !paused.contains($0.author) }.map {
                RuntimeStatus.ConsumerID(store: store.name, consumer: $0.author)
            }
            let before = consumers.map { ($0, dependencies.status.consumer($0).failures) }
            let newest = try await store.control.passNow(within: limit)
            waits += before.map { ($0, $1, newest) }
        }
        for (consumer, failures, newest) in waits {
            _ = await dependencies.status.wait(for: consumer) { state -> Bool? in
                if state.failures > failures { return false }
                return state.isDone(with: newest) ? true : nil
            }
        }
        return true
    }

    /// The consumers that lag, and why.
    private func unfinished(_ stores: [RunningStore]) async -> String {
        let consumers = await consumers(of: stores).filter { $0.state != .level }
        let reasons = consumers.prefix(3).map { consumer in
            let changes = consumer.behind.map { " by \(Int($0), "change")" } ?? ""
            let why = consumer.problem.map { ", \($0)" } ?? ""
            return "\"\(consumer.consumer)\" of store \"\(consumer.store)\" is behind\(changes)\(why)"
        }
        return reasons.isEmpty ? "it has caught up now" : reasons.joined(separator: "; ")
    }

    private static func duration(_ text: String) throws(ControlError) -> Duration {
        guard let duration = Duration(configured: text) else {
            throw ControlError(
                .badRequest, "\"\(text)\" is not a duration: write seconds, or \"500ms\", \"5s\", \"3m\".")
        }
        return duration
    }

    // MARK: Waiting

    /// Returns when a consumer is done with a token's transaction.
    func wait(for name: String, _ tokenText: String, in storeName: String?, _ timeoutText: String?) async throws
        -> PositionReport
    {
        let store = try await store(storeName, with: name)
        let token = try Self.token(tokenText)
        let timeout = try timeoutText.map { text throws(ControlError) in try Self.duration(text) }
        let end = ContinuousClock.now + (timeout ?? .seconds(3600))
        let consumer = RuntimeStatus.ConsumerID(store: store.name, consumer: name)
        let reached = try await within(timeout) { [status = dependencies.status] in
            // A store that reads much, or waits for a lock, may answer late: the timeout covers that, too.
            try await store.control.check(token, until: end)
            return await status.wait(for: consumer) { state -> HistoryToken? in
                state.isDone(with: token) ? state.cursor : nil
            }
        }
        guard let reached else {
            // The store may be gone by now.
            _ = try await self.store(storeName, with: name)
            let state = dependencies.status.consumer(consumer)
            var position = state.cursor.map { "it is at \($0)" } ?? "it has no position yet"
            if state.cursor?.includes(token) ?? false {
                position += ", and its contexts \(state.contextsWithout(token).quotedList) do not show it yet"
            }
            let text =
                "\"\(name)\" did not reach \(token) in time: \(position)"
                + (state.problem.map { ", and is held by a failure: \($0)" } ?? "")
            throw ControlError(.timedOut, text.asSentence)
        }
        return PositionReport(store: store.name, consumer: name, cursor: reached.description)
    }

    static func token(_ text: String) throws(ControlError) -> HistoryToken {
        guard let token = HistoryToken(text) else {
            throw ControlError(
                .tokenInvalid, "\"\(text)\" is not a token; a token has the form \"<store id>:<number>\".")
        }
        return token
    }

    // MARK: Following

    /// Sends transactions as they are committed, one a line, until the client disconnects.
    ///
    /// A peer that may not read the store gets no values of its rows, that is, no tombstones.
    func follow(
        _ storeName: String?, _ consumer: String?, _ afterText: String?, _ peer: Peer,
        _ response: ControlResponse
    ) async throws {
        let store: RunningStore
        var rule: (@Sendable (String?) -> Bool)?
        if let consumer {
            store = try await self.store(storeName, with: consumer)
            let delivery = store.served.rule
            rule = { delivery.delivers($0, to: consumer) }
        } else {
            let stores = try await stores(storeName)
            guard let only = stores.first, stores.count == 1 else {
                throw ControlError(
                    .ambiguous,
                    "There are several stores: \(stores.map(\.name).quotedList). Name one of them.")
            }
            store = only
        }
        let after = try afterText.map { text throws(ControlError) in try Self.token(text) }
        let mayRead = await peer.mayRead(store.served.path)
        try await store.control.follow(
            after: after, wanted: rule ?? { _ in true },
            begun: { try await response.beginLines() },
            deliver: { history in
                var json = JSONBytes()
                (mayRead ? history : history.withoutValues).write(to: &json)
                try await response.write(json.bytes.array)
            })
    }
}
