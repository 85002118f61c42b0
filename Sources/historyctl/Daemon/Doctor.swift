import ArgumentParser
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Check for common problems of a deployment, and print their solutions.",
        discussion: """
            The daemon checks itself, as its user and inside its sandbox: permissions of stores and replicas, \
            for itself and for other users; the plugins' commands, whose interpreters it starts with a program \
            that does nothing; the limits of inotify; the clock; free disk space. It changes nothing. Status 1 if there is a problem, 69 if the daemon is not running.
            """)

    @OptionGroup var daemon: DaemonOptions
    @Argument(help: "The store; without one, all.", completion: .stores)
    var store: String?

    func run() async throws {
        let report = try await daemon.ask(.doctor(store: store), DoctorReport.self) { report, output in
            for finding in report.findings {
                let mark = finding.problem == nil ? "ok" : "!!"
                try output.writeLine("\(mark)  \(finding.check.rawValue) \(finding.subject.printable)")
                if let note = finding.note { try output.writeLine("    note: \(note.printable)") }
                if let problem = finding.problem { try output.writeLine("    \(problem.printable)") }
            }
            let count = report.problems == 0 ? "Nothing is wrong" : "\(report.problems, "problem")"
            try output.writeLine("\(count), for the user \(report.user.printable).")
        }
        if report.problems > 0 { throw ExitCode(1) }
    }
}
