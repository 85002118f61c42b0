import Foundation
import Testing

@testable import PersistentHistory

/// How signals wait for their consumer, and how they are made without inotify.
@Suite(.timeLimit(.minutes(60)))
struct ObservingSignalTests {
    @Test func signalsThatWaitAreUnited() async throws {
        let signals = StoreSignals()
        for _ in 0..<10_000 { signals.post(.changed) }
        signals.post(.replaced)
        signals.post([])
        #expect(try await signals.next() == [.changed, .replaced])
        signals.post(.disappeared)
        #expect(try await signals.next() == .disappeared)
        signals.post(.appeared)
        signals.end()
        #expect(try await signals.next() == .appeared)
        #expect(try await signals.next() == nil)
    }

    /// Posted from elsewhere at the same time: each flag arrives, and no signal is empty.
    @Test func noSignalIsLostBetweenTwoTasks() async throws {
        let signals = StoreSignals()
        async let posting: Void = {
            for round in 0..<20_000 { signals.post(round % 2 == 0 ? .changed : .replaced) }
            signals.post(.disappeared)
        }()
        while let signal = try await signals.next(), !signal.contains(.disappeared) {
            #expect(!signal.isEmpty)
        }
        await posting
    }

    /// Its owner may be slow to begin, and takes what came since as one.
    @Test func aReceiverIsCalledOnceUntilItBegins() async throws {
        let signals = StoreSignals()
        let calls = Locked(0)
        signals.post(.appeared)
        signals.setReceiver { calls.withLock { $0 += 1 } }
        signals.post(.changed)
        #expect(calls.withLock(\.self) == 1)
        // It need not take anything yet.
        signals.receiverBegan()
        signals.post(.changed)
        #expect(calls.withLock(\.self) == 2)
        #expect(signals.take() == [.appeared, .changed])
        signals.setReceiver(nil)
        signals.post(.replaced)
        #expect(calls.withLock(\.self) == 2)
        #expect(try await signals.next() == .replaced)
    }

    @Test func aFailureComesAfterWhatWasPending() async throws {
        let signals = StoreSignals()
        signals.post(.changed)
        signals.end(.failed(to: "watch 'x'", ENOSPC))
        #expect(try await signals.next() == .changed)
        await #expect(throws: ObserverError.self) { _ = try await signals.next() }
    }

    @Test func aSignalSaysItsNames() {
        #expect(StoreSignal([.changed, .overflowed]).description == "[changed, overflowed]")
    }

    @Test func pollingTellsByTheClock() async throws {
        try await withFolder { folder in
            let path = folder + "/store"
            // Each pause does the next thing to the store.
            let script = Locked<[@Sendable () throws -> Void]>([
                {},
                { try write(to: path) },
                {},
                {
                    try write(to: path + ".new")
                    move(path + ".new", path)
                },
                { unlink(path) },
                {},
                { throw CancellationError() },
            ])
            let observer = PollingObserver(of: path, every: .seconds(5)) { pause in
                #expect(pause == .seconds(5))
                try script.withLock { try $0.removeFirst()() }
            }
            var seen: [StoreSignal] = []
            await observer.run { seen.append($0) }
            let there: StoreSignal = [.changed, .sideFilesInDoubt]
            #expect(
                seen == [[], [], there.union(.appeared), there, there.union(.replaced), .disappeared, []])
        }
    }

    @Test func pollingEndsWithItsTask() async throws {
        let task = Task {
            await PollingObserver(of: "/nowhere/store", every: .seconds(3600)).run { _ in }
        }
        task.cancel()
        await task.value
    }
}
