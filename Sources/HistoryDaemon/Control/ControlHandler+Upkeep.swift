import FoundationEssentials
import HistoryConfiguration
import HistoryControl
import Logging
import PersistentHistory

/// Cleaning, contexts and dead letters.
extension ControlHandler {
    func clean(_ name: String?, dryRun: Bool, force: Bool, _ peer: Peer) async throws -> CleanReport {
        var reports: [CleanReport.Store] = []
        // Other stores are cleaned even if one cannot be.
        var failures: [(store: String, error: ControlError)] = []
        for store in try await stores(name) {
            do {
                reports.append(try await clean(store, dryRun: dryRun, force: force, peer))
            } catch {
                failures.append((store.name, ControlError(error)))
            }
        }
        guard let first = failures.first else { return CleanReport(stores: reports) }
        let texts =
            failures.map { "Store \"\($0.store)\" was not cleaned. \($0.error.message)" }
            + (dryRun ? [] : reports.map { "Store \"\($0.name)\": \($0.changes, "change") deleted." })
        throw ControlError(first.error.code, texts.joined(separator: " "))
    }

    private func clean(_ store: RunningStore, dryRun: Bool, force: Bool, _ peer: Peer) async throws
        -> CleanReport.Store
    {
        let cleaning = try await store.control.clean(dryRun: dryRun, force: force)
        let report = cleaning.report
        let passedBy = report.passedBy.map(\.name)
        let deleted = cleaning.outcome?.deleted ?? report.deleting
        if !dryRun {
            let what = deleted == 0 ? "Nothing was deleted" : "\(deleted, "change") deleted"
            let passed = passedBy.isEmpty ? "" : "; passed by: \(passedBy.quotedList)"
            logger.notice(
                "Store \"\(store.name)\": \(peer) had it cleaned. \(what)\(passed).",
                metadata: ["store": "\(store.name)"])
        }
        return CleanReport.Store(
            name: store.name, through: report.floorAfter.description,
            changes: deleted, isDryRun: dryRun,
            keptFor: report.blockers.map {
                .init(consumer: $0.holder.consumer, context: $0.holder.context, changes: $0.changes)
            },
            passedBy: passedBy,
            tooYoung: report.young.map {
                .init(changes: $0.changes, since: $0.history.time.description)
            })
    }

    func resync(_ context: String, in storeName: String?, of consumerName: String?, _ peer: Peer) async throws
        -> ResyncReport
    {
        var fitting: [(store: RunningStore, consumer: String)] = []
        for store in try await stores(storeName) {
            for consumer in store.served.consumers where consumerName ?? consumer.author == consumer.author {
                let names = consumer.contexts.map(\.name) + consumer.pluginContexts.map(\.name)
                if names.contains(context) {
                    fitting.append((store, consumer.author))
                }
            }
        }
        guard let (store, consumer) = fitting.first else {
            let feeds = try await stores(storeName).flatMap(\.served.consumers).flatMap(\.feeds)
            if feeds.contains(where: { $0.name == context }) {
                throw ControlError(
                    .badRequest,
                    "\"\(context)\" is a feed and cannot be filled: its program reads the store itself."
                )
            }
            throw ControlError(
                .unknownContext,
                "There is no context \"\(context)\". `historyctl consumers` lists the contexts.")
        }
        guard fitting.count == 1 else {
            let consumers = fitting.map { "\($0.consumer) of \($0.store.name)" }.quotedList
            throw ControlError(
                .ambiguous,
                "\(consumers) have a context \"\(context)\". Name the consumer and the store.")
        }
        let token = try await store.control.resync(context, of: consumer)
        logger.notice(
            "Context \"\(context)\" of \"\(consumer)\" was filled again at the request of \(peer).",
            metadata: ["store": "\(store.name)", "consumer": "\(consumer)"])
        return ResyncReport(
            store: store.name, consumer: consumer, context: context, token: token.description)
    }

    // MARK: Dead letters

