import Glibc
import HistoryConfiguration
import Logging
import PersistentHistory

/// One running process of a coprocess plugin.
@LoopActor final class CoprocessSession {
    let child: ChildProcess
    /// Signaled when its standard input is closed, or takes no more data.
    let inputEnd = OneShotEvent()
    /// Signaled when there is nothing more to read from its standard output.
    let outputEnd = OneShotEvent()
    /// Whether it has stopped reading.
    fileprivate(set) var refusesInput = false
    /// Whether nothing more is sent: its standard input is closed once everything is written.
    fileprivate var closesInput = false
    var buffer = [UInt8](repeating: 0, count: 65_536)
    var splitter = LineSplitter(limit: CoprocessPlugin.maximumLine)
    var blankLines = 0
    /// Whether an answer is being read on another thread.
    var isReadingLong = false
    /// Whether the process and its pipes are gone.
    fileprivate(set) var isOver = false

    var takesInput: Bool { !refusesInput && !closesInput }

    init(child: ChildProcess) { self.child = child }
}

/// How a process ended.
struct SessionEnd: Sendable {
    let failure: HookFailure
    /// Whether it ever answered.
    let hasAnswered: Bool
    /// Whether its end failed a call, which reports it.
    let isReported: Bool
}

extension CoprocessPlugin {
    /// After this many broken processes in a row, the standard error of the next ones is logged at debug level.
    private static let loggedProcesses = 3
    /// A process that has run for this long works, even without a call.
    private static let timeToWork: Duration = .seconds(10)

    /// The parts of a session, as they end.
    private enum Part: Sendable {
        /// The process has ended.
        case process
        case input
        case output
        case errors
        case stopRequest
        /// The process's time to end is up.
        case grace
        case other
    }

    /// Starts the process, exchanges messages with it until it ends, and leaves nothing behind.
    func runProcess(until stopRequest: OneShotEvent) async throws(HookFailure) -> SessionEnd {
        let (ending, status) = try await ChildProcess.run(plugin) { child in
            await converse(with: child, until: stopRequest)
        }
        let end: SessionEnd
        if let lastKill {
            // The waiting calls have failed already.
            end = SessionEnd(
                failure: lastKill.failure, hasAnswered: exchange.hasAnswered, isReported: lastKill.isReported)
        } else {
            let reason: HookFailure.Reason = isStopping || Task.isCancelled ? .cancelled : .died
            end = SessionEnd(
                failure: HookFailure(reason, explained("\(title) \(ending)\(status)", status)),
                hasAnswered: exchange.hasAnswered, isReported: exchange.isAwaited)
        }
        let failsCall = lastKill == nil && end.isReported
        exchange.reset()
        outbox = JSONBytes()
        deadlineTimer?.cancel()
        deadlineTimer = nil
        lastKill = nil
        stage = .none
        if failsCall { endTurn(end.failure) }
        return end
    }

    /// - Returns: What to report about the process's end, before its status.
    private func converse(with child: ChildProcess, until stopRequest: OneShotEvent) async -> String {
        let session = CoprocessSession(child: child)
        errors = ErrorTail()
        stage = .running(session)
        child.output.onReady { self.readAnswers(session) }
        child.input.onReady {
            self.takeTurnBack()
            self.flush(session)
            self.offerTurn()
        }
        started()

        // The output of a process that keeps ending has been logged before.
        let level = brokenProcesses < Self.loggedProcesses ? Logger.Level.info : .debug
        let teardown = await withTaskGroup(of: Part.self) { group in
            group.addTask {
                await child.waitForEnd()
                return .process
            }
            group.addTask { [logger, errors] in
                await ErrorLog(logger, level: level, tail: errors).follow(child.errors)
                return .errors
            }
            group.addTask {
                // It throws only when it is cancelled: the process has ended already.
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
        session.isOver = true
        child.output.onReady(nil)
        child.input.onReady(nil)
        return teardown.reason.map { "\($0.rawValue), and " } ?? ""
    }

    /// A failure, with what the process wrote about it.
    private func explained(_ text: String, _ end: ProcessEnd? = nil) -> String {
        let said = errors.text
        return (said.map { "\(text): \($0.asSentence)" } ?? "\(text).")
            + SandboxAdvice.text(after: end, saying: said)
    }

    /// Stops sending to the process.
    private func endSession() {
        guard case .running(let session) = stage else { return }
        stage = .ending
        closeInput(of: session)
    }

    // MARK: Requests

    private func closeInput(of session: CoprocessSession) {
        takeTurnBack()
        session.closesInput = true
        flush(session)
    }

    /// Writes as much of the outbox as the pipe has room for: mostly all of it, because the process mostly
    /// waits for input. The rest follows when there is room again.
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

    /// Kills the process group of a plugin that hangs or has lost synchronization. All waiting calls fail at
    /// once.
    func killProcess(because failure: HookFailure) {
        guard case .running(let session) = stage else { return }
        takeTurnBack()
        session.child.signalGroup(SIGKILL)
        let isReported = exchange.isAwaited
        lastKill = (failure, isReported)
        endSession()
        if isReported { endTurn(failure) }
    }

    // MARK: Time

    /// Checks again when the oldest call is due. A call that is answered in time, as nearly all are, does not
    /// move the timer.
    func watchTime() {
        guard deadlineTimer == nil, let deadline = exchange.deadline, let loop = try? HistoryLoop.shared()
        else { return }
        deadlineTimer = loop.schedule(after: CoprocessProtocol.Instant.now.duration(to: deadline)) {
            self.takeTurnBack()
            self.deadlineTimer = nil
            // The answer may be in the pipe already: the daemon was stopped, or the machine suspended.
            if case .running(let session) = self.stage { self.readAnswers(session) }
            self.takeTurnBack()
            if self.exchange.isOverdue(at: .now) {
                self.killProcess(
                    because: HookFailure(
                        .timedOut,
                        self.explained(
                            "\(self.title) did not answer within \(self.plugin.timeout), and was killed")))
            } else {
                self.watchTime()
                self.offerTurn()
            }
        }
    }
}
