import FoundationEssentials
import Glibc
package import HistoryConfiguration
package import Logging
package import PersistentHistory

/// A plugin whose process is started for each call: it reads the call's `params` as one line from standard
/// input, and exits with status 0 on success.
///
/// Calls for several consumers run concurrently, each in its own process, as far as there are descriptors.
package final class OneshotPlugin: HookEndpoint {
    package let plugin: PluginConfiguration
    private let logger: Logger
    private let budget: ProcessBudget
    private let isFinishing = Locked(false)

    package init(_ plugin: PluginConfiguration, logger: Logger, budget: ProcessBudget = .shared) {
        self.plugin = plugin
        self.budget = budget
        var logger = logger
        logger[metadataKey: "plugin"] = "\(plugin.name)"
        self.logger = logger
    }

    package var largeIntegers: LargeIntegers { plugin.largeIntegers }

    package func observe(_ calls: [ObserverCall]) async -> ObserverOutcome {
        var times: [Int64] = []
        for (index, call) in calls.enumerated() {
            if isFinishing.withLock({ $0 }) { return ObserverOutcome(succeeded: index, microseconds: times) }
            let start = SuspendingClock.now
            do throws(HookFailure) {
                // An observer's output is ignored.
                _ = try await run(.observe, call.header, keeping: 0) { call.write(to: &$0) }
            } catch {
                return ObserverOutcome(
                    succeeded: index, failure: error.reason == .cancelled ? nil : error, microseconds: times)
            }
            times.append((SuspendingClock.now - start).microseconds)
        }
        return ObserverOutcome(succeeded: calls.count, microseconds: times)
    }

    package func finishCalls() { isFinishing.withLock { $0 = true } }

    package func merge(_ call: MergeCall) async throws(HookFailure) -> MergeResult {
        if call.groups != nil {
            _ = try await run(call.method, call.header, keeping: 0) { call.write(to: &$0) }
            return .goOn
        }
        let printed = try await run(.merge, call.header, keeping: Self.maximumResult) { call.write(to: &$0) }
        return try MergeResult(printed: printed, by: call.header.hook)
    }

    package func expired(_ call: ExpiredCall) async throws(HookFailure) {
        _ = try await run(.expired, call.header, keeping: 0) { call.write(to: &$0) }
    }

    /// Starts the command without a call, and waits for its end.
    func tryOut() async throws(HookFailure) {
        let header = HookCallHeader(
            store: "", consumer: "", hook: plugin.name, hookID: UUID(), delivery: ""
        )
        _ = try await run(.observe, header, keeping: 0) { _ in }
    }

    /// The maximum output of a merge hook.
    private static let maximumResult = 1 << 20

    private enum Part: Sendable {
        case process
        case output(Output)
        case errors(ErrorTail)
        case timeout
        case other
    }

    /// - Parameter limit: How much of standard output is kept. A hook with a result may not print more.
    private func run(
        _ method: CallJSON.Method, _ header: HookCallHeader, keeping limit: Int,
        params: (inout JSONBytes) -> Void
    ) async throws(HookFailure) -> [UInt8] {
        if Task.isCancelled { throw cancelled(header) }
        var json = JSONBytes()
        params(&json)
        json.endLine()
        let environment = [
            "HISTORYD_METHOD": method.rawValue, "HISTORYD_STORE": header.store,
            "HISTORYD_CONSUMER": header.consumer, "HISTORYD_HOOK": header.hook,
            "HISTORYD_DELIVERY": header.delivery,
        ]
        var logger = logger
        logger[metadataKey: "hook"] = "\(header.hook)"
        guard await budget.begin() else { throw cancelled(header) }
        defer { budget.end() }
        let (result, status) = try await ChildProcess.run(plugin, adding: environment) {
            [logger, bytes = json.bytes.array] child in
            await attend(child, request: bytes, keeping: limit, logger: logger)
        }
        if Task.isCancelled { throw cancelled(header) }
        if result.isTimedOut, status != .exited(0) {
            throw HookFailure(
                .timedOut, "Hook \"\(header.hook)\" did not end within \(plugin.timeout), and was killed.")
        }
        if result.output.isOverLimit && limit > 0 {
            throw HookFailure(
                .badAnswer, "Hook \"\(header.hook)\" printed more than \(limit) bytes, and was killed.")
        }
        let said = result.lastErrors.text
        let reason =
            (said.map { ": \($0.asSentence)" } ?? ".") + SandboxAdvice.text(after: status, saying: said)
        switch status {
        case .exited(0): return result.output.bytes
        case .exited(let code) where OneshotStatus(rawValue: code) != nil:
            throw HookFailure(
                .refused,
                "Hook \"\(header.hook)\" \(status)\(result.lastErrors.last.map { ": \($0.excerptAsSentence)" } ?? ".")\(SandboxAdvice.text(after: status, saying: said))",
                advice: OneshotStatus(rawValue: code)?.advice)
        case .exited: throw HookFailure(.refused, "Hook \"\(header.hook)\" \(status)\(reason)")
        case .signaled: throw HookFailure(.died, "Hook \"\(header.hook)\" \(status)\(reason)")
        }
    }

    private func cancelled(_ header: HookCallHeader) -> HookFailure {
        HookFailure(.cancelled, "The call of hook \"\(header.hook)\" was cancelled.")
    }

    private struct Attendance: Sendable {
        var output = Output()
        var lastErrors = ErrorTail()
        var isTimedOut = false
    }

    /// Writes, reads and waits until the process has ended and all its output has been read.
    private func attend(
        _ child: ChildProcess, request: [UInt8], keeping limit: Int, logger: Logger
    ) async -> Attendance {
        await withTaskGroup(of: Part.self) { group in
            group.addTask {
                await child.waitForEnd()
                return .process
            }
            group.addTask {
                let output = await Self.read(child.output, keeping: limit)
                // Too much output fails the call, and the process may never end by itself.
                if output.isOverLimit && limit > 0 { child.signalGroup(SIGKILL) }
                return .output(output)
            }
            group.addTask {
                let tail = ErrorTail()
                await ErrorLog(logger, tail: tail).follow(child.errors)
                return .errors(tail)
            }
            group.addTask {
                do throws(SystemError) {
                    _ = try await child.input.write(request)
                } catch {
                    // Not every plugin reads all its input; the exit status says whether it succeeded.
                    logger.debug(
                        "The plugin did not read its input to the end.", metadata: ["error": "\(error)"])
                }
                child.input.close()
                return .other
            }
            group.addTask { [timeout = plugin.timeout] in
                // It throws only when it is cancelled: the process has ended in time.
                do { try await Self.sleepAwake(for: timeout) } catch { return .other }
                child.signalGroup(SIGKILL)
                return .timeout
            }

            var attendance = Attendance()
            var awaited = 3
            for await part in group {
                switch part {
                case .process: awaited -= 1
                case .output(let output):
                    attendance.output = output
                    awaited -= 1
                case .errors(let last):
                    attendance.lastErrors = last
                    awaited -= 1
                case .timeout: attendance.isTimedOut = true
                case .other: break
                }
                if awaited == 0 { group.cancelAll() }
            }
            return attendance
        }
    }

    /// Sleeps without the time of suspensions: the loop's timers count it, while no process works then.
    private static func sleepAwake(for duration: Duration) async throws {
        let end = CoprocessProtocol.Instant.now.advanced(by: duration)
        while case let rest = CoprocessProtocol.Instant.now.duration(to: end), rest > .zero {
            try await Task.sleep(for: rest, clock: .loop)
        }
    }

    private struct Output: Sendable {
        var bytes: [UInt8] = []
        var isOverLimit = false
    }

    /// Reads to the end, and keeps as much as is allowed; with a limit of 0 it discards everything.
    private static func read(_ output: Descriptor, keeping limit: Int) async -> Output {
        var result = Output()
        var buffer = [UInt8](repeating: 0, count: 65_536)
        var brake = FloodBrake(bytes: 1 << 20)
        do throws(SystemError) {
            while true {
                let count = try await output.read(into: &buffer)
                guard count > 0 else { return result }
                if limit == 0 { await brake.brake(after: count) }
                let room = limit - result.bytes.count
                result.bytes += buffer[..<min(count, room)]
                if count > room { result.isOverLimit = true }
                if result.isOverLimit && limit > 0 { return result }
            }
        } catch {
            // Treated like the end of the output: a truncated result is invalid.
            return result
        }
    }
}
