import DequeModule
package import HistoryConfiguration
package import Logging
package import PersistentHistory
import ServiceLifecycle

/// A plugin whose process is started once and kept: it reads JSON-RPC requests from standard
/// input and answers them, in order, on standard output.
///
/// `run` holds the process, starts it again when it ends, and stops it when the daemon does. Calls may be made
/// meanwhile by many consumers at once; see `PluginConversation`. All of it is on the loop, except that a call for an
/// idle plugin is written where it is made; see `FreeTurn`.
@LoopActor package final class CoprocessPlugin: LoopEndpoint, ContextEndpoint, Service {
    /// How long a process is given to end after its standard input was closed, and once more
    /// after SIGTERM.
    package nonisolated static let grace: Duration = .seconds(3)

    package nonisolated let plugin: PluginConfiguration
    nonisolated let logger: Logger
    nonisolated let grace: Duration
    nonisolated let report: @Sendable (PluginEvent) -> Void

    /// Whether a stop was requested, at which only the calls in flight are still answered.
    nonisolated let isFinishing = Locked(false)

    nonisolated let turn = FreeTurn()
    var exchange: CoprocessProtocol
    /// The first has the turn.
    var conversations: Deque<PluginConversation> = []

    enum Stage {
        /// `run` has not started, or there is no process now.
        case none
        case running(CoprocessSession)
        /// It was killed, or its end was noticed, and nothing is sent to it any more.
        case ending
        /// `run` has ended: there will be no process any more.
        case over
    }
    var stage = Stage.none
    /// Requests that are still to be written: they gather while the pipe is full.
    var outbox = JSONBytes()
    /// Looks whether the oldest call has waited for too long.
    var deadlineTimer: LoopTimer?
    /// Why the present process was killed, where it was, and whether a call failed by that.
    var lastKill: (failure: HookFailure, isReported: Bool)?
    /// The number of the present process, or the last one, among all of all plugins.
    private(set) var process = 0
    private static var processes = 0
    /// What the present process, or the last one, has written to standard error.
    var errors = ErrorTail()
    /// Why it could not be started the last time; nil since it runs.
    private var lastFailure: HookFailure?
    /// Whether there was a process; until then the caller that waits for the start reports its failure.
    private var isStartedOnce = false
    /// The ends of processes since one has worked.
    private(set) var ends = 0
    /// Whether the present process has answered, or has run for some seconds.
    private var hasWorked = false
    /// Of the next start, or attempt at one.
    private var nextStart = OneShotEvent()
    private let stopRequest = OneShotEvent()

    package nonisolated convenience init(
        _ plugin: PluginConfiguration, logger: Logger,
        report: @escaping @Sendable (PluginEvent) -> Void = { _ in }
    ) {
        self.init(
            plugin, logger: logger, grace: Self.grace, window: .init(calls: plugin.window), report: report)
    }

    nonisolated init(
        _ plugin: PluginConfiguration, logger: Logger, grace: Duration, window: CoprocessProtocol.Window,
        report: @escaping @Sendable (PluginEvent) -> Void = { _ in }
    ) {
        self.plugin = plugin
        self.report = report
        self.grace = grace
        var logger = logger
        logger[metadataKey: "plugin"] = "\(plugin.name)"
        self.logger = logger
        exchange = CoprocessProtocol(window: window, timeout: plugin.timeout)
    }

    nonisolated var title: String { "Plugin \"\(plugin.name)\"" }

    nonisolated var stopped: HookFailure { HookFailure(.cancelled, "\(title) is stopped.") }

    var isStopping: Bool { stopRequest.isSignaled }

    /// Of the process that runs; nil while there is none.
    package var processID: Int32? {
        guard case .running(let session) = stage else { return nil }
        return session.child.processID
    }

    // MARK: Life

    /// Waits until the plugin's process runs for the first time.
    ///
    /// - Throws: `HookFailure`: `cannotStart` if the first start failed (`run` goes on trying),
    ///   `cancelled` if the task or the plugin was.
    package func waitUntilStarted() async throws(HookFailure) {
        while true {
            switch stage {
            case .running, .ending: return
            case .over: throw stopped
            case .none: break
            }
            if let lastFailure { throw lastFailure }
            await nextStart.wait()
            if Task.isCancelled { throw HookFailure(.cancelled, "The wait for \(title) was cancelled.") }
        }
    }

    /// Asks the plugin to stop: `run` closes its standard input, waits, sends SIGTERM, waits,
    /// sends SIGKILL, and returns.
    package nonisolated func stop() { stopRequest.signal() }

    /// Holds the process until `stop`, a graceful shutdown, or the task's cancellation (which
    /// kills it at once).
    package func run() async {
        await withGracefulShutdownHandler {
            await supervise()
        } onGracefulShutdown: {
            self.stop()
        }
        stage = .over
        while !conversations.isEmpty { endTurn(stopped) }
        startEnded()
    }

    func started() {
        isStartedOnce = true
        Self.processes += 1
        process = Self.processes
        hasWorked = false
        lastFailure = nil
        startEnded()
        pump()
        offerTurn()
    }

    private func startEnded() {
        nextStart.signal()
        nextStart = OneShotEvent()
    }

    /// The present process has answered, or has run for some seconds.
    func noteWork() {
        guard !hasWorked else { return }
        hasWorked = true
        if ends > 0 { report(.works(afterEnds: ends)) }
        ends = 0
    }

    private func supervise() async {
        // The first restart is at once; then pauses grow until the process has shown that it works.
        var delay = GrowingPause(first: .milliseconds(100), atOnce: 1)
        while !isStopping, !Task.isCancelled {
            let pause: Duration
            do throws(HookFailure) {
                let end = try await runProcess(until: stopRequest)
                if hasWorked { delay.reset() }
                pause = delay.next()
                if isStopping || Task.isCancelled { break }
                // If it was killed because of a call, the call reports that.
                if end.failure.reason == .died || !end.isReported {
                    ends += 1
                    report(.ended(end.failure, inARow: ends, isReported: end.isReported, restart: pause))
                }
            } catch {
                _ = delay.next()
                pause = delay.next()
                let isReported = !conversations.isEmpty || !isStartedOnce || lastFailure == error
                ends += 1
                report(.unstartable(error, inARow: ends, isReported: isReported, restart: pause))
                lastFailure = error
                endTurn(error)
                startEnded()
            }
            if pause > .zero { await stopRequest.sleep(for: pause) }
        }
    }
}

