import Glibc
import HistoryControl
import Logging
import PersistentHistory
import TestSupport
import Testing

@testable import HistoryFeed

/// What the Swift client makes of the lines that it is sent.
@Suite struct FeedClientTests {
    private func read(_ line: String) throws -> FeedLine { try FeedLine(ArraySlice(line.utf8)) }

    private func transaction(_ number: Int64, of store: StoreID = .sample(), part: FeedTransaction.Part? = nil)
        -> FeedLine
    {
        .transaction(
            FeedTransaction(
                token: HistoryToken(store: store, number: number), author: "A", timestamp: "",
                part: part))
    }

    private func token(_ number: Int64, of store: StoreID = .sample()) -> HistoryToken {
        HistoryToken(store: store, number: number)
    }

    /// Also where two names have the same canonical form.
    @Test func columnsAreToldApartByTheirBytes() throws {
        let line = try read(
            """
            {"token":"00000000-0000-0000-0000-000000000001:7","timestamp":"","insertedObjectIDs":[
            {"entityName":"\u{e9}","objectID":{"\u{e9}" : "e\u{301}","e\u{301}":2},"objectIDURL":"x",
            "values":{"\u{e9}":1,"e\u{301}":3.0,"日本:\\"":4},"cutValues":{"e\u{301}":5}}]}
            """)
        guard case .transaction(let transaction) = line, let object = transaction.insertedObjectIDs.first else {
            Issue.record("\(line)")
            return
        }
        #expect(object.objectID == ["\u{e9}": .text("e\u{301}"), "e\u{301}": .integer(2)])
        let row = FeedRow(
            values: ["\u{e9}": .integer(1), "e\u{301}": .real(3), "日本:\"": .integer(4)],
            cutValues: ["e\u{301}": 5])
        #expect(transaction.values[object] == row)
    }

