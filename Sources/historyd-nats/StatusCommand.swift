import ArgumentParser
import Foundation
import HistoryConfiguration
import HistoryControl
import HistoryNATS
import PersistentHistory

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the streams and mirrors of the running program.")

    @Option(help: "The socket of the program.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Print metrics in Prometheus' text format.")
    var metrics = false

    func run() throws {
        let body = try StatusClient.ask("GET", metrics ? "/v1/metrics" : "/v1/status", at: socket).body
        if json || metrics {
            print(metrics ? PrometheusText.converted(body) : body, terminator: metrics ? "" : "\n")
            return
        }
        let reports = try JSONDecoder().decode([WorkerReport].self, from: Data(body.utf8))
        let rows = reports.map { report in
            [
                report.role.rawValue, report.name, report.isConnected ? "connected" : "not connected",
                "epoch \(report.epoch)", "at \(report.position)", Self.text(of: report.lag), report.path,
                report.problem ?? "",
            ].joined(separator: "  ")
        }
        print(rows.joined(separator: "\n"))
    }
}

extension StatusCommand {
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
        discussion: "The status is 0 where it is healthy, 1 where it is degraded, 2 where it is failing.")

    @Option(help: "The socket of the program.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        let body = try StatusClient.ask("GET", "/v1/health", at: socket).body
        let health = try JSONDecoder().decode(WorkerHealth.self, from: Data(body.utf8))
        if json {
            print(body)
        } else {
            print(health.verdict.rawValue)
            for reason in health.reasons {
                print(
                    "  \(reason.verdict.rawValue): \(reason.role.rawValue) \(reason.stream): \(reason.message)")
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

    @Option(help: "The socket of the program.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    func run() throws {
        let answer = try StatusClient.ask("POST", "/v1/reload", at: socket)
        if answer.status == 200 { return }
        StatusClient.say(answer.body)
        let status: ExitStatus = answer.status == 403 ? .noPermission : .configuration
        throw ExitCode(status.rawValue)
    }
}

/// Asks the running program on its socket.
enum StatusClient {
    static func say(_ text: String) { FileHandle.standardError.write(Data(text.utf8)) }

    /// - Throws: `ExitCode` after the reason was printed.
    static func ask(_ method: String, _ target: String, at path: String) throws -> (status: Int, body: String) {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        guard descriptor >= 0, StatusListener.withAddress(of: path, { connect(descriptor, $0, $1) }) == 0 else {
            let reason = String(cString: strerror(errno))
            say("historyd-nats does not answer at \"\(path)\": \(reason). Is it running?\n")
            throw ExitCode(ExitStatus.unavailable.rawValue)
        }
        let request = Array("\(method) \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        _ = send(descriptor, request, request.count, Int32(MSG_NOSIGNAL))
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            answer += buffer[..<count]
        }
        let text = String(decoding: answer, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n"),
            let status = text.split(separator: " ", maxSplits: 2).dropFirst().first.flatMap({ Int($0) })
        else {
            say("The answer of \"\(path)\" is not complete.\n")
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
        return (status, String(text[end.upperBound...]))
    }
}
