import Glibc
import Logging
import PersistentHistory

/// One process of a coprocess plugin, as the plugin knows it while it runs.
@LoopActor final class CoprocessSession {
    let child: ChildProcess
    /// Its standard input is closed, or does not take anything any more.
    let inputEnd = OneShotEvent()
    /// There is nothing more to read from its standard output.
    let outputEnd = OneShotEvent()
    let stop = OneShotEvent()
    /// It does not read any more.
    fileprivate(set) var refusesInput = false
    /// Nothing more is sent: its standard input is closed when all is written.
    fileprivate var closesInput = false
    fileprivate var buffer = [UInt8](repeating: 0, count: 65_536)
    fileprivate var splitter = LineSplitter(limit: CoprocessPlugin.maximumLine)
    fileprivate var blankLines = 0

    init(child: ChildProcess) { self.child = child }
}

/// How a process came to its end.
struct SessionEnd: Sendable {
    let failure: HookFailure
    /// Whether it ever answered.
    let hasAnswered: Bool
    /// Whether a call failed by it, so that it is reported there.
    let isTold: Bool
}

extension CoprocessPlugin {
    /// After so many ends in a row, what the process writes to standard error is logged for debugging alone.
    private static let loggedEnds = 3
    /// A process that has run for this time works, even without a call.
    private static let timeToWork: Duration = .seconds(10)

    /// The parts of a session, as they end.
    private enum Part: Sendable {
        /// The process has ended.
        case process
        case input
        case output
        case errors
        case stopRequest
        /// The time is up that the process was given to end.
        case grace
        case other
    }

    /// Starts the process, speaks with it to its end, and leaves nothing of it.
    func runProcess(until stopRequest: OneShotEvent) async throws(HookFailure) -> SessionEnd {
        let (ending, status) = try await ChildProcess.run(plugin) { child in
            await converse(with: child, until: stopRequest)
        }
        let end: SessionEnd
        if let lastKill {
            // The waiting calls have failed already.
            end = SessionEnd(
                failure: lastKill.failure, hasAnswered: exchange.hasAnswered, isTold: lastKill.isTold)
        } else {
            let reason: HookFailure.Reason = isStopping || Task.isCancelled ? .cancelled : .died
            end = SessionEnd(
                failure: HookFailure(reason, explained("\(title) \(ending)\(status)")),
                hasAnswered: exchange.hasAnswered, isTold: exchange.isAwaited)
        }
        let failsCall = lastKill == nil && end.isTold
        exchange.reset()
        outbox = JSONBytes()
        deadlineTimer?.cancel()
        deadlineTimer = nil
        lastKill = nil
        stage = .none
        if failsCall { endTurn(end.failure) }
        return end
    }

    /// - Returns: what is to be said of the process's end before its status.
    private func converse(with child: ChildProcess, until stopRequest: OneShotEvent) async -> String {
        let session = CoprocessSession(child: child)
        errors = ErrorTail()
        stage = .running(session)
        child.output.onReady { self.readAnswers(session) }
        child.input.onReady { self.flush(session) }
        started()

        let teardown = await withTaskGroup(of: Part.self) { group in
            group.addTask {
                await child.waitForEnd()
                return .process
            }
            group.addTask { [logger, ends, errors] in
                // What a process writes that is started again and again was written before.
                await ErrorLog(logger, level: ends < Self.loggedEnds ? .info : .debug, tail: errors).follow(
                    child.errors)
                return .errors
            }
            group.addTask {
                // It throws only when it is cancelled: the process has ended before.
                do { try await Task.sleep(for: Self.timeToWork, clock: .loop) } catch { return .other }
                await self.noteWork()
                return .other
            }
            for (event, part) in [
                (session.outputEnd, Part.output), (session.inputEnd, .input), (stopRequest, .stopRequest),
            ] {
                group.addTask {
                    await event.wait()
                    return part
                }
            }

            var teardown = Teardown()
            for await part in group {
                switch part {
                case .process: teardown.processEnded()
                case .input:
                    guard session.refusesInput else { continue }
                    endSession()
                    teardown.begin(.closedInput)
                case .output:
                    endSession()
                    teardown.outputEnded()
                case .errors: teardown.errorsEnded()
                case .stopRequest:
                    closeInput(of: session)
                    teardown.begin(.stop)
                case .grace: teardown.graceIsOver()
                case .other: continue
                }
                switch teardown.nextStep() {
                case .none: continue
                case .wait: break
                case .signal(let signal): child.signalGroup(signal)
                case .finish:
                    group.cancelAll()
                    continue
                }
                group.addTask { [grace] in
                    // It throws only when it is cancelled: the process has ended in time.
                    try? await Task.sleep(for: grace, clock: .loop)
                    return .grace
                }
            }
            return teardown
        }
        endSession()
        child.output.onReady(nil)
        child.input.onReady(nil)
        return teardown.reason.map { "\($0.rawValue), and " } ?? ""
    }

