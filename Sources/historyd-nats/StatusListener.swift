import Foundation
import HistoryControl
import HistoryDaemon
import PersistentHistory

/// Answers `GET /v1/status` and `GET /v1/metrics` on a Unix socket, on a thread that blocks until a request comes.
final class StatusListener: Sendable {
    private let descriptor: Int32
    private let path: String
    private let reports: [WorkerStatus]

    /// In `$RUNTIME_DIRECTORY`; nil without one.
    static func path() -> String? {
        ProcessInfo.processInfo.environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first
            .map { "\($0)/status.sock" }
    }

    /// - Parameter path: Nil for none.
    /// - Throws: `SystemError`.
    init?(path: String?, reports: [WorkerStatus]) throws {
        guard let path else { return nil }
        self.path = path
        self.reports = reports
        unlink(path)
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { throw SystemError(call: "socket", number: errno) }
        let bound = Self.withAddress(of: path) { bind(descriptor, $0, $1) }
        guard bound == 0, listen(descriptor, 8) == 0 else {
            throw SystemError(call: "listen on \"\(path)\"", number: errno)
        }
    }

    deinit { close(descriptor) }

    static func withAddress(
        of path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else {
            errno = ENAMETOOLONG
            return -1
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }

    func start() { _ = startThread { self.serve() } }

    /// Ends the thread, and removes the socket.
    func stop() {
        unlink(path)
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func serve() {
        while true {
            let client = accept(descriptor, nil, nil)
            if client < 0, errno == EINTR || errno == ECONNABORTED || errno == EMFILE { continue }
            guard client >= 0 else { return }
            answer(client)
            close(client)
        }
    }

    private func answer(_ client: Int32) {
        // A client that sends no request, or does not read, delays others no longer than this.
        var limit = timeval(tv_sec: 2, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &limit, size)
        setsockopt(client, SOL_SOCKET, SO_SNDTIMEO, &limit, size)
        var request: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1024)
        while request.count < 4096, !request.contains(UInt8(ascii: "\n")) {
            let count = recv(client, &buffer, buffer.count, 0)
            guard count > 0 else { return }
            request += buffer[..<count]
        }
        let line = String(decoding: request.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
        let current = reports.map(\.current)
        let (type, body): (String, String) =
            switch line.split(separator: " ").dropFirst().first {
            case "/v1/status": ("application/json", WorkerReport.json(current))
            case "/v1/metrics":
                ("application/openmetrics-text; version=1.0.0; charset=utf-8", WorkerReport.metrics(current))
            default: ("", "")
            }
        let head = type.isEmpty ? "HTTP/1.1 404 Not Found" : "HTTP/1.1 200 OK\r\nContent-Type: \(type)"
        var answer = Array(
            "\(head)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)".utf8)[...]
        while !answer.isEmpty {
            let count = answer.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            answer = answer.dropFirst(count)
        }
    }
}

extension WorkerReport {
    static func json(_ reports: [WorkerReport]) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return (try? encoder.encode(reports)).map { String(decoding: $0, as: UTF8.self) } ?? "[]"
    }

    /// OpenMetrics text (https://prometheus.io/docs/specs/om/open_metrics_spec/).
    static func metrics(_ reports: [WorkerReport]) -> String {
        var text = ""
        func family(_ name: String, _ type: String, _ help: String, _ value: (WorkerReport) -> String?) {
            text += "# TYPE \(name) \(type)\n# HELP \(name) \(help)\n"
            for report in reports {
                guard let value = value(report) else { continue }
                let suffix = type == "counter" ? "_total" : ""
                text +=
                    "\(name)\(suffix){role=\"\(report.role.rawValue)\",stream=\"\(report.name)\"} \(value)\n"
            }
        }
        family("historyd_nats_connected", "gauge", "Whether a session with the server runs.") {
            $0.isConnected ? "1" : "0"
        }
        family("historyd_nats_position", "gauge", "Number of the last change in the stream or the mirror.") {
            String($0.position)
        }
        family("historyd_nats_epoch", "gauge", "The stream's epoch.") { String($0.epoch) }
        family("historyd_nats_groups", "counter", "Groups published or applied.") { String($0.groups) }
        family("historyd_nats_bytes", "counter", "Bytes of their bodies.") { String($0.bytes) }
        family("historyd_nats_sessions", "counter", "Sessions that began.") { String($0.connections) }
        family("historyd_nats_failures", "counter", "Sessions that failed, refusals among them.") {
            String($0.failures)
        }
        family(
            "historyd_nats_last_change_timestamp_seconds", "gauge", "When the position last changed."
        ) { $0.changed.map { String($0) } }
        return text + "# EOF\n"
    }
}
