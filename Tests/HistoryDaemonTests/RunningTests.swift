import HistoryControl
import Logging
import NIOCore
import NIOHTTP1
import PersistentHistory
import ServiceLifecycle
import TestSupport
import Testing

@testable import HistoryDaemon

/// A service that runs until it is told to stop, and says so.
private struct Sitter: Service {
    let stop: OneShotEvent
    let begun: OneShotEvent
    var failure: (any Error)?

    func run() async throws {
        begun.signal()
        await withGracefulShutdownHandler {
            await stop.wait()
        } onGracefulShutdown: {
            stop.signal()
        }
        if let failure { throw failure }
    }
}

@Suite(.timeLimit(.minutes(60))) struct RunningTests {
    private struct Broken: Error {}

    private static func group(_ services: any Service...) -> ServiceGroup {
        ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: services.map { .init(service: $0) },
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }))
    }

    @Test func guestsComeAndGoWhileTheHostRuns() async throws {
        let host = ServiceHost()
        let (one, two) = (OneShotEvent(), OneShotEvent())
        let (began, late) = (OneShotEvent(), OneShotEvent())
        let oneEnds = host.start(Sitter(stop: one, begun: began))
        let services = Self.group(host)
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            await began.wait()
            let twoEnds = host.start(Sitter(stop: two, begun: late))
            await late.wait()
            one.signal()
            await oneEnds.ended()
            #expect(!two.isSignaled)
            await services.triggerGracefulShutdown()
            await twoEnds.ended()
            #expect(two.isSignaled, "a shutdown reaches those who came later")
            try await group.waitForAll()
        }
        // Nobody is let in any more, and nobody waits for that.
        await host.start(Sitter(stop: OneShotEvent(), begun: OneShotEvent())).ended()
    }

    @Test func aGuestThatIsCancelledDisturbsNobody() async throws {
        let host = ServiceHost()
        let services = Self.group(host)
        let other = OneShotEvent()
        let began = OneShotEvent()
        _ = host.start(Sitter(stop: other, begun: began))
        let cancelled = host.start(Sitter(stop: OneShotEvent(), begun: OneShotEvent(), failure: Broken()))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            await began.wait()
            cancelled.cancel()
            await cancelled.ended()
            #expect(!other.isSignaled)
            await services.triggerGracefulShutdown()
            try await group.waitForAll()
        }
    }

    @Test func whatAGuestThrowsEndsTheHost() async throws {
        let host = ServiceHost()
        let stop = OneShotEvent()
        stop.signal()
        _ = host.start(Sitter(stop: OneShotEvent(), begun: OneShotEvent()))
        _ = host.start(Sitter(stop: stop, begun: OneShotEvent(), failure: Broken()))
        await #expect(throws: Broken.self) { try await host.run() }
    }

    @Test func jobsAreDoneOneAtATimeAndToTheirEnd() async throws {
        let jobs = SerialJobs()
        let services = Self.group(jobs)
        let (running, most, done) = (Locked(0), Locked(0), Locked(0))
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await services.run() }
            try await withThrowingTaskGroup(of: Void.self) { askers in
                for number in 0..<50 {
                    askers.addTask {
                        try await jobs.perform {
                            let count = running.withLock {
                                $0 += 1; return $0
                            }
                            most.withLock { $0 = max($0, count) }
                            await Task.yield()
                            running.withLock { $0 -= 1 }
                            done.withLock { $0 += 1 }
                        }
                    }
                    // Some who asked go away; what they asked for is done all the same.
                    if number == 25 { askers.cancelAll() }
                }
                try await askers.waitForAll()
            }
            #expect(most.withLock { $0 } == 1)
            #expect(done.withLock { $0 } == 50)
            await #expect(throws: Broken.self) { try await jobs.perform { throw Broken() } }
            await services.triggerGracefulShutdown()
            try await group.waitForAll()
        }
        await #expect(throws: ControlError.self) { try await jobs.perform {} }
    }

    /// Nobody is left to wait who has asked.
    @Test(.timeLimit(.minutes(60))) func jobsInTheQueueAreDoneAlsoWhenTheirServiceIsCancelled() async throws {
        let jobs = SerialJobs()
        let (first, done) = (OneShotEvent(), Locked(0))
        try await withThrowingTaskGroup(of: Void.self) { askers in
            for _ in 0..<5 {
                askers.addTask {
                    try await jobs.perform {
                        first.signal()
                        done.withLock { $0 += 1 }
                        // Until it is cancelled.
                        await OneShotEvent().wait()
                    }
                }
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { try await jobs.run() }
                await first.wait()
                group.cancelAll()
                try await group.waitForAll()
            }
            try await askers.waitForAll()
        }
        #expect(done.withLock { $0 } == 5)
        await #expect(throws: ControlError.self) { try await jobs.perform {} }
    }

    // MARK: Requests

    @Test func aRequestIsPutTogetherFromItsParts() throws {
        var reader = RequestReader(limit: 4)
        let head = HTTPRequestHead(version: .http1_1, method: .POST, uri: "/v1/hooks")
        let parts: [HTTPServerRequestPart] = [
            .head(head), .body(ByteBuffer(string: "ab")), .body(ByteBuffer(string: "cd")), .end(nil),
            // A second one on the same connection is not taken.
            .end(nil),
        ]
        let taken = parts.map { reader.take($0) }
        #expect(taken.map { $0 != nil } == [false, false, false, true, false])
        let (command, body) = try #require(taken[3]).get()
        #expect(command == .addHooks() && body == Array("abcd".utf8))
    }

    @Test(arguments: [UInt32(0), 7, 8]) func rootAndTheDaemonsUserSteer(_ user: UInt32) {
        let peer = Peer(processID: 1, userID: user)
        for command in [ControlCommand.reload, .pause(store: nil), .setLogLevel("info")] {
            if user == 8 {
                #expect(throws: ControlError.self) { try peer.check(command, daemon: 7) }
            } else {
                #expect(throws: Never.self) { try peer.check(command, daemon: 7) }
            }
        }
        #expect(throws: Never.self) { try peer.check(.status, daemon: 7) }
    }
}
