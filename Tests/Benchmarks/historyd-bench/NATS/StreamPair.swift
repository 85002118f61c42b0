import FoundationEssentials
import Glibc

/// A store with a program that publishes it, and a mirror with a program that follows it.
final class StreamPair {
    enum Kind: String, CaseIterable {
        case historyd = "historyd-nats"
        case bare = "bare C publisher and follower"
    }

    let kind: Kind
    let store: String
    let mirror: String
    private let workplace: Workplace
    private let server: NATSServer
    private let folder: String
    private var publisher: Child?
    private var follower: Child?

    init(_ kind: Kind, _ workplace: Workplace, _ server: NATSServer) throws {
        self.kind = kind
        self.workplace = workplace
        self.server = server
        folder = try workplace.makeFolder()
        store = "\(folder)/store"
        mirror = "\(folder)/mirror"
        try BenchStore.make(store)
    }

    /// The folder's name, which no other has.
    private var stream: String { String(folder.split(separator: "/").last ?? "stream") }

    /// - Parameter position: The number of the last change that was published before, for the bare publisher.
    func publish(after position: Int64) throws {
        publisher =
            switch kind {
            case .historyd:
                try start(
                    "publish",
                    .init(publish: [.init(store: store, name: stream)], servers: [server.url]))
            case .bare: try bare("publish", store, server.url, stream, String(position))
            }
    }

    func follow() throws {
        follower =
            switch kind {
            case .historyd:
                try start(
                    "follow", .init(follow: [.init(name: stream, path: mirror)], servers: [server.url]))
            case .bare: try bare("follow", server.url, stream, mirror)
            }
    }

    func stopPublishing() { publisher?.end() }

    /// Waits until the mirror has a row.
    func awaitRow(_ id: Int64) throws {
        let deadline = Clock.now + Int64(StampReader.timeout) * 1_000_000
        while Clock.now < deadline {
            // Each time by its path: a snapshot puts another file there.
            if access(mirror, F_OK) == 0, let connection = try? Connection(mirror),
                let last = try? connection.number("SELECT max(id) FROM item"), last >= id
            {
                return
            }
            Clock.pause(microseconds: 1000)
        }
        throw BenchError("\(kind.rawValue) does not bring the row \(id) to the mirror:\n\(log)")
    }

    /// What reports the mirror's commits, and the follower, whose processor time is measured.
    func observe() throws -> (ConsumerProcess, Child) {
        guard let follower else { throw BenchError("Nothing follows.") }
        return (try ConsumerProcess(.watch, mirror, workplace), follower)
    }

    /// Of the publisher and of the follower.
    func readings() throws -> [ProcessReading] {
        try [publisher, follower].compactMap { $0 }.map { try ProcessReading(of: $0.processID) }
    }

    func end() {
        publisher?.end()
        follower?.end()
    }

    private var log: String {
        ["publish", "follow"].map { FileBytes.text(of: "\(folder)/\($0).log") }.joined()
    }

    private func bare(_ arguments: String...) throws -> Child {
        let log = try FileBytes.create("\(folder)/\(arguments[0]).log")
        defer { close(log) }
        return try Child([Workplace.program("bench-stream")] + arguments, errors: log)
    }

    private struct Configuration: Encodable {
        struct Published: Encodable {
            struct Stream: Encodable { var create = true }
            let store: String
            let name: String
            var stream = Stream()
            /// Nothing waits for the disk on the other side either.
            var hold = "1ms"
        }

        struct Followed: Encodable {
            let name: String
            let path: String
        }

        var version = 1
        var publish: [Published]?
        var follow: [Followed]?
        let servers: [String]
    }

    private func start(_ role: String, _ configuration: Configuration) throws -> Child {
        let home = try workplace.makeFolder()
        let file = "\(home)/\(role).json"
        try JSONEncoder().encode(configuration).write(to: URL(filePath: file))
        let log = try FileBytes.create("\(folder)/\(role).log")
        defer { close(log) }
        return try Child(
            [Workplace.program("historyd-nats"), "--config", file],
            environment: ["STATE_DIRECTORY=\(home)", "RUNTIME_DIRECTORY=\(home)"], errors: log)
    }
}
