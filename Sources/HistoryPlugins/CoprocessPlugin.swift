import DequeModule
package import HistoryConfiguration
package import Logging
package import PersistentHistory
import ServiceLifecycle

/// A plugin whose process is started once and kept: it reads JSON-RPC requests from standard input and answers
/// them, in order, on standard output.
///
/// `run` starts the process, restarts it when it ends, and stops it with the daemon. Many consumers may make
/// calls concurrently; see `PluginConversation`. Everything runs on the loop, except that a call to an idle
/// plugin is written on the caller's thread; see `FreeTurn`.
@LoopActor package final class CoprocessPlugin: LoopEndpoint, ContextEndpoint, Service {
    /// How long a process may take to end after its standard input was closed, and again after SIGTERM.
    package nonisolated static let grace: Duration = .seconds(3)
    private static let firstPause: Duration = .milliseconds(100)

    package nonisolated let plugin: PluginConfiguration
    package nonisolated var largeIntegers: LargeIntegers { plugin.largeIntegers }
    nonisolated let logger: Logger
    nonisolated let grace: Duration
    nonisolated let report: @Sendable (PluginEvent) -> Void

    /// Whether a stop was requested: only the calls in flight are still answered.
    nonisolated let isFinishing = Locked(false)

    nonisolated let turn = FreeTurn()
    var exchange: CoprocessProtocol
    /// The first conversation has the turn.
    var conversations: Deque<PluginConversation> = []

    enum Stage {
        /// `run` has not started, or no process is running.
        case none
        case running(CoprocessSession)
        /// The process was killed, or its end was noticed. Nothing more is sent to it.
        case ending
        /// `run` has ended: no process will be started again.
        case over
    }
    var stage = Stage.none
    /// Whether a call is being written on another thread. Nothing else is sent meanwhile.
    var isWritingLong = false
    /// Requests that are not written yet: they accumulate while the pipe is full.
    var outbox = JSONBytes()
    /// Checks whether the oldest call has waited for too long.
    var deadlineTimer: LoopTimer?
    /// Why the current process was killed, if it was, and whether that failed a call.
    var lastKill: (failure: HookFailure, isReported: Bool)?
    /// The number of the current process, or the last one, counted over all plugins.
    private(set) var process = 0
    private static var processes = 0
    /// What the current process, or the last one, has written to standard error.
    var errors = ErrorTail()
    /// Why the last start failed; nil once the process runs.
    private var lastFailure: HookFailure?
    /// Whether a process was ever started. Until then the caller that waits for the start reports its failure.
    private var isStartedOnce = false
    /// The ends in a row without a process that worked.
    private(set) var ends = 0
    /// The processes in a row that ended before they worked. What could not be started has written nothing.
    private(set) var brokenProcesses = 0
    /// Whether the current process has answered, or has run for some seconds.
    private var hasWorked = false
    /// Signaled at the next start, or attempt to start.
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

    /// The id of the running process; nil while there is none.
    package var processID: Int32? {
        guard case .running(let session) = stage else { return nil }
        return session.child.processID
    }

    // MARK: Life

    /// Waits until the plugin's process runs for the first time.
    ///
    /// - Throws: `HookFailure`: `cannotStart` if the first start failed (`run` keeps trying), `cancelled` if
    ///   the task or the plugin was cancelled.
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

    /// Keeps the process running until `stop`, a graceful shutdown, or the task's cancellation (which kills it
    /// at once).
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
        report(.began(process))
        startEnded()
        pump()
        offerTurn()
    }

    private func startEnded() {
        nextStart.signal()
        nextStart = OneShotEvent()
    }

    /// Notes that the current process has answered, or has run for some seconds.
    func noteWork() {
        guard !hasWorked else { return }
        hasWorked = true
        if ends > 0 { report(.works(afterEnds: ends)) }
        ends = 0
        brokenProcesses = 0
    }

    private func supervise() async {
        // The first restart is immediate; then the pauses grow until the process has shown that it works.
        var delay = GrowingPause(first: Self.firstPause, atOnce: 1)
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
                    brokenProcesses += 1
                    report(.ended(end.failure, inARow: ends, isReported: end.isReported, restart: pause))
                }
            } catch {
                pause = max(delay.next(), Self.firstPause)
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

/// An event of a coprocess plugin's process, for logs and counters.
package enum PluginEvent: Sendable {
    /// A process runs. Its number is counted over all plugins.
    case began(Int)
    /// The process ended unexpectedly, and is restarted.
    ///
    /// - Parameters:
    ///   - inARow: The number of ends since the process last worked, that is, answered or ran for some seconds.
    ///   - isReported: Whether its end failed a call, which reports it as well.
    ///   - restart: The time until the restart.
    case ended(HookFailure, inARow: Int, isReported: Bool, restart: Duration)
    /// The process could not be started; another attempt follows.
    case unstartable(HookFailure, inARow: Int, isReported: Bool, restart: Duration)
    /// The process works again after it had ended.
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
            // Cancels only after the conversation has begun: that happens on the loop as well.
            conversation.cancel()
        }
    }
}
