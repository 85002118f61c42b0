import FoundationEssentials
import Glibc

/// A NATS server with JetStream, on a port and in a folder of its own, that only local programs reach.
final class NATSServer {
    let url: String
    private let child: Child

    /// - Throws: `Tool.Missing` where it is not installed.
    init(_ workplace: Workplace) throws {
        let program = try Tool.find("nats-server", package: "nats-server")
        let folder = try workplace.makeFolder()
        // Port -1 is any free one; the server writes it to a file.
        try """
        listen: "127.0.0.1:-1"
        ports_file_dir: "\(folder)"
        jetstream { store_dir: "\(folder)/jetstream" }
        """.write(toFile: "\(folder)/server.conf", atomically: false, encoding: .utf8)
        let log = try FileBytes.create("\(folder)/log")
        defer { close(log) }
        child = try Child([program, "-c", "\(folder)/server.conf"], errors: log)
        let ports = "\(folder)/nats-server_\(child.processID).ports"
        for _ in 0..<1000 {
            if let url = Self.url(in: FileBytes.text(of: ports)) {
                self.url = url
                return
            }
            Clock.pause(microseconds: 10_000)
        }
        throw BenchError("nats-server does not start:\n\(FileBytes.text(of: "\(folder)/log"))")
    }

    /// `{"nats": ["nats://127.0.0.1:4711"], …}`
    private static func url(in text: String) -> String? {
        text.split(separator: "\"").first { $0.hasPrefix("nats://") }.map(String.init)
    }

    func end() { child.end() }
}
