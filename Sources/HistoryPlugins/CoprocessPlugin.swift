public import Logging
public import PersistentHistory
public import ServiceLifecycle

/// A plugin whose process is started once and kept: it reads JSON-RPC requests from standard
/// input and answers them, in order, on standard output.
///
/// `run` holds the process, starts it anew when it ends, and stops it when the daemon does.
/// Calls may be made meanwhile by many consumers at once: each list of calls has its turn, within
/// which requests are written ahead, so that a pipe's latency is not paid for each.
public actor CoprocessPlugin: HookEndpoint, Service {
    /// How long a process is given to end after its standard input was closed, and once more
    /// after SIGTERM.
    public static let grace: Duration = .seconds(3)

    public nonisolated let plugin: PluginDescription
    let logger: Logger
    let grace: Duration
    let report: @Sendable (PluginEvent) -> Void

    /// Whether a stop was requested, at which only the calls in flight are still answered.
    private nonisolated let isFinishing = Locked(false)

    var exchange: CoprocessProtocol
    private var turns = TurnQueue()
    /// Of the calls that have the turn.
    private var caller: AsyncStream<CallerEvent>.Continuation?

    enum Stage {
        /// `run` has not begun, or there is no process for the time being.
        case none
        case running(Session)
        /// It was killed, or its end was heard of, and nothing is sent to it any more.
        case ending
        /// `run` has ended: there will be no process any more.
        case over
    }
    var stage = Stage.none
    /// Requests that are still to be written: they gather while the pipe is full.
    var outbox = JSONBytes()
    /// Whether something was taken out of it that is still being written.
    var isWriting = false
    /// Whether the watch over the calls' time sleeps until there is a call.
    var watchIsIdle = false
    /// Why the present process was killed, where it was, and whether a call failed by that.
    var lastKill: (failure: HookFailure, isTold: Bool)?
    /// Why it could not be started the last time; nil since it runs.
    private var lastFailure: HookFailure?
    /// Whether there was a process; until then who waits for the start tells of its failure.
    private var isStartedOnce = false
    /// The ends of processes since one has worked.
    private(set) var ends = 0
    /// Whether the present process has answered, or has run for some seconds.
    private var hasWorked = false
    private var starters: [AsyncStream<Never>.Continuation] = []

    private let stopRequests: AsyncStream<Never>
    private let stopRequest: AsyncStream<Never>.Continuation
    private(set) var isStopping = false
    /// Of the pause between two processes.
    private var pause: AsyncStream<Never>.Continuation?

    public init(
        _ plugin: PluginDescription, logger: Logger,
        report: @escaping @Sendable (PluginEvent) -> Void = { _ in }
    ) {
        self.init(
            plugin, logger: logger, grace: Self.grace, window: .init(calls: plugin.window), report: report)
    }

    init(
        _ plugin: PluginDescription, logger: Logger, grace: Duration, window: CoprocessProtocol.Window,
        report: @escaping @Sendable (PluginEvent) -> Void = { _ in }
    ) {
        self.plugin = plugin
        self.report = report
        self.grace = grace
        var logger = logger
        logger[metadataKey: "plugin"] = "\(plugin.name)"
        self.logger = logger
        exchange = CoprocessProtocol(window: window, timeout: plugin.timeout)
        (stopRequests, stopRequest) = AsyncStream.makeStream()
    }

    // MARK: Calls

    public func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        // Whatever an observer answers that is no error will do.
        await perform(
            calls, .observe, params: { $0.write(to: &$1) }, accept: { _, _ throws(HookFailure) in })
    }

    public func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        var result: MergeResult?
        let outcome = await perform(
            [call], .merge, params: { $0.write(to: &$1) },
            accept: { call, answer throws(HookFailure) in
                result = try MergeResult(answer, from: call.header.hook)
            })
        if let result { return result }
        throw outcome.failure
            ?? HookFailure(.cancelled, "The call of hook \"\(call.header.hook)\" was cancelled.")
    }

    public func expired(_ call: ExpiredCall) async throws(HookFailure) {
        let outcome = await perform(
            [call], .expired, params: { $0.write(to: &$1) }, accept: { _, _ throws(HookFailure) in })
        if let failure = outcome.failure { throw failure }
        if outcome.succeeded == 0 {
            throw HookFailure(.cancelled, "The call of hook \"\(call.header.hook)\" was cancelled.")
        }
    }

    /// What a caller is told while it has the turn.
    enum CallerEvent: Sendable {
        case answers([PluginAnswer.Outcome])
        case failed(HookFailure)
        /// There is a process now, or room in the window.
        case goOn
    }

    /// How many calls one may make while others wait, before it is their turn: a long backlog of
    /// one consumer does not keep the others waiting to its end.
    private static let share = 64

    /// Makes the calls in order, up to the first that fails.
    private func perform<Call>(
        _ calls: [Call], _ method: CallJSON.Method, params: (Call, inout JSONBytes) -> Void,
        accept: (Call, PluginAnswer.Outcome) throws(HookFailure) -> Void
    ) async -> ObserverOutcome {
        var rest = calls[...]
        while !rest.isEmpty, !mayNotBegin(method), await takeTurn() {
            let outcome = await converse(about: rest, method, params: params, accept: accept)
            turns.pass()
            rest = rest.dropFirst(outcome.succeeded)
            if let failure = outcome.failure {
                return ObserverOutcome(succeeded: calls.count - rest.count, failure: failure)
            }
        }
        return ObserverOutcome(succeeded: calls.count - rest.count)
    }

    public nonisolated func finishCalls() { isFinishing.withLock { $0 = true } }

    private func mayNotBegin(_ method: CallJSON.Method) -> Bool {
        method == .observe && isFinishing.withLock { $0 }
    }

    /// Makes calls while it is our turn, as many ahead as the window allows.
    private func converse<Call>(
        about calls: ArraySlice<Call>, _ method: CallJSON.Method, params: (Call, inout JSONBytes) -> Void,
        accept: (Call, PluginAnswer.Outcome) throws(HookFailure) -> Void
    ) async -> ObserverOutcome {
        let (events, continuation) = AsyncStream.makeStream(of: CallerEvent.self)
        caller = continuation
        defer {
            caller = nil
            exchange.abandon()
        }
        var iterator = events.makeAsyncIterator()
        var sent = 0
        var succeeded = 0
        var maySend: Bool {
            sent < calls.count && (sent < Self.share || !turns.areAwaited) && !mayNotBegin(method)
        }
        while succeeded < sent || maySend {
            if case .over = stage { return ObserverOutcome(succeeded: succeeded, failure: stopped) }
            if case .running(let session) = stage, maySend, exchange.hasRoom {
                repeat {
                    exchange.send(at: .now) { id in
                        let before = outbox.count
                        CallJSON.writeRequest(id, method, to: &outbox) {
                            params(calls[calls.startIndex + sent], &$0)
                        }
                        return outbox.count - before
                    }
                    sent += 1
                } while maySend && exchange.hasRoom
                send(to: session)
                if watchIsIdle { session.hasDeadline.yield() }
            }
            // The stream also ends when the task is cancelled.
            guard let event = await iterator.next(isolation: self) else { break }
            switch event {
            case .goOn: continue
            case .failed(let failure): return ObserverOutcome(succeeded: succeeded, failure: failure)
            case .answers(let outcomes):
                for outcome in outcomes {
                    do throws(HookFailure) {
                        switch outcome {
                        // Who does not know of expiry has nothing to begin anew.
                        case .methodUnknown where method == .expired: break
                        case .refused(let message), .methodUnknown(let message):
                            throw HookFailure(.refused, "\(title) answered with an error: \(message.excerpt)")
                        default: break
                        }
                        try accept(calls[calls.startIndex + succeeded], outcome)
                    } catch {
                        return ObserverOutcome(succeeded: succeeded, failure: error)
                    }
                    succeeded += 1
                }
            }
        }
        return ObserverOutcome(succeeded: succeeded)
    }

    /// Whether somebody waits for his turn.
    var isAwaited: Bool { turns.areAwaited }

    /// - Returns: false where the task was cancelled before.
    private func takeTurn() async -> Bool {
        guard let (ticket, stream) = turns.take() else {
            if Task.isCancelled { turns.pass() }
            return !Task.isCancelled
        }
        for await _ in stream {}
        guard Task.isCancelled else { return true }
        if !turns.leave(ticket) { turns.pass() }
        return false
    }

    func noteStart() {
        isStartedOnce = true
        hasWorked = false
        lastFailure = nil
        tellStarters()
        tellCaller(.goOn)
    }

    func tellCaller(_ event: CallerEvent) { caller?.yield(event) }

    var title: String { "Plugin \"\(plugin.name)\"" }

    var stopped: HookFailure { HookFailure(.cancelled, "\(title) is stopped.") }

    // MARK: Life

    /// Waits until the plugin's process runs for the first time.
    ///
    /// - Throws: `HookFailure`: `cannotStart` where the first start failed (`run` goes on trying),
    ///   `cancelled` where the task or the plugin was.
    public func waitUntilStarted() async throws(HookFailure) {
        while true {
            switch stage {
            case .running, .ending: return
            case .over: throw stopped
            case .none: break
            }
            if let lastFailure { throw lastFailure }
            let (stream, continuation) = AsyncStream<Never>.makeStream()
            starters.append(continuation)
            for await _ in stream {}
            if Task.isCancelled { throw HookFailure(.cancelled, "The wait for \(title) was cancelled.") }
        }
    }

    /// Asks the plugin to stop: `run` closes its standard input, waits, sends SIGTERM, waits,
    /// sends SIGKILL, and returns.
    public nonisolated func stop() { stopRequest.finish() }

    /// Holds the process until `stop`, a graceful shutdown, or the task's cancellation (which
    /// kills it at once).
    public func run() async {
        await withGracefulShutdownHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.supervise() }
                group.addTask { [stopRequests] in
                    for await _ in stopRequests {}
                    await self.beginStop()
                }
            }
        } onGracefulShutdown: {
            self.stop()
        }
        stage = .over
        tellCaller(.failed(stopped))
        tellStarters()
    }

    private func beginStop() {
        isStopping = true
        pause?.finish()
        if case .running(let session) = stage { session.beginStop() }
    }

    private func tellStarters() {
        for starter in starters { starter.finish() }
        starters.removeAll()
    }

    private func supervise() async {
        var delay = RestartDelay()
        while !isStopping, !Task.isCancelled {
            let pause: Duration
            do throws(HookFailure) {
                let end = try await runProcess()
                if hasWorked { delay.reset() }
                pause = delay.next()
                if isStopping || Task.isCancelled { break }
                // That it was killed for a call's sake is told with the call.
                if end.failure.reason == .died || !end.isTold {
                    ends += 1
                    report(.ended(end.failure, inARow: ends, isTold: end.isTold, restart: pause))
                }
            } catch {
                _ = delay.next()
                pause = delay.next()
                let isTold = caller != nil || !isStartedOnce || lastFailure == error
                ends += 1
                report(.unstartable(error, inARow: ends, isTold: isTold, restart: pause))
                lastFailure = error
                tellCaller(.failed(error))
                tellStarters()
            }
            await sleepUnlessStopped(for: pause)
        }
    }

    /// The present process has answered, or has run for some seconds.
    func noteWork() {
        guard !hasWorked else { return }
        hasWorked = true
        if ends > 0 { report(.works(afterEnds: ends)) }
        ends = 0
    }

    private func sleepUnlessStopped(for duration: Duration) async {
        guard duration > .zero, !isStopping else { return }
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        pause = continuation
        defer { pause = nil }
        await wait(atMost: duration) { for await _ in stream {} }
    }
}
