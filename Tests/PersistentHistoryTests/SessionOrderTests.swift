import Foundation
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

/// The order in which a session does what others rely on.
@Suite(.timeLimit(.minutes(60))) struct SessionOrderTests {
    /// For how long something is watched that must not happen.
    private static let watched: Duration = .milliseconds(300)

    /// Serves a store until it is stopped.
    ///
    /// - Parameter body: Called when it is open.
    private func serve(
        _ store: GatekeeperStore, _ served: ServedStore? = nil, _ hooks: [Hook] = [], stop: OneShotEvent,
        control: StoreControl = StoreControl(),
        _ body: @escaping @Sendable (StoreControl) async throws -> Void = { _ in },
        ended: @escaping @Sendable () -> Void = {}
    ) async throws {
        control.stopTimeout = .seconds(3600)
        let runner = StoreRunner(
            served ?? store.served(["Reader"]), hooks: HookRegistry(hooks), stateFolder: store.folder.path,
            reporter: EventLog(), stop: stop, control: control)
        let observer = try StoreObserver()
        let isUp = OneShotEvent()
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await observer.run() }
            group.addTask {
                defer {
                    ended()
                    isUp.signal()
                    observer.stop()
                }
                try await runner.run(watching: observer.watch(store.path)) { isUp.signal() }
            }
            await isUp.wait()
            try await body(control)
            try await group.waitForAll()
        }
    }

    @Test("Its connections are closed after a report that has taken too long for its caller")
    func reports() async throws {
        let store = try GatekeeperStore()
        let (stop, ended) = (OneShotEvent(), TimedSemaphore())
        let wasCut = Locked<Bool?>(nil)
        try await serve(store, stop: stop) { control in
            let reports = try await control.withSession { $0.opened.reports }
            let begun = OneShotEvent()
            reports.perform {
                begun.signal()
                let hasEnded = ended.wait(atMost: Self.watched)
                wasCut.withLock { $0 = hasEnded }
            }
            await begun.wait()
            stop.signal()
        } ended: {
            ended.signal()
        }
        #expect(wasCut.withLock { $0 } == false)
    }

    @Test("A stop lets the calls in flight end")
    func calls() async throws {
        let store = try GatekeeperStore()
        try store.write("Writer", "INSERT INTO t VALUES (1, 1)")
        let stop = OneShotEvent()
        let hook = SlowHook {
            stop.signal()
            do { try await Task.sleep(for: Self.watched) } catch { return false }
            return true
        }
        try await serve(store, nil, [hook.observer], stop: stop)
        #expect(hook.outcomes.withLock { $0 } == [true])
        #expect(try store.cursor("Reader") == 1)
    }
}

/// A hook that takes its time.
private final class SlowHook: HookEndpoint {
    /// Whether each call came to its end.
    let outcomes = Locked<[Bool]>([])
    private let body: @Sendable () async -> Bool

    init(_ body: @escaping @Sendable () async -> Bool) { self.body = body }

    func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        let outcome = await body()
        outcomes.withLock { $0.append(outcome) }
        return ObserverOutcome(succeeded: outcome ? calls.count : 0)
    }

    func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult { MergeResult(.goOn) }
    func expired(_ call: ExpiredCall) async throws(HookFailure) {}

    var observer: Hook {
        Hook(
            id: UUID(), name: "p/slow", kind: .observer, consumer: nil, endpoint: self, policy: FailurePolicy())
    }
}
