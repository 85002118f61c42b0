import Foundation
import Testing

@testable import PersistentHistory

/// How signals wait for their consumer, and how they are made without inotify.
@Suite(.timeLimit(.minutes(3)))
struct ObservingSignalTests {
    @Test func signalsThatWaitAreUnited() async throws {
        let (mailbox, wakeUps) = SignalMailbox.make()
        var signals = StoreSignals(mailbox: mailbox, wakeUps: wakeUps).makeAsyncIterator()
        for _ in 0..<10_000 { mailbox.post(.changed) }
        mailbox.post(.replaced)
        mailbox.post([])
        #expect(try await signals.next() == [.changed, .replaced])
        mailbox.post(.disappeared)
        #expect(try await signals.next() == .disappeared)
        mailbox.post(.appeared)
        mailbox.finish()
        #expect(try await signals.next() == .appeared)
        #expect(try await signals.next() == nil)
    }

    /// Posted from elsewhere at the same time: each flag arrives, and no signal is empty.
    @Test func noSignalIsLostBetweenTwoTasks() async throws {
        let (mailbox, wakeUps) = SignalMailbox.make()
        let signals = StoreSignals(mailbox: mailbox, wakeUps: wakeUps)
        async let posting: Void = {
            for round in 0..<20_000 { mailbox.post(round % 2 == 0 ? .changed : .replaced) }
            mailbox.post(.disappeared)
        }()
        for try await signal in signals {
            #expect(!signal.isEmpty)
            if signal.contains(.disappeared) { break }
        }
        await posting
    }

    @Test func aFailureComesAfterWhatWasPending() async throws {
        let (mailbox, wakeUps) = SignalMailbox.make()
        var signals = StoreSignals(mailbox: mailbox, wakeUps: wakeUps).makeAsyncIterator()
        mailbox.post(.changed)
        mailbox.finish(throwing: .failed(to: "watch 'x'", ENOSPC))
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
            let observer = PollingObserver(every: .seconds(5)) { pause in
                #expect(pause == .seconds(5))
                try script.withLock { try $0.removeFirst()() }
            }
            var seen: [StoreSignal] = []
            for try await signal in observer.watch(path) { seen.append(signal) }
            #expect(seen == [[.appeared, .changed], .changed, [.replaced, .changed], .disappeared])
        }
    }

    @Test func pollingEndsWithItsTask() async throws {
        let task = Task {
            for try await _ in PollingObserver(every: .seconds(3600)).watch("/nowhere/store") {}
        }
        task.cancel()
        try await task.value
    }
}
