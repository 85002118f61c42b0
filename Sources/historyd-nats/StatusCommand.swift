import ArgumentParser
import Foundation
import HistoryConfiguration
import PersistentHistory

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Show the streams and mirrors of the running program.")

    @Option(help: "Where it listens.")
    var socket = StatusListener.path() ?? "/run/historyd-nats/status.sock"

    @Flag(help: "Print JSON.")
    var json = false

    @Flag(help: "Print metrics in OpenMetrics text.")
    var metrics = false

    func run() throws {
        let body = try Self.get(metrics ? "/v1/metrics" : "/v1/status", at: socket)
        if json || metrics {
            print(body, terminator: metrics ? "" : "\n")
            return
        }
        let reports = try JSONDecoder().decode([WorkerReport].self, from: Data(body.utf8))
        let rows = reports.map { report in
            [
                report.role.rawValue, report.name, report.isConnected ? "connected" : "not connected",
                "epoch \(report.epoch)", "at \(report.position)", report.path, report.problem ?? "",
            ].joined(separator: "  ")
        }
        print(rows.joined(separator: "\n"))
    }

    /// - Throws: `ExitCode` after the reason was printed.
    private static func get(_ target: String, at path: String) throws -> String {
        let descriptor = Glibc.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        guard descriptor >= 0, StatusListener.withAddress(of: path, { connect(descriptor, $0, $1) }) == 0 else {
            let reason = String(cString: strerror(errno))
            FileHandle.standardError.write(
                Data("historyd-nats does not answer at \"\(path)\": \(reason). Is it running?\n".utf8))
            throw ExitCode(ExitStatus.unavailable.rawValue)
        }
        let request = Array("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        _ = send(descriptor, request, request.count, Int32(MSG_NOSIGNAL))
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            answer += buffer[..<count]
        }
        let text = String(decoding: answer, as: UTF8.self)
        guard let end = text.range(of: "\r\n\r\n") else {
            FileHandle.standardError.write(Data("The answer of \"\(path)\" is not whole.\n".utf8))
            throw ExitCode(ExitStatus.temporary.rawValue)
        }
        return String(text[end.upperBound...])
    }
}
