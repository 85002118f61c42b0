import PersistentHistory

/// The health of publishers and followers.
package struct WorkerHealth: Codable, Sendable, Hashable {
    package enum Verdict: String, Codable, Sendable, CaseIterable, Comparable {
        case healthy
        /// Something fails, but may recover by itself.
        case degraded
        /// Something is not published or followed.
        case failing

        /// The exit status of `historyd-nats health`.
        package var rank: Int32 { Int32(Self.allCases.firstIndex(of: self) ?? 0) }

        package static func < (a: Self, b: Self) -> Bool { a.rank < b.rank }
    }

    package struct Reason: Codable, Sendable, Hashable {
        package let verdict: Verdict
        /// Nil for the program as a whole.
        package let role: WorkerReport.Role?
        package let stream: String?
        /// For readers.
        package let message: String
    }

    package let verdict: Verdict
    /// The most severe first; empty if healthy.
    package let reasons: [Reason]

    /// - Parameters:
    ///   - limit: How far a stream or a mirror may lag, and how long a failure may last, in seconds.
    ///   - now: In seconds since 1970.
    package init(_ reports: [WorkerReport], within limit: Double, at now: Double) {
        let found = reports.compactMap { report in
            Self.problem(of: report, limit, now).map { verdict, message in
                Reason(verdict: verdict, role: report.role, stream: report.name, message: message)
            }
        }
        reasons = found.filter { $0.verdict == .failing } + found.filter { $0.verdict != .failing }
        verdict = reasons.first?.verdict ?? .healthy
    }

    /// The health of a program that does not answer.
    package init(unanswered message: String) {
        reasons = [Reason(verdict: .failing, role: nil, stream: nil, message: message)]
        verdict = .failing
    }

    private static func problem(
        of report: WorkerReport, _ limit: Double, _ now: Double
    ) -> (Verdict, message: String)? {
        let isLate = report.lag.seconds > limit
        if let problem = report.problem {
            let age = report.failingSince.map { now - $0 } ?? 0
            return (report.needsOperator || isLate || age > limit ? .failing : .degraded, problem)
        }
        if isLate {
            let count = report.lag.transactions.map {
                ", \(report.lag.isAtLeast ?? false ? "at least " : "")\($0) transactions"
            }
            return (.failing, "It is \(Int(report.lag.seconds)) s behind\(count ?? "").")
        }
        if let silence = Silence(of: report, at: now) {
            return (silence.seconds > limit ? .failing : .degraded, silence.description)
        }
        if let warning = report.warning { return (.degraded, warning) }
        return report.isConnected ? nil : (.degraded, "It is not connected yet.")
    }

    /// A publisher that promised a beat, and has sent nothing since.
    private struct Silence: CustomStringConvertible {
        let seconds: Double

        init?(of report: WorkerReport, at now: Double) {
            guard let heard = report.heard, let beat = report.beat else { return nil }
            seconds = now - heard
            // Two beats may be late, or delayed by a slow link.
            guard seconds > 3 * beat + 5 else { return nil }
        }

        var description: String { "Its publisher has not been heard of for \(Int(seconds)) s." }
    }

    /// The status line for a service manager.
    package static func line(_ reports: [WorkerReport]) -> String {
        func works(_ report: WorkerReport) -> Bool { report.isConnected && report.problem == nil }
        func count(_ role: WorkerReport.Role, _ noun: String) -> String {
            let all = reports.filter { $0.role == role }
            let working = all.filter(works).count
            return (working == all.count ? "" : "\(working) of ") + "\(all.count, noun)"
        }
        let line = "publishes \(count(.publish, "store")), follows \(count(.follow, "stream"))"
        guard let first = reports.first(where: { !works($0) }) else { return line }
        return "\(line); \(first.name): \(first.problem ?? "not connected yet")"
    }
}
