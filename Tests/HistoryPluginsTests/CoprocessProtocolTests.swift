import Glibc
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryPlugins

@Suite struct CoprocessProtocolTests {
    private static let start = CoprocessProtocol.Instant.now
    private static func at(_ seconds: Int) -> CoprocessProtocol.Instant {
        start.advanced(by: .seconds(seconds))
    }

    private static func answer(_ id: Int64?, error: String? = nil) -> PluginAnswer? {
        let id = id.map { "\($0)" } ?? "null"
        let line =
            error.map { #"{"id":\#(id),"error":{"message":"\#($0)"}}"# } ?? #"{"id":\#(id),"result":null}"#
        return PluginAnswer(line: Array(line.utf8)[...])
    }

    private static func exchange(calls: Int = 3, bytes: Int = 100) -> CoprocessProtocol {
        CoprocessProtocol(window: .init(calls: calls, bytes: bytes), timeout: .seconds(5))
    }

    @Test func windowHoldsCallsAndBytes() {
        var exchange = Self.exchange()
        exchange.send(at: Self.at(0)) { _ in 1000 }
        #expect(!exchange.hasRoom, "one call is allowed whatever its size, but no second beside it")
        #expect(exchange.receive(Self.answer(1), at: Self.at(0)) == .deliver(.null))
        for _ in 0..<3 {
            #expect(exchange.hasRoom)
            exchange.send(at: Self.at(0)) { _ in 1 }
        }
        #expect(!exchange.hasRoom)
        #expect(exchange.receive(Self.answer(2), at: Self.at(0)) == .deliver(.null))
        #expect(exchange.hasRoom)
    }

    @Test func answersAreForTheOldestOnly() {
        var exchange = Self.exchange()
        exchange.send(at: Self.at(0)) { _ in 1 }
        exchange.send(at: Self.at(0)) { _ in 1 }
        var other = exchange
        #expect(
            other.receive(Self.answer(2), at: Self.at(0)) == .nonsense("answered with the id 2 where 1 was due")
        )
        #expect(
            exchange.receive(Self.answer(nil, error: "parse error"), at: Self.at(0))
                == .nonsense("answered without an id where 1 was due (\"parse error\")"))
        #expect(
            exchange.receive(nil, at: Self.at(0)) == .nonsense("wrote a line that is not a JSON-RPC response"))
        #expect(exchange.receive(Self.answer(1, error: "no"), at: Self.at(0)) == .deliver(.refused("no")))
        #expect(exchange.receive(Self.answer(2), at: Self.at(0)) == .deliver(.null))
        #expect(
            exchange.receive(Self.answer(2), at: Self.at(0))
                == .nonsense("wrote an answer without a request"))
    }

    @Test func lateAnswersAreDroppedInStep() {
        var exchange = Self.exchange()
        exchange.send(at: Self.at(0)) { _ in 1 }
        exchange.send(at: Self.at(0)) { _ in 1 }
        exchange.abandon()
        #expect(!exchange.isAwaited)
        exchange.send(at: Self.at(0)) { _ in 1 }
        #expect(exchange.isAwaited)
        #expect(exchange.receive(Self.answer(1), at: Self.at(0)) == .drop)
        #expect(exchange.receive(Self.answer(2, error: "late"), at: Self.at(0)) == .drop)
        #expect(exchange.receive(Self.answer(3), at: Self.at(0)) == .deliver(.null))
    }

    @Test func timeRunsFromSendingOrFromBecomingTheOldest() {
        var exchange = Self.exchange()
        #expect(exchange.deadline == nil)
        exchange.send(at: Self.at(0)) { _ in 1 }
        exchange.send(at: Self.at(1)) { _ in 1 }
        #expect(exchange.deadline == Self.at(5))
        #expect(!exchange.isOverdue(at: Self.at(4)))
        #expect(exchange.isOverdue(at: Self.at(5)))
        _ = exchange.receive(Self.answer(1), at: Self.at(4))
        #expect(exchange.deadline == Self.at(9))
        _ = exchange.receive(Self.answer(2), at: Self.at(6))
        #expect(exchange.deadline == nil)
        exchange.send(at: Self.at(20)) { _ in 1 }
        #expect(exchange.deadline == Self.at(25))
    }

    @Test func idsAreNeverUsedTwice() {
        var exchange = Self.exchange()
        var ids: [Int64] = []
        for _ in 0..<5 {
            exchange.send(at: Self.at(0)) { id in
                ids.append(id)
                return 1
            }
            exchange.reset()
            #expect(exchange.isIdle)
            #expect(exchange.deadline == nil)
        }
        #expect(Set(ids).count == 5)
    }

    /// Whatever the order of sending, abandoning and answering: each call's answer comes once, in
    /// order, to who still waits for it, and the window is kept.
    @Test func anyOrderOfEvents() {
        let seed = UInt64.random(in: 0...UInt64.max)
        var generator = SplitMix(state: seed)
        for _ in 0..<20 {
            var exchange = Self.exchange(calls: 4, bytes: 40)
            var model: [(id: Int64, size: Int, isAbandoned: Bool)] = []
            var sent: Int64 = 0
            var doubtful: Int64?
            for _ in 0..<100 {
                switch Int.random(in: 0..<5, using: &generator) {
                case 0, 1:
                    let room =
                        model.isEmpty
                        || (doubtful == nil && model.count < 4 && model.reduce(0) { $0 + $1.size } < 40)
                    #expect(exchange.hasRoom == room, "seed \(seed)")
                    guard room else { continue }
                    let size = Int.random(in: 1..<30, using: &generator)
                    exchange.send(at: Self.at(0)) { id in
                        model.append((id, size, false))
                        sent = id
                        return size
                    }
                case 2:
                    exchange.abandon()
                    for index in model.indices { model[index].isAbandoned = true }
                default:
                    guard !model.isEmpty else { continue }
                    let call = model.removeFirst()
                    let error = Int.random(in: 0..<4, using: &generator) == 0 ? "no" : nil
                    if error == nil, Bool.random(using: &generator) {
                        // The short way of most answers is the same way.
                        #expect(exchange.receiveNull(call.id + 1, at: Self.at(0)) == nil, "seed \(seed)")
                        #expect(
                            exchange.receiveNull(call.id, at: Self.at(0)) == !call.isAbandoned, "seed \(seed)")
                    } else {
                        #expect(
                            exchange.receive(Self.answer(call.id, error: error), at: Self.at(0))
                                == (call.isAbandoned ? .drop : .deliver(error.map { .refused($0) } ?? .null)),
                            "seed \(seed)")
                    }
                    if !call.isAbandoned {
                        if error != nil { doubtful = sent } else if call.id > doubtful ?? 0 { doubtful = nil }
                    }
                }
                #expect(exchange.isIdle == model.isEmpty, "seed \(seed)")
                #expect(exchange.isAwaited == model.contains { !$0.isAbandoned }, "seed \(seed)")
            }
        }
    }
}

