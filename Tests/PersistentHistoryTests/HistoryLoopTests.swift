import Glibc
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// The thread that waits for files, pipes and time.
@Suite(.timeLimit(.minutes(60))) struct HistoryLoopTests {
    // MARK: Timers

    /// Whatever comes and goes: those whose time has come wake, in order of their times, and nobody else.
    @Test func sleepersWakeInOrder() {
        var generator = Seed(.random(in: 0...UInt64.max))
        let seed = generator.description
        var timers = LoopTimers<LoopTimerKey>()
        var expected: [LoopTimerKey] = []
        for _ in 0..<2000 {
            switch Int.random(in: 0..<4, using: &generator) {
            case 0, 1:
                let key = timers.newKey(at: .random(in: 0..<50, using: &generator))
                timers.add(key, key)
                expected.append(key)
            case 2:
                guard let place = expected.indices.randomElement(using: &generator) else { continue }
                let key = expected.remove(at: place)
                #expect(timers.remove(key) == key, "\(seed)")
                #expect(timers.remove(key) == nil, "\(seed)")
            default:
                let now = Int64.random(in: 0..<50, using: &generator)
                let due = expected.filter { $0.deadline <= now }.sorted()
                expected.removeAll { $0.deadline <= now }
                #expect(timers.takeDue(at: now) == due, "\(seed)")
            }
            #expect(timers.earliest == expected.map(\.deadline).min(), "\(seed)")
        }
    }

    @Test func theShorterSleepEndsFirst() async throws {
        let loop = try HistoryLoop.shared()
        let order = try await withThrowingTaskGroup(of: Int.self) { group in
            for milliseconds in [300, 100, 200] {
                group.addTask {
                    try await loop.sleep(for: .milliseconds(milliseconds))
                    return milliseconds
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(order == [100, 200, 300])
    }

    @Test func aSleepIsCancelled() async throws {
        let loop = try HistoryLoop.shared()
        await withTaskGroup(of: Bool.self) { group in
            group.addTask {
                do { try await loop.sleep(for: .seconds(3600)) } catch { return true }
                return false
            }
            group.cancelAll()
            for await wasCancelled in group { #expect(wasCancelled) }
        }
    }

    // MARK: Descriptors

    @Test func whoReadsWaitsForWhoWrites() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        let reading = try Descriptor(adopting: ends[0], for: .reading)
        let writing = try Descriptor(adopting: ends[1], for: .writing)
        // More than a pipe holds, so that both sides have to wait.
        let sent = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
        let received = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            group.addTask {
                _ = try await writing.write(sent)
                writing.close()
                return []
            }
            group.addTask {
                var all: [UInt8] = []
                var buffer = [UInt8](repeating: 0, count: 4096)
                while true {
                    let count = try await reading.read(into: &buffer)
                    if count == 0 { return all }
                    all += buffer[..<count]
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        reading.close()
        #expect(received == sent)
    }

    @Test func aWaitMayHaveAnEnd() async throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[1]) }
        let reading = try Descriptor(adopting: ends[0], for: .reading)
        await wait(atMost: .milliseconds(20)) { _ = await reading.wait() }
        reading.close()
        #expect(await reading.wait() == false)
    }
}