/// What happens to the process of a coprocess plugin, for logs and counters.
package enum PluginEvent: Sendable {
    /// The process ended unexpectedly, and is started again.
    ///
    /// - Parameters:
    ///   - inARow: The ends without a sign of life in between: an answer, or some seconds of running.
    ///   - isReported: Whether a call failed by it, which reports it as well.
    ///   - restart: When it is started again.
    case ended(HookFailure, inARow: Int, isReported: Bool, restart: Duration)
    /// The process could not be started, and that is tried again.
    case unstartable(HookFailure, inARow: Int, isReported: Bool, restart: Duration)
    /// A process that had ended works again.
    case works(afterEnds: Int)
}

/// For callers that wait in a task.
extension CoprocessPlugin {
    package nonisolated func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        if case .observed(let outcome) = await answer(to: .observe(calls)) { return outcome }
        return ObserverOutcome(succeeded: 0)
    }

    package nonisolated func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        guard case .merged(let result) = await answer(to: .merge(call)) else { throw stopped }
        return try result.get()
    }

    package nonisolated func expired(_ call: ExpiredCall) async throws(HookFailure) {
        if case .expired(let failure?) = await answer(to: .expired(call)) { throw failure }
    }

    private func answer(to request: HookRequest) async -> HookAnswer {
        await outcome {
            PluginConversation(request, to: self, answer: $0)
        } begin: { conversation in
            if !sendAtOnce(request, of: conversation) { begin(conversation) }
        }
    }

    package nonisolated func call(_ call: ContextCall, of process: Int?) async throws(HookFailure)
        -> ContextAnswer
    {
        try await makeCall(call, of: process).get()
    }

    private func makeCall(_ call: ContextCall, of process: Int?) async -> Result<ContextAnswer, HookFailure> {
        await outcome {
            PluginConversation(call, of: process, to: self, answer: $0)
        } begin: {
            begin($0)
        }
    }

    private func outcome<T: Sendable>(
        _ make: (@escaping @LoopActor (T) -> Void) -> PluginConversation,
        begin: (PluginConversation) -> Void
    ) async -> T {
        let waiter = Locked<CheckedContinuation<T, Never>?>(nil)
        let conversation = make { answer in
            waiter.withLock { $0.take() }?.resume(returning: answer)
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                waiter.withLock { $0 = continuation }
                begin(conversation)
            }
        } onCancel: {
            // After it has begun: that is on the loop as well.
            conversation.cancel()
        }
    }
}
