import Foundation
import Glibc
import HistoryConfiguration
import HistoryControl
import HistoryDaemon
import HistoryNATS
import Logging
import PersistentHistory

/// Answers `GET /v1/status`, `GET /v1/health`, `GET /v1/metrics`, `GET /v1/doctor` and `POST /v1/reload` on a
/// Unix socket, and only metrics on sockets that the service manager created.
struct StatusListener: Sendable {
    /// Like the daemon's control socket: the peer's uid decides whether it may reload.
    private static let mode: mode_t = 0o660

    private let descriptor: Int32
    private let path: String
    private let metrics: [Int32]
    private let logger: Logger
    private let shown = Locked<(reports: [WorkerStatus], configuration: NATSConfiguration?)>(([], nil))
    private let isExamining = Locked(false)
    private let reload: @Sendable (@escaping @Sendable ([String]) -> Void) -> Void

    /// In `$RUNTIME_DIRECTORY`; nil if that is not set.
    static func path() -> String? {
        ProcessInfo.processInfo.environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first
            .map { "\($0)/status.sock" }
    }

    /// - Parameters:
    ///   - path: Nil for no Unix socket.
    ///   - metrics: Listening TCP sockets.
    ///   - reload: Reloads the configuration, and answers with its problems.
    /// - Throws: `SystemError`.
    init?(
        path: String?, metrics: [Int32], logger: Logger,
        reload: @escaping @Sendable (@escaping @Sendable ([String]) -> Void) -> Void
    ) throws {
        guard let path else { return nil }
        self.path = path
        self.metrics = metrics
        self.logger = logger
        self.reload = reload
        unlink(path)
        descriptor = try UnixAddress.listen(at: path, mode: Self.mode)
    }

    /// Sets the publishers and followers to report.
    func show(_ reports: [WorkerStatus], _ configuration: NATSConfiguration) {
        shown.withLock { $0 = (reports, configuration) }
    }

    /// Answers until the task is cancelled, and removes the socket.
    func run() async throws {
        defer { unlink(path) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await HTTPServer([descriptor], logger: logger).run(answer: answer) }
            if !metrics.isEmpty {
                group.addTask { try await HTTPServer(metrics, logger: logger).run(answer: publicAnswer) }
            }
            try await group.waitForAll()
        }
    }

    private var current: [WorkerReport] { shown.withLock { $0.reports }.map(\.current) }

    private func health(_ reports: [WorkerReport]) -> WorkerHealth {
        WorkerHealth(
            reports,
            within: (shown.withLock { $0.configuration }?.healthyLag ?? .seconds(300)) / .seconds(1),
            at: Date.now.timeIntervalSince1970)
    }

    /// Any client that reaches the port may read the metrics, and nothing else.
    private func publicAnswer(_ query: HTTPQuery) async -> HTTPAnswer {
        guard query.line == "GET /metrics" || query.line == "GET /v1/metrics" else {
            return HTTPAnswer(status: 404, "Metrics are at /metrics.\n")
        }
        let reports = current
        return HTTPAnswer(type: MetricsText.contentType, WorkerReport.metrics(reports, health(reports)))
    }

    private func answer(_ query: HTTPQuery) async throws(ControlError) -> HTTPAnswer {
        switch query.line {
        case "GET /v1/status": json(WorkerReport.json(current))
        case "GET /v1/health": json(WorkerReport.json(health(current)))
        case "GET /v1/metrics": await publicAnswer(query)
        case "GET /v1/doctor": try await examine()
        case "POST /v1/reload" where query.maySteer: try await reloaded()
        case "POST /v1/reload":
            throw ControlError(.notPermitted, "Only root and the program's user may reload.")
        default: throw ControlError(.unknownRequest, "historyd-nats does not answer \(query.line).")
        }
    }

    private func json(_ text: String) -> HTTPAnswer { HTTPAnswer(type: "application/json", text) }

    /// Runs the doctor on a separate thread, because it waits for servers; a stop does not wait for it.
    private func examine() async throws(ControlError) -> HTTPAnswer {
        guard let configuration = shown.withLock({ $0.configuration }),
            isExamining.withLock({ isExamining in
                defer { isExamining = true }
                return !isExamining
            })
        else { throw ControlError(.tooManyConnections, "It is being examined already. Try again.") }
        let findings = await answer { (answer: @escaping @Sendable (String) -> Void) in
            BlockingThreads.shared.run {
                answer(WorkerReport.json(Doctor(configuration: configuration).examine()))
            }
        }
        isExamining.withLock { $0 = false }
        guard let findings else { throw ControlError(.stopping, "The program stops.") }
        return json(findings)
    }

    /// Answers once the configuration has been reloaded.
    private func reloaded() async throws(ControlError) -> HTTPAnswer {
        guard let problems = await answer(reload) else { throw ControlError(.stopping, "The program stops.") }
        guard problems.isEmpty else {
            throw ControlError(.reloadRefused, "The old configuration stays in force.", problems: problems)
        }
        return json("{}")
    }

    /// Waits for a callback.
    ///
    /// - Returns: Nil if the task is cancelled.
    private func answer<T: Sendable>(_ ask: (@escaping @Sendable (T) -> Void) -> Void) async -> T? {
        let (answers, giver) = AsyncStream<T>.makeStream()
        ask { giver.yield($0) }
        return await answers.first { _ in true }
    }
}
