import Glibc
import Logging
import PersistentHistory

/// One process of a coprocess plugin, as its actor knows it while it runs.
///
/// A class, because it is looked at with each call, and a copy of all of it is not free.
final class Session: Sendable {
    let child: ChildProcess
    /// There is something in the outbox; ends when there will be nothing more.
    let hasRequests: AsyncStream<Void>.Continuation
    /// There is a deadline again.
    let hasDeadline: AsyncStream<Void>.Continuation
    let stop: AsyncStream<Never>.Continuation

    init(
        child: ChildProcess, hasRequests: AsyncStream<Void>.Continuation,
        hasDeadline: AsyncStream<Void>.Continuation,
        stop: AsyncStream<Never>.Continuation
    ) {
        self.child = child
        self.hasRequests = hasRequests
        self.hasDeadline = hasDeadline
        self.stop = stop
    }

    func beginStop() {
        hasRequests.finish()
        stop.finish()
    }
}

/// How a process came to its end.
struct SessionEnd: Sendable {
    let failure: HookFailure
    /// Whether it ever answered.
    let hasAnswered: Bool
    /// Whether a call failed by it, so that it is told of there.
    let isTold: Bool
}

extension CoprocessPlugin {
    /// After so many ends in a row, what the process writes to standard error is logged for debugging alone.
    private static let loggedEnds = 3
    /// A process that has run for so long works, though nobody has called it.
    private static let timeToWork: Duration = .seconds(10)

    /// The tasks of a session, as they end.
    private enum Part: Sendable {
        /// The process has ended.
        case process
        /// It does not read any more.
        case input
        /// There is nothing more to read from standard output.
        case output
        case errors
        case stopRequest
        /// The time is up that the process was given to end.
        case grace
        case other
    }

    /// Starts the process, speaks with it to its end, and leaves nothing of it.
    func runProcess() async throws(HookFailure) -> SessionEnd {
        let (ending, status) = try await ChildProcess.run(plugin) { child in await converse(with: child) }
        let end: SessionEnd
        if let lastKill {
            // Who waited has been told already.
            end = SessionEnd(
                failure: lastKill.failure, hasAnswered: exchange.hasAnswered, isTold: lastKill.isTold)
        } else {
            let reason: HookFailure.Reason = isStopping || Task.isCancelled ? .cancelled : .died
            end = SessionEnd(
                failure: HookFailure(reason, "\(title) \(ending)\(status)."),
                hasAnswered: exchange.hasAnswered, isTold: exchange.isAwaited)
            if end.isTold { tellCaller(.failed(end.failure)) }
        }
        exchange.reset()
        outbox = JSONBytes()
        isWriting = false
        lastKill = nil
        stage = .none
        return end
    }