@Suite struct GrowingPauseTests {
    @Test func firstAtOnceThenDoubling() {
        var delay = GrowingPause(first: .milliseconds(100), atOnce: 1)
        var delays: [Duration] = []
        for _ in 0..<12 { delays.append(delay.next()) }
        #expect(
            delays.prefix(5) == [
                .zero, .milliseconds(100), .milliseconds(200), .milliseconds(400), .milliseconds(800),
            ])
        #expect(delays.last == .seconds(30))
        delay.reset()
        #expect(delay.next() == .zero)
    }
}

@Suite struct TeardownTests {
    @Test func everyStepInTurn() {
        var teardown = Teardown()
        #expect(teardown.nextStep() == .none)
        teardown.begin(.stop)
        #expect(teardown.nextStep() == .wait)
        #expect(teardown.nextStep() == .none)
        teardown.graceIsOver()
        #expect(teardown.nextStep() == .signal(SIGTERM))
        teardown.graceIsOver()
        #expect(teardown.nextStep() == .signal(SIGKILL))
        teardown.graceIsOver()
        #expect(teardown.nextStep() == .none)
        teardown.processEnded()
        teardown.outputEnded()
        #expect(teardown.nextStep() == .none)
        teardown.errorsEnded()
        #expect(teardown.nextStep() == .finish)
        #expect(teardown.reason == .stop)
    }

    @Test func anEndOfItsOwnNeedsNoReason() {
        var teardown = Teardown()
        teardown.outputEnded()
        #expect(teardown.nextStep() == .wait)
        teardown.processEnded()
        teardown.errorsEnded()
        #expect(teardown.nextStep() == .finish)
        #expect(teardown.reason == nil)
    }
}
