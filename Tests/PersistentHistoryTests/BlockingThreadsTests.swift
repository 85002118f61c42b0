import Glibc
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// Threads for what may block, and what notices that something blocks elsewhere.
@Suite(.timeLimit(.minutes(60))) struct BlockingThreadsTests {
    /// Blocks a thread until it is opened.
    private final class Gate: Sendable {
        private let ends: [Int32]
        private let isOpen = Locked(false)

        init() {
            var ends: [Int32] = [-1, -1]
            precondition(pipe(&ends) == 0)
            self.ends = ends
        }

        func pass() {
            var byte: UInt8 = 0
            while read(ends[0], &byte, 1) < 0 {}
        }

        /// Once: the number may be another file's afterwards.
        func open() {
            let wasOpen = isOpen.withLock { isOpen in
                defer { isOpen = true }
                return isOpen
            }
            if !wasOpen { close(ends[1]) }
        }
    }

    /// Far more than there are processors.
    private static let many = 40

    @Test func whatHangsTakesNothingFromOthers() async {
        let gate = Gate()
        await withTaskGroup { group in
            for _ in 0..<Self.many { group.addTask { await onPool { gate.pass() } } }
            // If it had to wait for them, it would wait for ever.
            await onPool {}
            gate.open()
        }
    }

    @Test func whatIsDoneInTheMeantimeNeedsNoOtherThread() async {
        let threads = BlockingThreads()
        for _ in 0..<Self.many {
            await withCheckedContinuation { continuation in threads.run { continuation.resume() } }
        }
        // A thread that has just called this one may not wait for work yet.
        #expect(threads.measures.threads < Self.many / 2)
    }

    /// The system refuses threads for a while.
    private final class Refusal: Sendable {
        private let isOn = Locked(false)
        func set(_ isOn: Bool) { self.isOn.withLock { $0 = isOn } }
        func makeThread(_ body: @escaping @Sendable () -> Void) -> Int32 {
            isOn.withLock(\.self) ? EAGAIN : startThread(body)
        }
    }

    /// The pool's wishes to be called again, which a test fulfils.
    private final class Attempts: Sendable {
        private let wishes = Locked<[BlockingThreads.Work]>([])
        var count: Int { wishes.withLock(\.count) }
        func add(_ attempt: @escaping BlockingThreads.Work) -> Bool {
            wishes.withLock { $0.append(attempt) }
            return true
        }
        func fulfil() {
            let attempts = wishes.withLock { wishes in
                defer { wishes = [] }
                return wishes
            }
            for attempt in attempts { attempt() }
        }
    }

    @Test func whereThreadsAreRefusedAnIdleOneDoesTheWork() async {
        let (refusal, attempts, gate) = (Refusal(), Attempts(), Gate())
        let pool = Locked<BlockingThreads?>(nil)
        // A thread becomes idle just after another one was refused.
        let threads = BlockingThreads { body in
            if refusal.makeThread({}) == 0 { return startThread(body) }
            gate.open()
            while pool.withLock({ $0?.measures.idle }) == 0 { usleep(100) }
            return EAGAIN
        } callLater: {
            attempts.add($0)
        }
        pool.withLock { $0 = threads }
        await withCheckedContinuation { begun in
            threads.run {
                begun.resume()
                gate.pass()
            }
        }
        refusal.set(true)
        await withCheckedContinuation { done in
            threads.run { done.resume() }
            #expect(attempts.count == 0, "It waits, although a thread is idle.")
            attempts.fulfil()
        }
        #expect(threads.measures.threads == 1 && threads.measures.waiting == 0)
        #expect(threads.measures.lackTime == .zero)
        pool.withLock { $0 = nil }
    }

    @Test func whatIsRefusedAThreadIsTriedAgainAsLongAsItTakes() async throws {
        let (refusal, attempts) = (Refusal(), Attempts())
        let threads = BlockingThreads {
            refusal.makeThread($0)
        } callLater: {
            attempts.add($0)
        }
        refusal.set(true)
        let isDone = TimedSemaphore()
        threads.run { isDone.signal() }
        for _ in 0..<3 {
            try #require(attempts.count == 1)
            attempts.fulfil()
        }
        refusal.set(false)
        attempts.fulfil()
        try #require(threads.measures.waiting == 0)
        await withCheckedContinuation { done in
            threads.run {
                isDone.wait(atMost: nil)
                done.resume()
            }
        }
    }

    /// Threads that leave at once are given work while they do.
    @Test func aThreadThatLeavesDoesWhatItWasGivenAtTheLastMoment() async {
        let threads = BlockingThreads(idleTime: .zero)
        for _ in 0..<500 {
            let done = await withTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        await onPool {
                            (0..<4).count(where: { _ in threads.result(within: .seconds(60)) { true } ?? false }
                            )
                        }
                    }
                }
                return await group.reduce(0, +)
            }
            guard done == 32 else {
                Issue.record("Of 32 pieces of work, \(done) were done.")
                break
            }
        }
        #expect(threads.measures.waiting == 0)
    }

    /// All of it, although what is started first does not come back.
    @Test func whatWaitedForThreadsIsDoneWhenThereAreSome() async {
        let refusal = Refusal()
        let threads = BlockingThreads { refusal.makeThread($0) }
        let gate = Gate()
        refusal.set(true)
        await withTaskGroup { group in
            for number in 0..<Self.many {
                group.addTask {
                    await withCheckedContinuation { done in
                        threads.run {
                            if number % 2 == 0 { gate.pass() }
                            done.resume()
                        }
                    }
                }
            }
            while threads.measures.waiting < Self.many { await Task.yield() }
            #expect(threads.measures.lackTime > .zero)
            refusal.set(false)
            for _ in 0..<Self.many / 2 { await group.next() }
            gate.open()
        }
        #expect(threads.measures.waiting == 0)
    }

    @Test func aJobThatNeitherEndsNorComputesStandsStill() async throws {
        let executor = SerialThreadExecutor()
        let gate = Gate()
        #expect(executor.standstill() == nil)
        await withCheckedContinuation { begun in
            executor.perform {
                begun.resume()
                gate.pass()
            }
        }
        while executor.standstill() ?? .zero < .milliseconds(20) { try await Task.sleep(for: .milliseconds(1)) }
        gate.open()
        await withCheckedContinuation { ended in executor.perform { ended.resume() } }
        // One that computes is another matter, however long it takes.
        let isOver = Locked(false)
        await withCheckedContinuation { begun in
            executor.perform {
                begun.resume()
                while !isOver.withLock(\.self) {}
            }
        }
        let end = ContinuousClock.now + .seconds(60)
        var computed = 0
        while computed < 3, .now < end {
            try await Task.sleep(for: .milliseconds(30))
            if executor.standstill() == .zero { computed += 1 }
        }
        #expect(computed == 3)
        isOver.withLock { $0 = true }
    }

    /// This ends only if neither job waits for the end of the first pause.
    @Test func aPauseKeepsNoOtherJobWaiting() async {
        let executor = SerialThreadExecutor()
        executor.perform(after: .seconds(3600)) {}
        await withCheckedContinuation { done in executor.perform { done.resume() } }
        // One that ends sooner does not wait for one that was begun before, either.
        await withCheckedContinuation { done in executor.perform(after: .milliseconds(1)) { done.resume() } }
    }

    @Test func pausesEndInTheirOrderAndNotTooSoon() async {
        let executor = SerialThreadExecutor()
        let ended = Locked<[Int]>([])
        let start = ContinuousClock.now
        await withCheckedContinuation { done in
            executor.perform {
                executor.perform(after: .milliseconds(30)) { done.resume() }
                executor.perform(after: .milliseconds(20)) { ended.withLock { $0.append(2) } }
                executor.perform(after: .milliseconds(10)) { ended.withLock { $0.append(1) } }
                executor.perform { ended.withLock { $0.append(0) } }
            }
        }
        #expect(.now - start >= .milliseconds(30))
        #expect(ended.withLock(\.self) == [0, 1, 2])
    }

    @Test func whatMayWaitKnowsTheLoop() async throws {
        let loop = try HistoryLoop.shared()
        #expect(!HistoryLoop.isCurrent)
        await withCheckedContinuation { continuation in
            loop.soon {
                #expect(HistoryLoop.isCurrent)
                continuation.resume()
            }
        }
    }

    #if DEBUG
        @Test func aStoreIsNotOpenedOnTheLoop() async {
            await #expect(processExitsWith: .failure) {
                try HistoryLoop.shared().soon { _ = try? HistoryReader(path: "/nowhere") }
                try await Task.sleep(for: .seconds(60))
            }
        }
    #endif

    @Test func aJobThatBlocksTheLoopIsNoted() async throws {
        let loop = try HistoryLoop.shared()
        let before = loop.stalls.count
        await withCheckedContinuation { continuation in
            loop.soon {
                usleep(60_000)
                loop.soon { continuation.resume() }
            }
        }
        let (count, longest) = loop.stalls
        #expect(count > before)
        #expect(longest >= .milliseconds(60))
    }

    /// On a host with other machines, all processors stand still now and then.
    @Test func aStallIsOfTheJobThatWaitedOrComputed() {
        let long = LoopStall.limit + .milliseconds(1)
        #expect(!ThreadUse(computed: .milliseconds(1), waits: 0).isOfJob)
        #expect(ThreadUse(computed: .milliseconds(1), waits: 1).isOfJob)
        #expect(ThreadUse(computed: long, waits: 0).isOfJob)
        let before = ThreadUse.now
        usleep(1000)
        #expect((ThreadUse.now - before).waits > 0)
        let start = ThreadUse.now
        while (ThreadUse.now - start).computed <= LoopStall.limit {}
        #expect((ThreadUse.now - start).isOfJob)
    }

    @Test func aStallSaysWhereItWas() throws {
        var detector = LoopStallDetector()
        detector.wokeUp()
        usleep(50_000)
        let stall = detector.ended(LoopPlace(file: "Some/File.swift", line: 7))
        let text = try #require(stall).description
        #expect(text.contains("ms in Some/File.swift:7"), "\(text)")
    }
}
