import HistoryControl
import NIOCore
import NIOHTTP1
import PersistentHistory
import Testing

@testable import HistoryDaemon

/// What a client of the control socket can send, hold and repeat.
@Suite(.timeLimit(.minutes(60))) struct ControlLimitTests {
    private func head(_ target: String) -> HTTPServerRequestPart {
        .head(HTTPRequestHead(version: .http1_1, method: .GET, uri: target))
    }

    private func body(_ count: Int) -> HTTPServerRequestPart {
        .body(ByteBuffer(repeating: UInt8(ascii: "x"), count: count))
    }

    @Test func aConnectionHasOneRequest() throws {
        var reader = RequestReader(limit: 10)
        for part in [head("/v1/status"), body(4), body(6)] { #expect(reader.take(part) == nil) }
        let last = reader.take(.end(nil))
        let request = try #require(last).get()
        #expect(request.command == .status)
        #expect(request.body.count == 10)
        for part in [head("/v1/hooks"), body(1), .end(nil)] { #expect(reader.take(part) == nil) }
        #expect(!reader.isFlooded)
        for _ in 0...RequestReader.mostIgnored { #expect(reader.take(.end(nil)) == nil) }
        #expect(reader.isFlooded)
    }

    @Test func aBodyThatIsTooLargeIsRefusedBeforeItsEnd() {
        var reader = RequestReader(limit: 10)
        #expect(reader.take(head("/v1/status")) == nil)
        #expect(reader.take(body(4)) == nil)
        guard case .failure(let error)? = reader.take(body(7)) else {
            Issue.record("It was not refused.")
            return
        }
        #expect(error.code == .tooLarge)
        #expect(reader.take(body(1)) == nil)
        #expect(reader.take(.end(nil)) == nil)
    }

    @Test func noUserTakesThePlacesOfAllOthers() {
        let places = ConnectionSlots()
        var held = (0..<ConnectionSlots.mostOfOne).map { _ in places.take(for: 7, feeds: 0) }
        #expect(held.allSatisfy { $0 != nil })
        #expect(places.take(for: 7, feeds: 0) == nil)
        let other = places.take(for: 8, feeds: 0)
        #expect(other != nil)
        // A place that is left twice is one place.
        held[0]?.leave()
        held[0]?.leave()
        held.append(places.take(for: 7, feeds: 0))
        #expect(held.count { $0 != nil } == ConnectionSlots.mostOfOne + 1)
        #expect(places.take(for: 7, feeds: 0) == nil)
        held = []
        // All together: the other's place is one of them.
        let all = (0..<ConnectionSlots.most).map { places.take(for: UInt32($0) / 8 + 100, feeds: 0) }
        #expect(all.count { $0 != nil } == ConnectionSlots.most - 1)
        #expect(places.take(for: 9, feeds: 0) == nil)
        #expect(places.take(for: 9, feeds: 1) != nil)
        _ = other
    }

    @Test func whatIsRepeatedIsWrittenOnceAndThenCounted() async throws {
        let written = Locked<[String]>([])
        let lines = RepeatedLines(period: .seconds(1))
        let member = Peer(processID: 1, userID: 7)
        for number in 1...100 {
            lines.log("refused", by: member) { more in written.withLock { $0.append("\(number)\(more)") } }
        }
        lines.log("refused", by: Peer(processID: 1, userID: 8)) { _ in written.withLock { $0.append("other") } }
        lines.log("not let in", by: member) { _ in written.withLock { $0.append("another kind") } }
        #expect(written.withLock { $0 } == ["1", "other", "another kind"])
        while written.withLock({ $0.count }) < 4 { try await Task.sleep(for: .milliseconds(5)) }
        #expect(written.withLock { $0.last } == "100 (99 times in 1 s)")
    }
}
