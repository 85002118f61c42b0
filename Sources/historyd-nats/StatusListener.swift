import Dispatch
import Foundation
import HistoryNATS
import PersistentHistory

/// Answers `GET /v1/status`, `GET /v1/health`, `GET /v1/metrics` and `POST /v1/reload` on a Unix socket, and metrics alone
/// on sockets that the service manager has made. Each socket has a thread that blocks until a request comes.
final class StatusListener: Sendable {
    private let descriptor: Int32
    private let path: String
    private let metrics: [Int32]
    private let shown = Locked<(reports: [WorkerStatus], healthyLag: Duration)>(([], .seconds(300)))
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

    /// The publishers and followers that it reports from now on.
    func show(_ reports: [WorkerStatus], healthyLag: Duration) {
        shown.withLock { $0 = (reports, healthyLag) }
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
            answer(client, isPublic: isPublic)
            close(client)
        }
    }

    private func answer(_ client: Int32, isPublic: Bool) {
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
        let asked = line.split(separator: " ").prefix(2).joined(separator: " ")
        let (status, type, body) = isPublic ? publicResponse(to: asked) : response(to: asked, client)
        let head = "HTTP/1.1 \(status)\r\nContent-Type: \(type)"
        var answer = Array(
            "\(head)\r\nContent-Length: \(body.utf8.count)\r\nConnection: close\r\n\r\n\(body)".utf8)[...]
        while !answer.isEmpty {
            let count = answer.withUnsafeBytes { send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return }
            answer = answer.dropFirst(count)
        }
    }

    private typealias Response = (status: String, type: String, body: String)

    private var current: [WorkerReport] { shown.withLock { $0.reports }.map(\.current) }

    private func health(_ reports: [WorkerReport]) -> WorkerHealth {
        WorkerHealth(
            reports, within: shown.withLock { $0.healthyLag } / .seconds(1), at: Date.now.timeIntervalSince1970)
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

    private func response(to request: String, _ client: Int32) -> Response {
        switch request {
        case "GET /v1/status": return ("200 OK", "application/json", WorkerReport.json(current))
        case "GET /v1/health": return ("200 OK", "application/json", WorkerReport.json(health(current)))
        case "GET /v1/metrics": return publicResponse(to: request)
        case "POST /v1/reload":
            guard Self.mayChange(client) else {
                return ("403 Forbidden", "text/plain", "Only root and the program's user may reload.\n")
            }
            let problems = reloaded()
            let text = problems.map { "\($0)\n" }.joined()
            return (problems.isEmpty ? "200 OK" : "422 Unprocessable Content", "text/plain", text)
        default: return ("404 Not Found", "text/plain", "")
        }
    }

    /// Waits until the configuration was read again.
    private func reloaded() -> [String] {
        let isDone = DispatchSemaphore(value: 0)
        let problems = Locked<[String]>([])
        reload { found in
            problems.withLock { $0 = found }
            isDone.signal()
        }
        isDone.wait()
        return problems.withLock { $0 }
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
