import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryControl
import PersistentHistory

struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor", abstract: "Check for common problems of a deployment.",
        discussion: """
            The running program checks itself, as its user and inside its sandbox: the files with keys and \
            certificates, the stores, the daemon's feeds, the mirrors' folders, each server with its TLS and its \
            JetStream, and each stream. It changes nothing. Status 1 if there is a problem, 69 if the program is \
            not running.
            """)

    @OptionGroup var client: StatusClient

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let (status, body) = try client.ask("GET", "/v1/doctor")
        guard status == 200 else {
            StatusClient.say(body)
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
        let findings = try JSONDecoder().decode([Doctor.Finding].self, from: Data(body.utf8))
        let problems = findings.count { $0.problem != nil }
        if json {
            print(body)
        } else {
            for finding in findings {
                print("\(finding.problem == nil ? "ok" : "!!")  \(finding.check.rawValue) \(finding.subject)")
                if let problem = finding.problem { print("    \(problem)") }
            }
            print(problems == 0 ? "Nothing is wrong." : "\(problems, "problem").")
        }
        if problems > 0 { throw ExitCode(1) }
    }
}
