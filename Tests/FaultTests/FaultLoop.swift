import Foundation
import TestSupport
import Testing

import HistoryMirrors
@testable import PersistentHistory

/// An operation that is run with a fault at each of its calls to the disk.
protocol FaultyOperation: Sendable {
    /// What is there before. The same each time.
    func prepare(_ store: FaultStore) async throws
    /// The operation. It stops when the fault was met, where it would try again for ever.
    func run(_ store: FaultStore, stop: OneShotEvent) async throws
    /// What must be right after the fault, and before the operation is made again.
    func checkAfterFault(_ store: FaultStore) throws
    /// What must be right after the operation was made again, without a fault.
    func checkAtEnd(_ store: FaultStore) async throws
}

extension FaultyOperation {
    func checkAfterFault(_ store: FaultStore) throws {}
}

/// Which calls fail, how, and how long.
struct FaultKind: Sendable, CustomStringConvertible {
    let calls: FaultDisk.Calls
    let fault: FaultDisk.Fault
    let isForGood: Bool

    var description: String { "\(calls): \(fault)\(isForGood ? ", for good" : "")" }

    static let inputOutput = FaultKind(calls: .all, fault: .inputOutput, isForGood: false)
    static let brokenDisk = FaultKind(calls: .all, fault: .inputOutput, isForGood: true)
    static let full = FaultKind(calls: [.write, .truncate], fault: .full, isForGood: true)
    static let short = FaultKind(calls: [.write], fault: .short, isForGood: false)
    static let busy = FaultKind(calls: .locks, fault: .busy, isForGood: false)
    static let every = [inputOutput, brokenDisk, full, short, busy]
}

/// Makes an operation with the n-th call failing, n = 1, 2, 3 … until a run no longer reaches it.
struct FaultLoop {
    private let disk: FaultDisk
    private let images: TemporaryFolder
    private let store: FaultStore
    private let operation: any FaultyOperation

    init(_ operation: any FaultyOperation) async throws {
        disk = try FaultDisk()
        images = try TemporaryFolder(inMemory: true)
        store = FaultStore(folder: disk.path)
        self.operation = operation
        try await operation.prepare(store)
        try disk.image(to: images.file("before"), .kept)
    }

    /// - Parameter numbers: Which of the calls; the numbers end where a run no longer reaches them.
    /// - Returns: How many faults were met.
    func run(_ kind: FaultKind, _ numbers: some Sequence<Int>) async throws -> Int {
        var met = 0
        for number in numbers {
            guard try await meets(kind, number) else { return met }
            met += 1
        }
        return met
    }

    /// - Returns: Whether a call of that number was made.
    private func meets(_ kind: FaultKind, _ number: Int) async throws -> Bool {
        try Self.replace(disk.path, by: images.file("before"))
        let stop = OneShotEvent()
        let count = Locked(0)
        let failed = Locked<String?>(nil)
        disk.decide { call in
            guard kind.calls.contains(call.kind) else { return .none }
            let reached = count.withLock {
                $0 += 1
                return $0
            }
            guard reached == number || kind.isForGood && reached > number else { return .none }
            failed.withLock { $0 = $0 ?? "\(call.kind) \(call.file)" }
            // A run that tries again would do so for ever.
            if reached > number { stop.signal() }
            return kind.fault
        }
        let error = await Self.error { try await operation.run(store, stop: stop) }
        disk.mend()
        guard let failed = failed.withLock({ $0 }) else {
            if let error { throw error }
            return false
        }
        let comment = Comment("\(kind), call \(number), \(failed): \(error.map { "\($0)" } ?? "no error")")
        if let error { #expect(Self.isTyped(error), comment) }
        await check(comment) {
            for path in [store.path, store.replica.path] where FileManager.default.fileExists(atPath: path) {
                #expect(try FaultStore.check(path) == [], comment)
            }
            try operation.checkAfterFault(store)
        }
        await check(comment) {
            try await operation.run(store, stop: OneShotEvent())
            try await operation.checkAtEnd(store)
        }
        return true
    }

    /// What is thrown is an issue that names the fault.
    private func check(_ comment: Comment, _ body: () async throws -> Void) async {
        if let error = await Self.error(body) { Issue.record(error, comment) }
    }

    private static func error(_ body: () async throws -> Void) async -> (any Error)? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    private static func isTyped(_ error: any Error) -> Bool {
        error is HistoryError || error is ObserverError || error is MirrorError || error is SystemError
            || error is ApplicationError
    }

    static func replace(_ folder: String, by other: String) throws {
        let manager = FileManager.default
        for name in try manager.contentsOfDirectory(atPath: folder) {
            try manager.removeItem(atPath: "\(folder)/\(name)")
        }
        for name in try manager.contentsOfDirectory(atPath: other) {
            try manager.copyItem(atPath: "\(other)/\(name)", toPath: "\(folder)/\(name)")
        }
    }
}

/// What the application's own connection reports.
struct ApplicationError: Error {
    let cause: any Error
}
