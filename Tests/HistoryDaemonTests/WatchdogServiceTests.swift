import Logging
import PersistentHistory
import ServiceLifecycle
import Synchronization
import Testing

@testable import HistoryDaemon

@Suite(.timeLimit(.minutes(60))) struct WatchdogServiceTests {
    private enum Happening: Equatable, Sendable {
        case fed, slept(Duration), checkFailed, reported(String)
    }

    /// Tells what happens, as it happens.
    private struct Recorder: ServiceNotifying {
        let happenings: AsyncStream<Happening>
        private let happened: AsyncStream<Happening>.Continuation

        init() { (happenings, happened) = AsyncStream.makeStream() }

        func record(_ happening: Happening) { happened.yield(happening) }
        func notify(_ notifications: [ServiceNotification]) {
            record(notifications == [.watchdog] ? .fed : .checkFailed)
        }
        func finish() { happened.finish() }
    }

    /// Sleeps last until the test lets them end.
    private struct SteppingClock: Clock {
        let now = ContinuousClock.now
        let minimumResolution = Duration.nanoseconds(1)
        let recorder: Recorder
        private let steps = AsyncStream.makeStream(of: Void.self)

        init(_ recorder: Recorder) { self.recorder = recorder }

        func step() { steps.continuation.yield() }
        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            recorder.record(.slept(now.duration(to: deadline)))
            for await _ in steps.stream { return }
            throw CancellationError()
        }
    }

    private struct Stuck: Error {}

    private func logger(_ recorder: Recorder) -> Logger {
        let handler = DaemonLogHandler(level: LiveLogLevel()) { _, _, metadata in
            recorder.record(.reported(metadata["event"].map { "\($0)" } ?? ""))
        }
        return Logger(label: "test") { _ in handler }
    }

    @Test func itIsFedAtHalfTimeAndOnlyWhenTheCheckAnswers() async throws {
        let recorder = Recorder()
        let clock = SteppingClock(recorder)
        let answers = Atomic(0)
        let service = WatchdogService(
            interval: .seconds(30), notifier: recorder, logger: logger(recorder), clock: clock
        ) {
            // The second and the third check fail.
            let number = answers.add(1, ordering: .relaxed).newValue
            if number == 2 || number == 3 {
                recorder.record(.checkFailed)
                throw Stuck()
            }
        }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await service.run() }
            var seen: [Happening] = []
            for await happening in recorder.happenings {
                seen.append(happening)
                if case .slept = happening {
                    if seen.count(where: { $0 == .fed }) == 2 { break }
                    clock.step()
                }
            }
            let half = Happening.slept(.seconds(15))
            #expect(
                seen == [
                    .fed, half,
                    .checkFailed, .reported(MessageCode.pipelineStuck.rawValue), half,
                    .checkFailed, half,  // told once
                    .fed, half,
                ])
            group.cancelAll()
            // To be cancelled is not a failure.
            try await group.waitForAll()
        }
    }

    @Test func itEndsWithTheGroup() async throws {
        let recorder = Recorder()
        let service = WatchdogService(
            interval: .seconds(3600), notifier: recorder, logger: logger(recorder)
        ) {}
        let group = ServiceGroup(
            services: [service], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            for await happening in recorder.happenings where happening == .fed { break }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    /// A service that returned would end the whole group.
    @Test func withoutAWatchdogItOnlyWaits() async throws {
        let recorder = Recorder()
        let service = WatchdogService(interval: nil, notifier: recorder, logger: logger(recorder)) {
            recorder.record(.checkFailed)
        }
        await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await service.run() }
            tasks.cancelAll()
            await #expect(throws: CancellationError.self) { try await tasks.waitForAll() }
        }
        recorder.finish()
        for await happening in recorder.happenings { Issue.record("unexpected: \(happening)") }
    }
}
