import Dispatch
import Foundation
import Glibc
import HistoryConfiguration
import HistoryNATS
import PersistentHistory

/// Answers `GET /v1/status`, `GET /v1/health`, `GET /v1/metrics`, `GET /v1/doctor` and `POST /v1/reload` on a Unix socket,
/// and metrics alone on sockets that the service manager has made. Each socket has a thread that blocks until a request
/// comes.
final class StatusListener: Sendable {
    private let descriptor: Int32
    private let path: String
    private let metrics: [Int32]
    private let shown = Locked<(reports: [WorkerStatus], configuration: NATSConfiguration?)>(([], nil))
    private let isExamining = Locked(false)
    private let reload: @Sendable (@escaping @Sendable ([String]) -> Void) -> Void

    /// In `$RUNTIME_DIRECTORY`; nil without one.
    static func path() -> String? {
        ProcessInfo.processInfo.environment["RUNTIME_DIRECTORY"]?.split(separator: ":").first
            .map { "\($0)/status.sock" }
    }

    /// - Parameters:
    ///   - path: Nil for none.
    ///   - metrics: Listening TCP sockets.
    ///   - reload: Has the configuration read again, and answers with what is wrong with it.
    /// - Throws: `SystemError`.
    init?(
        path: String?, metrics: [Int32],
        reload: @escaping @Sendable (@escaping @Sendable ([String]) -> Void) -> Void
    ) throws {
        guard let path else { return nil }
        self.path = path
        self.metrics = metrics
        self.reload = reload
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

    /// No call on the socket waits longer than some time.
    static func limitWaits(on descriptor: Int32, to time: Duration = .seconds(2)) {
        let microseconds = max(1, time.microseconds)
        // As timeval has them: that one's members are of another module in each kind of build.
        var limit = (seconds: Int(microseconds / 1_000_000), microseconds: Int(microseconds % 1_000_000))
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
        }
    }

    /// The publishers and followers that it reports from now on.
    func show(_ reports: [WorkerStatus], _ configuration: NATSConfiguration) {
        shown.withLock { $0 = (reports, configuration) }
    }

    func start() {
        _ = startThread { self.serve(self.descriptor, isPublic: false) }
        for socket in metrics { _ = startThread { self.serve(socket, isPublic: true) } }
    }

    /// Ends the thread, and removes the socket.
    func stop() {
        unlink(path)
        for socket in metrics + [descriptor] { shutdown(socket, Int32(SHUT_RDWR)) }
    }

    /// - Parameter isPublic: Whether whoever reaches the socket may read the metrics, and nothing else.
    private func serve(_ descriptor: Int32, isPublic: Bool) {
        while true {
            let client = accept(descriptor, nil, nil)
            if client < 0, errno == EINTR || errno == ECONNABORTED || errno == EMFILE { continue }
            guard client >= 0 else { return }
            guard let request = request(of: client) else {
                close(client)
                continue
            }
            switch request {
            case "GET /v1/doctor" where !isPublic && examines(for: client): break
            case "POST /v1/reload" where !isPublic && Self.mayChange(client): reload(for: client)
            default: send(isPublic ? publicResponse(to: request) : response(to: request), to: client)
            }
        }
    }

    /// The method and the target; nil where none comes.
    private func request(of client: Int32) -> String? {
        // A client that sends no request, or does not read, delays others no longer than this.
        Self.limitWaits(on: client)
        var request: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1024)
        while request.count < 4096, !request.contains(UInt8(ascii: "\n")) {
            let count = recv(client, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            request += buffer[..<count]
        }
        let line = String(decoding: request.prefix { $0 != UInt8(ascii: "\r") }, as: UTF8.self)
        return line.split(separator: " ").prefix(2).joined(separator: " ")
    }

    /// Answers, and closes the connection.
    private func send(_ response: Response, to client: Int32) {
        defer { close(client) }
        let head = "HTTP/1.1 \(response.status)\r\nContent-Type: \(response.type)"
        var answer = Array(
            "\(head)\r\nContent-Length: \(response.body.utf8.count)\r\nConnection: close\r\n\r\n\(response.body)"
                .utf8)[...]
        while !answer.isEmpty {
            let count = answer.withUnsafeBytes {
                Glibc.send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard count > 0 else { return }
            answer = answer.dropFirst(count)
        }
    }

    /// Examines on a thread of its own, because it waits for servers.
    ///
    /// - Returns: Whether it does so, and answers by itself.
    private func examines(for client: Int32) -> Bool {
        guard let configuration = shown.withLock({ $0.configuration }),
            isExamining.withLock({ isExamining in
                defer { isExamining = true }
                return !isExamining
            })
        else { return false }
        let number = startThread {
            let findings = Doctor(configuration: configuration).examine()
            self.isExamining.withLock { $0 = false }
            self.send(("200 OK", "application/json", WorkerReport.json(findings)), to: client)
        }
        if number == 0 { return true }
        isExamining.withLock { $0 = false }
        return false
    }

    private typealias Response = (status: String, type: String, body: String)

    private var current: [WorkerReport] { shown.withLock { $0.reports }.map(\.current) }

    private func health(_ reports: [WorkerReport]) -> WorkerHealth {
        WorkerHealth(
            reports,
            within: (shown.withLock { $0.configuration }?.healthyLag ?? .seconds(300)) / .seconds(1),
            at: Date.now.timeIntervalSince1970)
    }

    private func publicResponse(to request: String) -> Response {
        guard request == "GET /metrics" || request == "GET /v1/metrics" else {
            return ("404 Not Found", "text/plain", "Metrics are at /metrics.\n")
        }
        let reports = current
        return (
            "200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8",
            WorkerReport.metrics(reports, health(reports))
        )
    }

    private func response(to request: String) -> Response {
        switch request {
        case "GET /v1/status": return ("200 OK", "application/json", WorkerReport.json(current))
        case "GET /v1/health": return ("200 OK", "application/json", WorkerReport.json(health(current)))
        case "GET /v1/metrics": return publicResponse(to: request)
        case "POST /v1/reload":
            return ("403 Forbidden", "text/plain", "Only root and the program's user may reload.\n")
        case "GET /v1/doctor":
            return ("503 Service Unavailable", "text/plain", "It is being examined already. Try again.\n")
        default: return ("404 Not Found", "text/plain", "")
        }
    }

    /// Answers when the configuration was read again.
    private func reload(for client: Int32) {
        reload { problems in
            let text = problems.map { "\($0)\n" }.joined()
            self.send(
                (problems.isEmpty ? "200 OK" : "422 Unprocessable Content", "text/plain", text), to: client)
        }
    }

    /// Whether it is root, or the user of this program, who asks.
    private static func mayChange(_ client: Int32) -> Bool {
        // A `ucred`: pid, uid, gid.
        var credentials: [UInt32] = [.max, .max, .max]
        var size = socklen_t(credentials.count * MemoryLayout<UInt32>.size)
        guard getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 else { return false }
        return credentials[1] == 0 || credentials[1] == geteuid()
    }
}
