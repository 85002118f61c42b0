import ArgumentParser
import HistoryConfiguration
import HistoryControl

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Check what deployments trip over, and print what mends it.",
        discussion: """
            The daemon checks itself, as its user and within its sandbox: rights on stores and replicas, for \
            itself and for others who use them; plugins' commands; limits of inotify; the clock; room on the \
            disks. It changes nothing. Status 1 if something is wrong, 69 if the daemon is not running.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.")
    var store: String?

    func run() async throws {
        let report = try await daemon.ask(.doctor(store: store), DoctorReport.self) { report, output in
            for finding in report.findings {
                let mark = finding.problem == nil ? "ok" : "!!"
                try output.writeLine("\(mark)  \(finding.check.rawValue) \(finding.subject.printable)")
                if let problem = finding.problem { try output.writeLine("    \(problem.printable)") }
            }
            let count = report.problems == 0 ? "Nothing is wrong" : "\(report.problems, "problem")"
            try output.writeLine("\(count), for the user \(report.user.printable).")
        }
        if report.problems > 0 { throw ExitCode(1) }
    }
}
