import Glibc
import Testing

@testable import PersistentHistory

/// A few stores are opened at the same time, and what waits for a disk counts no longer.
@Suite(.timeLimit(.minutes(60))) struct OpeningTurnTests {
    @Test func anOpeningThatTakesLongKeepsNoOtherWaiting() async throws {
        let turns = OpeningTurns()
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let (read, write) = (ends[0], ends[1])
        let (begun, allTurns) = (Locked(0), OneShotEvent())
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<8 {
                group.addTask {
                    let thread = StoreThread()
                    try await Self.open(turns, on: thread) {
                        let count = begun.withLock { begun in
                            begun += 1
                            return begun
                        }
                        if count == 4 { allTurns.signal() }
                        // Until the pipe is closed.
                        var byte: UInt8 = 0
                        _ = Glibc.read(read, &byte, 1)
                    }
                }
            }
            await allTurns.wait()
            // If it had to wait for those, it would wait for ever.
            try await Self.open(turns, on: StoreThread()) {}
            close(write)
            try await group.waitForAll()
        }
        close(read)
    }

    private static func open(
        _ turns: OpeningTurns, on thread: isolated StoreThread, _ body: @Sendable () -> Void
    ) async throws {
        try await turns.taking(on: thread) { body() }
    }
}
