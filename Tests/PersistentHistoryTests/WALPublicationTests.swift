import Foundation
import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// A look is left out only where it would find nothing.
@Suite(.timeLimit(.minutes(60)))
struct WALPublicationTests {
    private static let seeds: [UInt64] = Array(1...12)

    /// Whatever is done to a store, a look that is left out would have found what the last one found.
    @Test(arguments: seeds)
    func nothingIsPassedOver(seed: UInt64) async throws {
        var random = SplitMix(state: seed)
        try await withFolder { folder in
            let path = "\(folder)/store.sqlite"
            var writer = try DatabaseQueue(path: path)
            try await execute(writer, "PRAGMA journal_mode = WAL; CREATE TABLE t (x)")
            try await withProbe(path) { probe in
                var seen = SeenPublication()
                var (found, leftOut) = (-1, 0)
                for _ in 0..<400 {
                    switch Int.random(in: 0..<40, using: &random) {
                    case 0..<12: try await execute(writer, "INSERT INTO t VALUES (1)")
                    case 12..<15: try await execute(writer, "BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
                    case 15: try await execute(writer, "PRAGMA wal_checkpoint(PASSIVE)")
                    case 16: try await execute(writer, "PRAGMA wal_checkpoint(RESTART)")
                    case 17: try await execute(writer, "PRAGMA wal_checkpoint(TRUNCATE)")
                    case 18: try await execute(writer, "PRAGMA journal_mode = DELETE")
                    case 19: try await execute(writer, "PRAGMA journal_mode = WAL")
                    case 20:
                        try writer.close()
                        writer = try DatabaseQueue(path: path)
                    case 21: try leaveIndex(beside: path)
                    default: break
                    }
                    // As a session does it: whether a writer is active, and then the look, beside which others commit.
                    _ = try probe.writer()
                    let there = try count(writer)
                    let isDisturbed = Int.random(in: 0..<8, using: &random) == 0
                    let looked = try seen.look {
                        probe.publication()
                    } _: {
                        let seen = try count(writer)
                        if isDisturbed { try commit(writer) }
                        return seen
                    }
                    if let looked { found = looked } else { leftOut += 1 }
                    #expect(there == found, "seed \(seed)")
                }
                #expect(leftOut > 20, "seed \(seed)")
                try writer.close()
            }
        }
    }

    /// A store without a log, beside a `-shm` of an earlier time.
    private func leaveIndex(beside path: String) throws {
        guard !FileManager.default.fileExists(atPath: path + "-shm") else { return }
        try Data(repeating: 7, count: 32_768).write(to: URL(filePath: path + "-shm"))
    }

    private func count(_ queue: DatabaseQueue) throws -> Int {
        try queue.unsafeRead { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") ?? -1 }
    }

    private func commit(_ queue: DatabaseQueue) throws {
        try queue.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
    }

    private func execute(_ queue: DatabaseQueue, _ sql: String) async throws {
        try await queue.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    @Test func anIndexThatNeverChangedSaysNothing() async throws {
        try await withFolder { folder in
            let path = "\(folder)/store.sqlite"
            let writer = try DatabaseQueue(path: path)
            try await execute(writer, "PRAGMA journal_mode = DELETE; CREATE TABLE t (x)")
            try leaveIndex(beside: path)
            try await withProbe(path) { probe in
                _ = try probe.writer()
                try #require(probe.publication() != nil)
                var seen = SeenPublication()
                for _ in 0..<4 { #expect(seen.look({ probe.publication() }, { true }) == true) }
                try writer.close()
            }
        }
    }

    @Test func aWriterInTheMidstOfPublishingSaysNothing() throws {
        let shm = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: shm) }
        var bytes = [UInt8](repeating: 1, count: 96)
        bytes[50] = 2
        try Data(bytes).write(to: shm)
        let file = try FileHandle(forReadingFrom: shm)
        #expect(WALPublication(reading: file.fileDescriptor) == nil)
        bytes[50] = 1
        try Data(bytes).write(to: shm)
        let whole = try FileHandle(forReadingFrom: shm)
        #expect(WALPublication(reading: whole.fileDescriptor) != nil)
    }
}