    /// A peer that may not read a store gets the calls without their parameters, which may contain values of
    /// rows.
    func deadLetters(of name: String?, for peer: Peer) async throws -> DeadLetterList {
        let letters = try await letters(DeadLetterSelection(store: name))
        var readable: [String: Bool] = [:]
        for store in letters.map(\.store) where readable[store.name] == nil {
            readable[store.name] = await peer.mayRead(store.served.path)
        }
        return DeadLetterList(
            deadLetters: letters.map { store, numbered in
                let letter = numbered.letter
                let mayRead = readable[store.name] ?? false
                return DeadLetterReport(
                    id: "\(store.name):\(numbered.number)", store: store.name, consumer: letter.consumer,
                    hook: letter.hook, delivery: letter.delivery, method: letter.method.rawValue,
                    reason: letter.reason,
                    attempts: letter.attempts, keptAt: letter.keptAt.description,
                    call: mayRead ? letter.call : nil)
            })
    }

    /// Makes each call once more: those that succeed are removed. Of several requests for one store, one has its turn.
    func retry(_ selection: DeadLetterSelection) async throws -> DeadLetterOutcome {
        var outcome = DeadLetterOutcome(delivered: [], failed: [])
        let chosen = Dictionary(grouping: try await letters(selection), by: \.store.name)
        for (_, letters) in chosen.sorted(by: { $0.key < $1.key }) {
            guard let store = letters.first?.store else { continue }
            await store.control.retries.lock()
            defer { store.control.retries.unlock() }
            try Task.checkCancellation()
            // Another request may have had the turn, and delivered some.
            let left = Set(try await store.control.deadLetters().map(\.number))
            for (_, letter) in letters where left.contains(letter.number) {
                try await retry(letter, in: store, &outcome)
            }
        }
        return outcome
    }

    private func retry(
        _ numbered: NumberedDeadLetter, in store: RunningStore, _ outcome: inout DeadLetterOutcome
    ) async throws {
        let id = "\(store.name):\(numbered.number)"
        let letter = numbered.letter
        var reason: String?
        var counts = true
        if let hook = engine.registry.hook(named: letter.hook) {
            let header = HookCallHeader(
                store: store.name, consumer: letter.consumer, hook: hook.name, hookID: hook.id,
                delivery: letter.delivery)
            // The batch of a merge hook has already been merged: its decision comes too late.
            if case .failure(let failure) = await hook.call(header, letter.method, kept: letter.call) {
                (reason, counts) = (failure.message, failure.reason != .daemonLacks)
            }
        } else {
            reason = "There is no hook \"\(letter.hook)\" any more."
        }
        if let reason {
            if counts { try await store.control.noteFailure(of: numbered.number, reason) }
            outcome.failed?.append(.init(id: id, reason: reason))
        } else {
            _ = try await store.control.dropDeadLetter(numbered.number)
            outcome.delivered?.append(id)
            logger.notice(
                "Dead letter \"\(id)\" was delivered to \"\(letter.hook)\".",
                metadata: [
                    "store": "\(store.name)", "consumer": "\(letter.consumer)",
                    "hook": "\(letter.hook)", "delivery": "\(letter.delivery)",
                ])
        }
    }

    func drop(_ selection: DeadLetterSelection, _ peer: Peer) async throws -> DeadLetterOutcome {
        var dropped: [String] = []
        for (store, numbered) in try await letters(selection) {
            if try await store.control.dropDeadLetter(numbered.number) {
                dropped.append("\(store.name):\(numbered.number)")
            }
        }
        if !dropped.isEmpty { logger.notice("Dropped dead letters \(dropped.quotedList), by \(peer).") }
        return DeadLetterOutcome(dropped: dropped)
    }

    private func letters(_ selection: DeadLetterSelection) async throws
        -> [(store: RunningStore, letter: NumberedDeadLetter)]
    {
        guard let id = selection.id else {
            var letters: [(RunningStore, NumberedDeadLetter)] = []
            for store in try await stores(selection.store) {
                letters += try await store.control.deadLetters().map { (store, $0) }
            }
            return letters
        }
        let unknown = ControlError(.unknownDeadLetter, "There is no dead letter \"\(id)\".")
        guard let colon = id.lastIndex(of: ":"), let number = Int64(id[id.index(after: colon)...]) else {
            throw unknown
        }
        let stores = try await stores(String(id[..<colon]))
        for store in stores {
            if let letter = try await store.control.deadLetters().first(where: { $0.number == number }) {
                return [(store, letter)]
            }
        }
        throw unknown
    }
}