    /// JSON has no infinities: they are numbers that no double holds.
    @Test func readsInfinities() throws {
        let line = try read(
            #"""
            {"token":"00000000-0000-0000-0000-000000000001:7","timestamp":"","insertedObjectIDs":[
            {"entityName":"9e999","objectID":{"a":9e999,"b":-9e999,"-9e999":"\"9e999"},"objectIDURL":"\\"}]}
            """#)
        guard case .transaction(let transaction) = line else {
            Issue.record("\(line)")
            return
        }
        #expect(
            transaction.insertedObjectIDs == [
                FeedObjectID(
                    entityName: "9e999",
                    objectID: ["a": .real(.infinity), "b": .real(-.infinity), "-9e999": .text("\"9e999")],
                    objectIDURL: "\\")
            ])
    }

    @Test func readsATransaction() throws {
        let line = try read(
            #"""
            {"token":"00000000-0000-0000-0000-000000000001:7","author":null,"context":"c","processID":4,"timestamp":"2026-01-07T10:30:00.250Z",
            "insertedObjectIDs":[{"entityName":"e","objectID":{"a":1,"b":"x","c":2.5,"d":null,"e":{"base64":"AQI="}},"objectIDURL":"u"}],
            "updatedObjectIDs":[],"deletedObjectIDs":[],"part":{"index":2,"last":false},"later":true}
            """#)
        guard case .transaction(let transaction) = line else {
            Issue.record("\(line)")
            return
        }
        let object = FeedObjectID(
            entityName: "e",
            objectID: ["a": .integer(1), "b": .text("x"), "c": .real(2.5), "d": .null, "e": .blob([1, 2])],
            objectIDURL: "u")
        #expect(
            transaction
                == FeedTransaction(
                    token: token(7), author: nil, context: "c", processID: 4,
                    timestamp: "2026-01-07T10:30:00.250Z", insertedObjectIDs: [object],
                    part: FeedTransaction.Part(index: 2, isLast: false)))
        #expect(FeedItem.transaction(transaction).token == nil)
    }

    @Test func readsTheOtherLines() throws {
        guard
            case .begins(let place) = try read(
                #"{"begins":{"after":"00000000-0000-0000-0000-000000000001:3"}}"#)
        else {
            Issue.record("no begins")
            return
        }
        #expect(place == token(3))
        guard
            case .expired(let expiry) = try read(
                #"{"expired":{"reason":"late","lost":null,"after":"00000000-0000-0000-0000-000000000001:3"}}"#)
        else {
            Issue.record("no expired")
            return
        }
        #expect(expiry == Expiry(reason: .late, lost: nil, after: token(3)))
        guard case .other = try read(#"{"news":1}"#) else {
            Issue.record("no other")
            return
        }
        #expect(throws: ControlError.self) { try read(#"{"error":{"code":"stopping","message":"m"}}"#) }
        #expect(throws: DecodingError.self) { try read(#"{"begins":{"after":"nonsense"}}"#) }
    }

    /// What is handed over, in short.
    private func items(_ lines: [FeedLine]) -> [String] {
        var order = FeedOrder()
        return lines.compactMap { line in
            switch order.take(line) {
            case .transaction(let transaction): "\(transaction.token.number)"
            case .expired(let expiry): "\(expiry.reason) \(expiry.after)"
            case nil: nil
            }
        }
    }

    @Test func handsOverEachOnceWhateverComesAgain() {
        let part = FeedTransaction.Part(index: 0, isLast: false)
        let expired = FeedLine.expired(Expiry(reason: .expired, lost: token(5), after: token(9)))
        let restored = FeedLine.expired(Expiry(reason: .restored, lost: token(12), after: token(2)))
        #expect(
            items([
                .begins(after: token(0)), transaction(1), transaction(3), .begins(after: token(1)),
                transaction(3), transaction(5, part: part), .begins(after: token(3)),
                transaction(5, part: part), transaction(5, part: .init(index: 1, isLast: true)),
                expired, transaction(12), expired, transaction(12), transaction(13), restored, transaction(3),
                restored, transaction(3), transaction(4),
            ]) == [
                "1", "3", "5", "5", "5", "expired \(token(9))", "12", "13", "restored \(token(2))", "3", "4",
            ])
    }

    /// A store that is restored from one backup again and again, and written to as often each time.
    @Test func tellsOfTheSameLossOnceMoreWhenItHappensOnceMore() {
        let restored = FeedLine.expired(Expiry(reason: .restored, lost: token(5), after: token(2)))
        var order = FeedOrder()
        #expect(order.take(transaction(5), acknowledged: token(4)) != nil)
        #expect(order.take(restored, acknowledged: token(5)) != nil)
        #expect(order.take(transaction(3), acknowledged: nil) != nil)
        // It was only not acknowledged yet.
        #expect(order.take(restored, acknowledged: nil) == nil)
        #expect(order.take(restored, acknowledged: token(2)) == nil)
        #expect(order.take(transaction(3), acknowledged: token(2)) == nil)
        #expect(order.take(transaction(5), acknowledged: token(2)) != nil)
        #expect(order.take(restored, acknowledged: token(5)) != nil)
        #expect(order.take(transaction(3), acknowledged: nil) != nil)
    }

    @Test func tellsThatTheStoreIsAnother() {
        #expect(
            items([
                .begins(after: token(0)), transaction(4), .begins(after: token(0, of: .sample(2))),
                transaction(1, of: .sample(2)), .begins(after: token(0, of: .sample(2))),
                transaction(1, of: .sample(2)),
            ]) == ["4", "replaced \(StoreID.sample(2)):0", "1"])
    }

    @Test func aFeedWithoutADaemonSaysSoOnce() async throws {
        let lines = LoggedLines(from: .info)
        let folder = try TemporaryFolder()
        let feed = Feed(
            consumer: "MainApp", context: "live", socketPath: folder.file("control.sock"),
            logger: lines.logger)
        var pause = ReconnectPause(feed: feed)
        for _ in 1...3 {
            do { _ = try await feed.socket.client.send(.status) } catch { try await pause.wait(after: error) }
        }
        let logged = lines.all.map(\.text)
        #expect(logged.count == 1 && logged[0].contains("\(folder.file("control.sock"))"), "\(logged)")
    }

    /// A daemon that starts, or is stopped, accepts nothing for a while: the feed does not end for that.
    @Test func aFeedWaitsForADaemonThatAcceptsNothing() async throws {
        let folder = try TemporaryFolder()
        let listener = try FullListener(path: folder.file("control.sock"))
        defer { listener.close() }
        let lines = LoggedLines(from: .info)
        let feed = Feed(
            consumer: "MainApp", context: "live", socketPath: folder.file("control.sock"),
            logger: lines.logger)
        var pause = ReconnectPause(feed: feed)
        let error = await #expect(throws: ControlClient.Unanswered.self) {
            _ = try await feed.socket.client.send(.status)
        }
        try await pause.wait(after: try #require(error))
        #expect(lines.all.first?.text.contains("accepts no connections") ?? false)
    }

    /// A socket at which as many connections wait as may.
    private struct FullListener {
        private let listener: Int32
        private let waiting: Int32

        init(path: String) throws {
            listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            waiting = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix($0.count - 1)) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let results = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    [bind(listener, address, size), listen(listener, 0), connect(waiting, address, size)]
                }
            }
            try #require(results == [0, 0, 0])
        }

        func close() {
            Glibc.close(waiting)
            Glibc.close(listener)
        }
    }
}
