import Foundation
import TestSupport
import Testing

@testable import PersistentHistory

/// Every operation of the library, with a fault at each of its calls to the disk: no trap, a typed error, nothing
/// damaged, and all right once it is made again.
///
/// In `make test` some calls are taken, from HISTORYD_FAULTS_SEED on; `make test-faults` takes all.
@Suite(.timeLimit(.minutes(60))) struct FaultLoopTests {
    static let operations: [(String, any FaultyOperation)] = [
        ("track", TrackOperation()), ("untrack", UntrackOperation()),
        ("record", RecordOperation(journal: "WAL")),
        ("record with a journal", RecordOperation(journal: "DELETE")),
        ("exec", ExecOperation()), ("describe", DescribeOperation()),
        ("first serving", FirstServingOperation()),
        ("merge", MergeOperation()), ("feed", FeedOperation()), ("clean", CleanOperation(journal: "WAL")),
        ("clean with a journal", CleanOperation(journal: "DELETE")), ("migrate", MigrateOperation()),
        ("mirror", MirrorOperation()),
    ]

    @Test("Without a fault, it is right at once and when it is made again", arguments: operations.map(\.0))
    func noFault(name: String) async throws {
        let operation = try #require(Self.operations.first { $0.0 == name }?.1)
        let disk = try FaultDisk()
        let store = FaultStore(folder: disk.path)
        try await operation.prepare(store)
        for _ in 0..<2 {
            try await operation.run(store, stop: OneShotEvent())
            try operation.checkAfterFault(store)
        }
        try await operation.checkAtEnd(store)
    }

    @Test("The n-th call fails", arguments: operations.map(\.0))
    func everyFault(name: String) async throws {
        let operation = try #require(Self.operations.first { $0.0 == name }?.1)
        let loop = try await FaultLoop(operation)
        for (index, kind) in FaultKind.every.enumerated() {
            let met = try await loop.run(kind, FaultSelection(index).numbers)
            // Which calls there are is up to the operation; but something is read in each.
            if kind.calls == .all { #expect(met > 0) }
        }
    }
}

/// Which calls are to fail.
struct FaultSelection {
    static let isComplete = ProcessInfo.processInfo.environment["HISTORYD_FAULTS"] == "all"
    static let seed = ProcessInfo.processInfo.environment["HISTORYD_FAULTS_SEED"].flatMap { UInt64($0) } ?? 1

    /// All of them, or a few at distances that grow.
    let numbers: AnySequence<Int>

    init(_ index: Int) {
        if Self.isComplete {
            numbers = AnySequence(1...)
        } else {
            let seed = Seed(Self.seed &+ UInt64(index))
            numbers = AnySequence { () -> AnyIterator<Int> in
                var (seed, last) = (seed, 0)
                return AnyIterator {
                    last += Int.random(in: 1...(3 + last * 5), using: &seed)
                    return last
                }
            }
        }
    }
}