    /// - Returns: what is to be said of the process's end before its status.
    private func converse(with child: ChildProcess) async -> String {
        let (requests, hasRequests) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (deadlines, hasDeadline) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let (stop, stopContinuation) = AsyncStream<Never>.makeStream()
        let session = Session(
            child: child, hasRequests: hasRequests, hasDeadline: hasDeadline, stop: stopContinuation)
        stage = .running(session)
        watchIsIdle = false
        if isStopping { session.beginStop() }
        noteStart()

        let teardown = await withTaskGroup(of: Part.self) { group in
            group.addTask {
                await child.waitForEnd()
                return .process
            }
            group.addTask {
                await self.readAnswers(from: child.output)
                return .output
            }
            group.addTask { [logger, ends] in
                // What a process writes that is started again and again was written before.
                await ErrorLog(logger, level: ends < Self.loggedEnds ? .info : .debug).follow(child.errors)
                return .errors
            }
            group.addTask {
                // It throws only when it is cancelled: the process has ended before.
                do { try await Task.sleep(for: Self.timeToWork, clock: .loop) } catch { return .other }
                await self.noteWork()
                return .other
            }
            group.addTask {
                await self.writeRequests(to: child.input, when: requests) ? .other : .input
            }
            group.addTask {
                await self.watchTime(whenever: deadlines)
                return .other
            }
            group.addTask {
                for await _ in stop {}
                return .stopRequest
            }

            var teardown = Teardown()
            for await part in group {
                switch part {
                case .process: teardown.processEnded()
                case .input:
                    endSession()
                    teardown.begin(.closedInput)
                case .output:
                    endSession()
                    teardown.outputEnded()
                case .errors: teardown.errorsEnded()
                case .stopRequest: teardown.begin(.stop)
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
        return teardown.reason.map { "\($0.rawValue), and " } ?? ""
    }

    /// Nothing is sent to the process any more.
    private func endSession() {
        guard case .running(let session) = stage else { return }
        stage = .ending
        session.hasRequests.finish()
    }

    // MARK: Requests

    /// Sends what is to be written: mostly at once, for mostly the process waits for it.
    func send(to session: Session) {
        if !isWriting {
            // What is wrong with the pipe shows once more where it is waited for.
            let count = (try? session.child.input.writeNow(outbox.bytes)) ?? 0
            if count == outbox.count { return outbox.removeAll() }
            outbox.removeFirst(count)
        }
        session.hasRequests.yield()
    }

    /// - Returns: false where the process does not read any more.
    private func writeRequests(to input: Descriptor, when requests: AsyncStream<Void>) async -> Bool {
        defer { input.close() }
        // While one is written, the other is filled; both keep their memory.
        var sending = JSONBytes()
        for await _ in requests {
            while outbox.count > 0 {
                swap(&outbox, &sending)
                isWriting = true
                defer {
                    sending.removeAll()
                    isWriting = false
                }
                do throws(SystemError) {
                    guard try await input.write(sending.bytes) else { return true }
                } catch {
                    logger.debug("The plugin has closed its standard input.", metadata: ["error": "\(error)"])
                    return false
                }
            }
        }
        return true
    }

    // MARK: Answers

    /// Longer lines are nonsense.
    private static let maximumLine = 16 << 20
    /// Lines without anything on them are passed over, but not for ever.
    private static let maximumBlankLines = 1000

    private func readAnswers(from output: Descriptor) async {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var splitter = LineSplitter(limit: Self.maximumLine)
        var blankLines = 0
        while true {
            let count: Int
            do throws(SystemError) { count = try await output.read(into: &buffer) } catch {
                return killProcess(
                    because: HookFailure(.badAnswer, "\(title) could not be read from: \(error)."))
            }
            guard count > 0 else { return }
            var nonsense: String?
            var room = false
            // The caller is woken once for all that came together.
            var answers: [PluginAnswer.Outcome] = []
            let now = CoprocessProtocol.Instant.now
            splitter.split(buffer[..<count]) { line, isCut in
                guard nonsense == nil else { return }
                guard line.contains(where: { $0 > 0x20 }) else {
                    blankLines += 1
                    if blankLines > Self.maximumBlankLines { nonsense = "wrote one blank line after another" }
                    return
                }
                blankLines = 0
                switch exchange.receive(isCut ? nil : PluginAnswer(line: line), at: now) {
                case .deliver(let outcome): answers.append(outcome)
                case .drop: room = true
                case .nonsense(let what):
                    nonsense = "\(what): \(String(decoding: line.prefix(1000), as: UTF8.self).excerpt)"
                }
            }
            if !answers.isEmpty {
                noteWork()
                tellCaller(.answers(answers))
            }
            if nonsense == nil, splitter.isOverLimit {
                nonsense = "wrote a line of more than \(Self.maximumLine) bytes"
            }
            if let nonsense { return killProcess(because: HookFailure(.badAnswer, "\(title) \(nonsense).")) }
            if room { tellCaller(.goOn) }
        }
    }

    /// The plugin hangs, or has lost step: its whole process group is killed, and who waits is
    /// told at once.
    private func killProcess(because failure: HookFailure) {
        guard case .running(let session) = stage else { return }
        session.child.signalGroup(SIGKILL)
        lastKill = (failure, isTold: exchange.isAwaited)
        if exchange.isAwaited { tellCaller(.failed(failure)) }
        endSession()
    }

    // MARK: Time

    /// Sleeps until the oldest call should have been answered, or until there is a call. A call
    /// that is answered in time, as nearly all are, does not wake it.
    private func watchTime(whenever deadlines: AsyncStream<Void>) async {
        var deadlines = deadlines.makeAsyncIterator()
        while !Task.isCancelled {
            if let deadline = exchange.deadline {
                // It throws only when it is cancelled.
                try? await Task.sleep(for: SuspendingClock.now.duration(to: deadline), clock: .loop)
                if exchange.isOverdue(at: .now), !Task.isCancelled {
                    return killProcess(
                        because: HookFailure(
                            .timedOut, "\(title) did not answer within \(plugin.timeout), and was killed."))
                }
            } else {
                watchIsIdle = true
                _ = await deadlines.next(isolation: self)
                watchIsIdle = false
            }
        }
    }
}
