import Foundation
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// What hooks have received, part by part; some calls fail.
final class Received: Sendable {
    private struct State {
        var seed: Seed
        var left: Int?
        var calls: [(hook: String, delivery: String, text: String, isMerge: Bool)] = []
    }

    private let state: Locked<State>

    init(seed: UInt64) { state = Locked(State(seed: Seed(seed))) }

    /// After so many calls none succeeds; nil for never.
    func fail(after calls: Int?) { state.withLock { $0.left = calls } }

    func hook(_ name: String, _ kind: Hook.Kind, takesParts: Bool = true) -> Hook {
        // It is held only where it fails for good.
        Hook(
            id: UUID(), name: name, kind: kind, endpoint: Endpoint(self, takesParts),
            policy: FailurePolicy(
                attempts: 30, initialDelay: .microseconds(1), maximumDelay: .microseconds(1)))
    }

    fileprivate func take(_ hook: String, _ delivery: String, _ text: String, isMerge: Bool)
        throws(HookFailure)
    {
        let succeeds = state.withLock { state in
            if let left = state.left { state.left = max(0, left - 1) }
            if state.left == 0 || Int.random(in: 0..<4, using: &state.seed) == 0 { return false }
            state.calls.append((hook, delivery, text, isMerge))
            return true
        }
        if !succeeds { throw HookFailure(.refused, "not now") }
    }

    /// Each delivery once.
    private func texts(_ hook: String) -> [(delivery: String, text: String)] {
        var seen: Set<String> = []
        return state.withLock { state in
            state.calls.filter { $0.hook == hook && seen.insert($0.delivery).inserted }
                .map { ($0.delivery, $0.text) }
        }
    }

    var isConsistent: Bool {
        state.withLock { state in
            Dictionary(grouping: state.calls, by: \.delivery).values.allSatisfy {
                Set($0.map(\.text)).count == 1
            }
        }
    }

    /// Each group as one text, its parts joined.
    func observed(_ hook: String) -> [String] {
        var groups: [String] = []
        var last = ""
        for (delivery, text) in texts(hook) {
            let group = String(delivery.split(separator: ".")[0])
            if group == last { groups[groups.count - 1] += " " + text } else { groups.append(text) }
            last = group
        }
        return groups
    }

    /// Each transaction as one text.
    func merged(_ hook: String) -> [String] {
        var transactions: [String] = []
        var last: Substring = ""
        for (_, text) in texts(hook) {
            for line in text.split(separator: "\n") {
                let token = line.prefix { $0 != " " }
                if token == last {
                    transactions[transactions.count - 1] += line.dropFirst(token.count)
                } else {
                    transactions.append(String(line))
                }
                last = token
            }
        }
        return transactions
    }

    static func text(_ changes: some Sequence<HistoryChange>) -> String {
        changes.map { "\($0.operation)\($0.entity.name)\($0.objectID.keyText)" }.joined(separator: " ")
    }

    static func text(_ transaction: HistoryTransaction) -> String {
        "\(transaction.number) \(text(transaction.changes))"
    }

    static func groups(_ transaction: HistoryTransaction) -> [String] {
        var kinds: [String] = []
        var groups: [String: [HistoryChange]] = [:]
        for change in transaction.changes {
            let kind = "\(change.operation)\(change.entity.name)"
            if groups[kind] == nil { kinds.append(kind) }
            groups[kind, default: []].append(change)
        }
        return kinds.map { text(groups[$0] ?? []) }
    }

    private final class Endpoint: HookEndpoint {
        private let received: Received
        let takesParts: Bool

        init(_ received: Received, _ takesParts: Bool) {
            self.received = received
            self.takesParts = takesParts
        }

        func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
            for (index, call) in calls.enumerated() {
                do throws(HookFailure) {
                    try received.take(
                        call.header.hook, call.header.delivery, Received.text(call.changes), isMerge: false)
                } catch {
                    return ObserverOutcome(succeeded: index, failure: error)
                }
            }
            return ObserverOutcome(succeeded: calls.count)
        }

        func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
            #expect(takesParts || call.part == nil)
            let text = call.transactions.map { Received.text($0) }.joined(separator: "\n")
            try received.take(call.header.hook, call.header.delivery, text, isMerge: true)
            return .goOn
        }
    }
}

/// A program at a feed that goes away now and then, also between two parts.
final class PartialFeed {
    private struct Line: Decodable {
        struct Object: Decodable { let objectIDURL: String }
        struct Part: Decodable {
            let index: Int
            let last: Bool
        }

        let token: String?
        let insertedObjectIDs, updatedObjectIDs, deletedObjectIDs: [Object]?
        let part: Part?
    }

    private let feed: FeedID
    private var seed: Seed
    /// By transaction: the objects, effect by effect.
    private(set) var objects: [Int64: [[String]]] = [:]

    init(_ feed: FeedID, seed: UInt64) {
        self.feed = feed
        self.seed = Seed(seed)
    }

    func read(_ store: ServedStore, _ folder: String) async throws {
        let feeds = try OpenFeeds(store, folder)
        defer { feeds.close() }
        while try await connect(feeds.keeper, feeds.fetcher, feeds.reader.storeID) {}
    }

    /// - Returns: Whether it went away before the end.
    private func connect(_ keeper: FeedKeeper, _ fetcher: SharedFetcher, _ store: StoreID) async throws
        -> Bool
    {
        var stream = FeedStream(feed)
        var current: [[String]] = [[], [], []]
        var next = 0
        while true {
            switch try await stream.step(keeper, fetcher) {
            case .again: continue
            case .idle: return false
            case .lines(let bytes):
                for line in bytes.split(separator: UInt8(ascii: "\n")) {
                    let line = try JSONDecoder().decode(Line.self, from: Data(line))
                    guard let number = line.token.flatMap({ HistoryToken($0)?.number }) else { continue }
                    #expect(line.part?.index ?? 0 == next)
                    next += 1
                    let lists = [line.insertedObjectIDs, line.updatedObjectIDs, line.deletedObjectIDs]
                    for (place, list) in lists.enumerated() {
                        current[place] += (list ?? []).map {
                            String($0.objectIDURL.split(separator: "/", maxSplits: 2)[2])
                        }
                    }
                    if line.part?.last ?? true {
                        #expect(stream.sent?.number ?? 0 >= number)
                        objects[number] = current
                        (current, next) = ([[], [], []], 0)
                        _ = try keeper.acknowledge(HistoryToken(store: store, number: number), of: feed)
                    } else {
                        #expect(stream.sent?.number ?? 0 < number, "parts cannot be acknowledged")
                    }
                }
                if Int.random(in: 0..<6, using: &seed) == 0 { return true }
            }
        }
    }

    static func text(_ objects: [ObjectIDNotification.Object]) -> [[String]] {
        ObjectIDNotification.Effect.allCases.map { effect in
            objects.filter { $0.effect == effect }.map { "\($0.entity.name)/\(urlKey($0))" }
        }
    }

    private static func urlKey(_ object: ObjectIDNotification.Object) -> String {
        var text = ByteBuffer()
        ObjectURL.append(object.objectID, of: object.entity, to: &text)
        return text.text
    }
}
