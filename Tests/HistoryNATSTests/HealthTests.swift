import HistoryNATS
import Testing

@Suite("The health of publishers and followers")
struct HealthTests {
    private static func report(
        _ role: WorkerReport.Role = .follow, connected: Bool = true, problem: String? = nil,
        since: Double? = nil,
        needsOperator: Bool = false, lag: Double = 0
    ) -> WorkerReport {
        var report = WorkerReport(role, name: "contacts", path: "/x")
        report.isConnected = connected
        report.problem = problem
        report.failingSince = since
        report.needsOperator = needsOperator
        report.lag.seconds = lag
        return report
    }

    @Test("Each state has one verdict")
    func verdicts() {
        let rows: [(WorkerReport, WorkerHealth.Verdict)] = [
            (Self.report(), .healthy), (Self.report(lag: 299), .healthy), (Self.report(lag: 301), .failing),
            (Self.report(connected: false), .degraded),
            (Self.report(connected: false, problem: "away", since: 990), .degraded),
            (Self.report(connected: false, problem: "away", since: 600), .failing),
            (Self.report(problem: "waits", since: 990, lag: 301), .failing),
            (Self.report(problem: "another store", since: 999, needsOperator: true), .failing),
        ]
        for (report, verdict) in rows {
            let health = WorkerHealth([Self.report(.publish), report], within: 300, at: 1000)
            #expect(health.verdict == verdict && health.reasons.count == (verdict == .healthy ? 0 : 1))
        }
        let both = WorkerHealth([rows[3].0, rows[2].0], within: 300, at: 1000)
        #expect(both.reasons.map(\.verdict) == [.failing, .degraded] && both.verdict == .failing)
    }

    @Test("A publisher that has promised a beat and is silent, and a warning, are degraded health")
    func silence() {
        var report = Self.report()
        (report.heard, report.beat) = (990, 10)
        #expect(WorkerHealth([report], within: 300, at: 1000).verdict == .healthy)
        #expect(WorkerHealth([report], within: 300, at: 1030).verdict == .degraded)
        #expect(WorkerHealth([report], within: 300, at: 1300).verdict == .failing)
        report.beat = nil
        #expect(WorkerHealth([report], within: 300, at: 9000).verdict == .healthy)
        report.warning = "no snapshot"
        #expect(WorkerHealth([report], within: 300, at: 9000).reasons.map(\.message) == ["no snapshot"])
        #expect(WorkerHealth([report], within: 300, at: 9000).verdict == .degraded)
    }

    @Test("The status line says what works, and what does not")
    func line() {
        #expect(
            WorkerHealth.line([Self.report(.publish), Self.report()]) == "publishes 1 store, follows 1 stream")
        #expect(
            WorkerHealth.line([Self.report(.publish), Self.report(connected: false, problem: "no server")])
                == "publishes 1 store, follows 0 of 1 stream; contacts: no server")
        #expect(
            WorkerHealth.line([Self.report(.publish, connected: false), Self.report(.publish)])
                == "publishes 1 of 2 stores, follows 0 streams; contacts: not connected yet")
    }
}
