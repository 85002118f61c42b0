internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// A mirror's file, for its follower, which is its only writer.
package final class Mirror {
    package let path: String
    /// The stream's name.
    private let name: String
    /// Nil until a snapshot was applied.
    private var queue: DatabaseQueue?
    private var file: FileID?
    /// Nil until a group was applied.
    private var sections: MirrorSections?
    /// Nil until a snapshot was applied.
    package private(set) var position: MirrorPosition?

    /// Opens a mirror, and creates it if necessary.
    ///
    /// - Throws: `HistoryError`.
    package init(_ path: String, of name: String) throws {
        self.path = path
        self.name = name
        if FileID(of: path) != nil { try open(encoding: nil) }
    }

    /// Whether the open file is still the one at the path.
    package var isThere: Bool { queue == nil ? FileID(of: path) == nil : FileID(of: path) == file }

    package func close() throws {
        let queue = self.queue
        self.queue = nil
        try queue?.end()
    }

    /// - Parameter encoding: Of a file that is made.
    private func open(encoding: String?) throws {
        if let problem = PlainFile.problem(at: path) {
            throw HistoryError(
                .replicaUnwritable, "The mirror cannot be kept at \"\(path)\": \(problem).",
                hint: "Remove what is there, or name a path of its own in the configuration.")
        }
        try Self.translating(path) {
            var configuration = CopyConnection.configuration(timeout: .seconds(5))
            configuration.label = "historyd-nats"
            // With it triggers are off: the mirror's own, which keep others away.
            configuration.prepareDatabase { db in try ConnectionHardening.apply(db, .isLeftAlone) }
            let queue = try DatabaseQueue(
                path: PlainFile.uri(path, mayMake: encoding != nil), configuration: configuration)
            try queue.writeWithoutTransaction { db in
                if let encoding, ["UTF-8", "UTF-16le", "UTF-16be"].contains(encoding) {
                    try db.execute(sql: "PRAGMA encoding = '\(encoding)'")
                }
                try Self.refuseOthers(db, path)
                try CopyConnection.begin(db)
                if try MirrorFormat.isThere(db) { position = try MirrorPosition(db) }
            }
            self.queue = queue
        }
        file = FileID(of: path)
    }

    /// Protects other databases from a mistyped path.
    private static func refuseOthers(_ db: Database, _ path: String) throws {
        let names = Set(try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table'"))
        guard !names.isEmpty, !names.contains("historyd_mirror") else { return }
        throw HistoryError(
            .replicaUnwritable,
            "The mirror cannot be kept at \"\(path)\": that is a database of something else.",
            hint: "Name a path of its own in the configuration.")
    }

    private static func translating<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try ReplicaFile.translating(path, body)
        } catch let error as HistoryError where error.isOfSchema {
            throw MirrorError.needsSnapshot(error.message)
        } catch let error as ReplicaSchemaCheck.Refusal {
            throw MirrorError.malformed("a definition is refused: \(error.reason)")
        }
    }

    // MARK: Applying

    /// Applies a group in one transaction with its position.
    ///
    /// - Parameters:
    ///   - body: The group's lines.
    ///   - isSnapshot: Whether it replaces everything instead of continuing at the position.
    ///   - new: The mirror's position afterwards.
    /// - Throws: `MirrorError`, `HistoryError`, `SystemError`. The mirror is as before then.
    package func apply(_ body: GroupBody, isSnapshot: Bool, to new: MirrorPosition) throws {
        if queue == nil {
            guard isSnapshot else { throw MirrorError.needsSnapshot("it is new") }
            try open(encoding: try Self.encoding(of: body))
        }
        guard let queue else { return }
        try Self.translating(path) {
            sections = try queue.writeInTransaction { db in
                var writer = try MirrorWriter(db, try current(db), isSnapshot: isSnapshot)
                try body.forEachLine { try writer.take($0) }
                try writer.finish(through: new.position)
                try new.write(name: name, db)
                return writer.sections
            }
        }
        position = new
    }

    /// What the mirror has, which is read only where it has changed.
    private func current(_ db: Database) throws -> MirrorSections {
        let known = try sections.flatMap { try $0.areCurrent(db) ? $0 : nil }
        if known == nil, try !MirrorFormat.isThere(db) {
            try db.execute(sql: MirrorFormat.schema)
            try db.execute(sql: RecordingFormat.schema)
        } else if try MirrorPosition(db) != position {
            throw MirrorError.needsSnapshot("somebody else has written to it")
        }
        return try known ?? MirrorSections(db)
    }

    /// The encoding that a snapshot's first line names.
    private static func encoding(of body: GroupBody) throws -> String {
        struct Found: Error { let encoding: String }
        do {
            try body.forEachLine { line in
                throw Found(encoding: try MirrorLine(line).schema?.encoding ?? "UTF-8")
            }
        } catch let found as Found {
            return found.encoding
        }
        return "UTF-8"
    }

}

extension HistoryError {
    /// Whether a statement did not fit the tables, because another program changed them.
    fileprivate var isOfSchema: Bool {
        guard let error = cause as? DatabaseError else { return false }
        return [.SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_SCHEMA].contains(error.resultCode)
    }
}
