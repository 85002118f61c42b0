import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryControl
import HistoryNATS
import PersistentHistory

/// How an answer is printed.
struct OutputOptions: ParsableArguments {
    enum Format: String, ExpressibleByArgument, CaseIterable {
        case table, json
    }

    @Option(help: "A table for people, or JSON for programs.")
    var format = Format.table

    /// The former name of `--format json`.
    @Flag(help: .hidden)
    var json = false

    var isJSON: Bool { json || format == .json }
}

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the streams and mirrors of the running program.")

    @OptionGroup var client: StatusClient

    @OptionGroup var output: OutputOptions

    @Flag(help: "Print metrics in Prometheus' text format.")
    var metrics = false

    func run() throws {
        let body = try client.ask(metrics ? .metrics : .status)
        if output.isJSON || metrics {
            let text = String(decoding: body, as: UTF8.self)
            print(metrics ? PrometheusText.converted(text) : text, terminator: metrics ? "" : "\n")
            return
        }
        let reports = try ControlJSON.read([WorkerReport].self, from: body)
        let rows = reports.map { report in
            [
                report.role.rawValue, report.name, report.isConnected ? "connected" : "not connected",
                "epoch \(report.epoch)", "at \(report.position)", Self.text(of: report.lag),
                Self.text(compared: report.compared) + Self.text(asOf: report.asOf), report.path,
                report.problem ?? report.warning ?? "",
            ].joined(separator: "  ")
        }
        print(rows.joined(separator: "\n"))
    }
}

extension StatusCommand {
    private static func text(asOf: Double?) -> String {
        guard let asOf else { return "" }
        return "  as of \(HistoryTimestamp(milliseconds: Int64(asOf * 1000)))"
    }

    private static func text(compared: Double?) -> String {
        guard let compared else { return "not compared" }
        return "compared \(max(0, Int(Date.now.timeIntervalSince1970 - compared))) s ago"
    }

    private static func text(of lag: WorkerLag) -> String {
        guard lag.seconds > 0 || lag.transactions ?? 0 > 0 else { return "level" }
        let count =
            lag.transactions.map { ", \(lag.isAtLeast ?? false ? "at least " : "")\($0, "transaction")" } ?? ""
        return "\(Int(lag.seconds)) s behind\(count)"
    }
}

struct HealthCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "health", abstract: "Show whether everything is published and followed.",
        discussion: """
            The status is 0 where it is healthy, 1 where it is degraded, 2 where it is failing or the program does not \
            answer within 5 seconds (--timeout).
            """)

    @OptionGroup var client: StatusClient

    @OptionGroup var output: OutputOptions

    func run() throws {
        let health: WorkerHealth
        do {
            health = try ControlJSON.read(
                WorkerHealth.self, from: client.answer(to: .health, within: .seconds(5)))
        } catch let error as ControlClient.Unanswered {
            health = WorkerHealth(unanswered: error.description)
        }
        if output.isJSON {
            print(WorkerReport.json(health))
        } else {
            print(health.verdict.rawValue)
            for reason in health.reasons {
                let subject = reason.role.map { "\($0.rawValue) \(reason.stream ?? ""): " } ?? ""
                print("  \(reason.verdict.rawValue): \(subject)\(reason.message)")
            }
        }
        if health.verdict != .healthy { throw ExitCode(health.verdict.rank) }
    }
}

struct ReloadCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "reload", abstract: "Have the running program read its configuration again.",
        discussion: """
            If the configuration is wrong, the old one stays in force, the errors are printed, and the status is 78. \
            All sessions with the servers begin again, so that changed credentials are used.
            """)

    @OptionGroup var client: StatusClient

    func run() throws { _ = try client.ask(.reload) }
}

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

    @OptionGroup var output: OutputOptions

    func run() throws {
        let body = try client.ask(.doctor(store: nil))
        let findings = try ControlJSON.read([Doctor.Finding].self, from: body)
        let problems = findings.count { $0.problem != nil }
        if output.isJSON {
            print(String(decoding: body, as: UTF8.self))
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
