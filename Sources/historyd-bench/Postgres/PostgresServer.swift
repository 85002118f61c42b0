import FoundationEssentials
import Glibc

/// A server of its own, in a folder of its own, that only local programs reach.
final class PostgresServer {
    private let library: PostgresLibrary
    private let folder: String
    private let programs: String
    private let server: Child

    /// - Throws: `Tool.Missing` where it is not installed.
    init(_ workplace: Workplace) throws {
        library = try PostgresLibrary()
        programs = try Self.findPrograms()
        let user = try User()
        folder = try workplace.makeFolder()
        try user.own(folder, in: workplace)
        let data = "\(folder)/data"
        let initialize = try Child(
            user.command(["\(programs)/initdb", "-D", data, "-U", "bench", "--auth=trust", "--no-sync"]),
            environment: ["LC_ALL=C", "PATH=\(programs):/usr/bin"])
        guard initialize.waitForEnd().status == 0 else { throw BenchError("initdb could not make a cluster.") }
        let log = try FileBytes.create("\(folder)/log")
        defer { close(log) }
        server = try Child(
            user.command([
                "\(programs)/postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c",
                "wal_level=logical", "-c", "autovacuum=off", "-c", "max_replication_slots=20", "-c",
                "max_wal_senders=10", "-c",
                "max_wal_size=8GB",
            ]), environment: ["LC_ALL=C"], errors: log)
        for _ in 0..<400 {
            if PostgresConnection(library, parameters("postgres")) != nil { return }
            Clock.pause(microseconds: 50_000)
        }
        throw BenchError("PostgreSQL does not answer:\n\(FileBytes.text(of: "\(folder)/log"))")
    }

    /// Connects to a database.
    func connect(_ database: String) throws -> PostgresConnection {
        guard let connection = PostgresConnection(library, parameters(database)) else {
            throw BenchError("PostgreSQL refuses a connection.")
        }
        return connection
    }

    /// Makes a database with the table, and connects to it.
    func makeDatabase(_ name: String) throws -> PostgresConnection {
        try connect("postgres").execute("CREATE DATABASE \(name)")
        let connection = try connect(name)
        try connection.execute(
            "CREATE TABLE item (id bigint PRIMARY KEY, name text NOT NULL, note text, quantity bigint NOT NULL)"
        )
        try connection.execute(
            """
            PREPARE make (bigint) AS INSERT INTO item
            VALUES ($1, 'name of ' || $1, 'a text of some length, as texts are', $1)
            """)
        return connection
    }

    /// Whether an output plugin is installed.
    func has(plugin: String, in connection: PostgresConnection) -> Bool {
        do {
            try connection.execute("SELECT pg_create_logical_replication_slot('probe', '\(plugin)')")
            try connection.execute("SELECT pg_drop_replication_slot('probe')")
            return true
        } catch {
            return false
        }
    }

    /// Starts pg_recvlogical.
    ///
    /// - Returns: the process, and where its output is read.
    func receive(_ database: String, slot: String, until end: String? = nil) throws -> (Child, Int32) {
        let ends = try Child.pipe()
        defer { close(ends.writing) }
        let child = try Child(
            ["\(programs)/pg_recvlogical", "-d", parameters(database), "-S", slot, "--start", "-f", "-"]
                + (end.map { ["--endpos", $0] } ?? []),
            output: ends.writing)
        return (child, ends.reading)
    }

    func end() {
        // A fast shutdown: it does not wait for its clients.
        server.end(by: SIGINT)
    }

    private func parameters(_ database: String) -> String { "host=\(folder) user=bench dbname=\(database)" }

    private static func findPrograms() throws -> String {
        let root = "/usr/lib/postgresql"
        let manager = FileManager.default
        let versions = manager.fileExists(atPath: root) ? try manager.contentsOfDirectory(atPath: root) : []
        let folders = versions.compactMap { Int($0) }.sorted(by: >).map { "\(root)/\($0)/bin" }
        return try Tool.find("initdb", package: "postgresql", in: folders).split(separator: "/").dropLast()
            .reduce("") { "\($0)/\($1)" }
    }

    /// The user that runs it: root may not.
    private struct User {
        private let isRoot = geteuid() == 0

        init() throws {
            guard !isRoot || getpwnam("postgres") != nil else {
                throw Tool.Missing(reason: "PostgreSQL does not run as root, and there is no user postgres.")
            }
        }

        func command(_ command: [String]) -> [String] {
            isRoot
                ? ["/usr/bin/setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] + command
                : command
        }

        func own(_ folder: String, in workplace: Workplace) throws {
            guard isRoot, let user = getpwnam("postgres") else { return }
            guard chown(folder, user.pointee.pw_uid, user.pointee.pw_gid) == 0,
                chmod(workplace.folder, 0o711) == 0
            else { throw BenchError.system("give a folder to postgres") }
        }
    }
}