    /// A failure with what the process has said of it.
    private func explained(_ text: String) -> String {
        errors.text.map { "\(text): \($0.excerpt)" } ?? "\(text)."
    }

    /// Nothing is sent to the process any more.
    private func endSession() {
        guard case .running(let session) = stage else { return }
        stage = .ending
        closeInput(of: session)
    }

    // MARK: Requests

    private func closeInput(of session: CoprocessSession) {
        session.closesInput = true
        flush(session)
    }

    /// Sends what is to be written, as far as there is room in the pipe: mostly all, for mostly the process
    /// waits for it. The rest follows when there is room again.
    func flush(_ session: CoprocessSession) {
        if outbox.count > 0, !session.refusesInput {
            do throws(SystemError) {
                let count = try outbox.bytes.withBytes { bytes throws(SystemError) in
                    try session.child.input.writeNow(bytes)
                }
                if count == outbox.count { outbox.removeAll() } else { outbox.removeFirst(count) }
            } catch {
                logger.debug("The plugin has closed its standard input.", metadata: ["error": "\(error)"])
                session.refusesInput = true
            }
        }
        if session.refusesInput || session.closesInput && outbox.count == 0 {
            session.child.input.close()
            session.inputEnd.signal()
        }
    }

    // MARK: Answers

    /// Longer lines are nonsense.
    nonisolated static let maximumLine = 16 << 20
    /// Lines without anything on them are passed over, but not for ever.
    private static let maximumBlankLines = 1000

    private func readAnswers(_ session: CoprocessSession) {
        let output = session.child.output
        do throws(SystemError) {
            repeat {
                guard let count = try output.readNow(into: &session.buffer) else { return }
                if count == 0 { return session.outputEnd.signal() }
                guard take(session.buffer[..<count], session) else { return }
                if count == session.buffer.count {
                    // A process that writes as fast as one reads would keep the loop from all others.
                    return try HistoryLoop.shared().soon { self.readAnswers(session) }
                }
                // Where all was read there is an edge to come, unless it is the end.
            } while output.isExpired
        } catch {
            killProcess(because: HookFailure(.badAnswer, "The output of \(title) could not be read: \(error)."))
            session.outputEnd.signal()
        }
    }

    /// - Returns: False if the process has lost step, and was killed.
    private func take(_ bytes: ArraySlice<UInt8>, _ session: CoprocessSession) -> Bool {
        var nonsense: String?
        var failure: HookFailure?
        var answered = false
        let now = CoprocessProtocol.Instant.now
        session.splitter.split(bytes) { line, isCut in
            guard nonsense == nil else { return }
            guard line.contains(where: { $0 > 0x20 }) else {
                session.blankLines += 1
                if session.blankLines > Self.maximumBlankLines {
                    nonsense = "wrote only blank lines"
                }
                return
            }
            session.blankLines = 0
            switch exchange.receive(isCut ? nil : PluginAnswer(line: line), at: now) {
            case .deliver(let outcome):
                answered = true
                noteWork()
                do throws(HookFailure) {
                    try conversations.first?.accept(outcome, after: exchange.lastCallTime)
                } catch {
                    failure = error
                    // The requests behind it were in vain.
                    exchange.abandon()
                }
            case .drop: answered = true
            case .nonsense(let what):
                nonsense = "\(what): \(String(decoding: line.prefix(1000), as: UTF8.self).excerpt)"
            }
        }
        if nonsense == nil, session.splitter.isOverLimit {
            nonsense = "wrote a line of more than \(Self.maximumLine) bytes"
        }
        if let failure {
            endTurn(failure)
        } else if let conversation = conversations.first, conversation.succeeded == conversation.count {
            endTurn(nil)
        }
        if let nonsense {
            killProcess(because: HookFailure(.badAnswer, "\(title) \(nonsense)."))
            session.outputEnd.signal()
            return false
        }
        if answered { pump() }
        return true
    }

    /// The plugin hangs, or has lost step: its whole process group is killed, and all waiting calls
    /// fail at once.
    private func killProcess(because failure: HookFailure) {
        guard case .running(let session) = stage else { return }
        session.child.signalGroup(SIGKILL)
        let isTold = exchange.isAwaited
        lastKill = (failure, isTold)
        endSession()
        if isTold { endTurn(failure) }
    }

    // MARK: Time

    /// Looks again when the oldest call should have been answered. A call that is answered in time, as nearly all
    /// are, does not move the timer.
    func watchTime() {
        guard deadlineTimer == nil, let deadline = exchange.deadline, let loop = try? HistoryLoop.shared()
        else { return }
        deadlineTimer = loop.schedule(after: SuspendingClock.now.duration(to: deadline)) {
            self.deadlineTimer = nil
            if self.exchange.isOverdue(at: .now) {
                self.killProcess(
                    because: HookFailure(
                        .timedOut,
                        self.explained(
                            "\(self.title) did not answer within \(self.plugin.timeout), and was killed")))
            } else {
                self.watchTime()
            }
        }
    }
}
