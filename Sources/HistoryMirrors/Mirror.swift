import PersistentHistory
internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// A mirror's file. Its follower is its only writer.
package final class Mirror {
    package let path: String
    /// The stream's name.
    private let name: String
    private let entities: EntityChoice
    /// Whether its tables were chosen by another list: it goes on from a snapshot.
    package private(set) var hasOtherEntities = false
    /// Nil until a snapshot was applied.
    private var queue: DatabaseQueue?
    private var file: FileID?
    /// As of the last applied group.
    private var sections: MirrorSections?
    /// Nil until a snapshot was applied.
    package private(set) var position: MirrorPosition?

    /// Opens a mirror, and creates it if necessary.
    ///
    /// - Parameter entities: The tables that it is to have.
    package init(_ path: String, of name: String, entities: EntityChoice = .all) throws {
        self.path = path
        self.entities = entities
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

    /// - Parameter encoding: The encoding of a new file.
    private func open(encoding: String?) throws {
        if let problem = PlainFile.problem(at: path) {
            throw HistoryError(
                .replicaUnwritable, "The mirror cannot be kept at \"\(path)\": \(problem).",
                hint: "Remove what is there, or name a path of its own in the configuration.")
        }
        try Self.translating(path) {
            var configuration = CopyConnection.configuration(timeout: .seconds(5))
            configuration.label = "historyd-nats"
            queue = try DatabaseQueue.open(PlainFile.uri(path, mayMake: encoding != nil), configuration) { db in
                // It switches triggers off, among them the mirror's own, which refuse other writers.
                try ConnectionHardening.apply(db, .isLeftAlone)
            } first: { queue in
                try queue.writeWithoutTransaction { try begin($0, encoding) }
            }
        }
        file = FileID(of: path)
    }

    private func begin(_ db: Database, _ encoding: String?) throws {
        if let encoding, ["UTF-8", "UTF-16le", "UTF-16be"].contains(encoding) {
            try db.execute(sql: "PRAGMA encoding = '\(encoding)'")
        }
        try CopyConnection.refuseOthers(
            db, than: "historyd_mirror",
            "The mirror cannot be kept at \"\(path)\": that is a database of something else.",
            hint: "Name a path of its own in the configuration.")
        try CopyConnection.begin(db)
        // A checkpoint waits for the disk, and delays the commits after it: run it four times as rarely as usual.
        try db.execute(sql: "PRAGMA wal_autocheckpoint = 4000")
        guard try StoreRecorder.isMirror(db) else { return }
        position = try MirrorPosition(db)
        let row = try Row.fetchOne(db, sql: "SELECT value FROM historyd_store WHERE key = 'entities'")
        let known: String? = try row?.text("value", atMost: 64)
        hasOtherEntities = try position != nil && known != entities.digest
    }

    private static func translating<T>(_ path: String, _ body: () throws -> T) throws -> T {
        do {
            return try body()
        } catch let error as ReplicaSchemaCheck.Refusal {
            throw MirrorError.malformed("a definition is refused: \(error.reason)")
        } catch let error as UnexpectedValue {
            throw damaged(path, error.message, error)
        } catch let error as RowDecodingError {
            throw damaged(path, "a value has a wrong type", error)
        } catch let error as DatabaseError {
            let said = error.message ?? "SQLite result \(error.resultCode.rawValue)"
            switch error.resultCode {
            case .SQLITE_CORRUPT, .SQLITE_NOTADB: throw damaged(path, said, error)
            case .SQLITE_BUSY, .SQLITE_LOCKED:
                throw HistoryError(
                    .replicaUnwritable, "The mirror \"\(path)\" is locked by another process.",
                    hint: "Programs should only read a mirror.", cause: error)
            case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_READONLY, .SQLITE_CANTOPEN, .SQLITE_PERM, .SQLITE_NOMEM,
                .SQLITE_PROTOCOL, .SQLITE_INTERRUPT, .SQLITE_NOLFS:
                throw HistoryError(
                    .replicaUnwritable, "The mirror \"\(path)\" cannot be written: \(said).",
                    hint: "Check the permissions and space of its folder.", cause: error)
            // The disk is not the reason: the group does not fit the mirror's content.
            default: throw MirrorError.needsSnapshot(said)
            }
        }
    }

    private static func damaged(_ path: String, _ what: String, _ cause: any Error) -> HistoryError {
        HistoryError(
            .replicaDamaged, "The mirror \"\(path)\" is damaged: \(what).",
            hint: "It is moved aside, and filled again.", cause: cause)
    }

    /// Moves a damaged file aside.
    ///
    /// - Returns: Its new path.
    package static func moveAside(_ path: String) throws -> String {
        try ReplicaFile.moveAside(path)
    }

    // MARK: Applying

    /// Applies a group and its position in one transaction.
    ///
    /// - Parameters:
    ///   - chunks: Returns the next bytes of the group's lines with each call, within the transaction; nil at
    ///     the end.
    ///   - isSnapshot: Whether it replaces everything instead of continuing at the position.
    ///   - new: The mirror's position afterwards.
    /// - Throws: `MirrorError`, `HistoryError`, `SystemError`, what `chunks` throws. The mirror is unchanged
    ///   then.
    package func apply(_ chunks: () throws -> [UInt8]?, isSnapshot: Bool, to new: MirrorPosition) throws {
        var beginning: [UInt8]?
        if queue == nil {
            guard isSnapshot else { throw MirrorError.needsSnapshot("it is new") }
            let chunks = try Self.firstLine(chunks)
            try open(encoding: try Self.encoding(of: chunks))
            beginning = chunks
        }
        guard let queue else { return }
        let known = sections
        // After a failure the sections are read again.
        sections = nil
        sections = try Self.translating(path) {
            try queue.writeInTransaction { db in
                var writer = try MirrorWriter(
                    db, try current(db, known), after: position?.position, isSnapshot: isSnapshot,
                    of: new.store, entities)
                try Lines.forEach(of: { try beginning.take() ?? chunks() }) {
                    try writer.take($0)
                } areOver: {
                    try writer.writeRows()
                }
                try writer.finish(through: new.position)
                try new.write(name: name, db)
                return writer.sections
            }
        }
        position = new
        if isSnapshot { hasOtherEntities = false }
    }

    /// The wanted tables that the mirror does not have, as of the last applied group.
    package var missingEntities: [String] {
        sections.map { entities.missing(in: $0.shape.tables.keys.map(\.text)) } ?? []
    }

    /// What the mirror contains; it is read only if another connection may have changed it.
    private func current(_ db: Database, _ known: MirrorSections?) throws -> MirrorSections {
        if let known, try known.areCurrent(db) { return known }
        if try !StoreRecorder.isMirror(db) {
            try db.execute(sql: MirrorFormat.schema)
            try db.execute(sql: RecordingFormat.schema)
        } else if try MirrorPosition(db) != position {
            throw MirrorError.needsSnapshot("somebody else has written to it")
        }
        return try MirrorSections(db, entities)
    }

    /// The chunks up to the first line break.
    private static func firstLine(_ chunks: () throws -> [UInt8]?) throws -> [UInt8] {
        var bytes: [UInt8] = []
        while let chunk = try chunks() {
            bytes += chunk
            if chunk.contains(UInt8(ascii: "\n")) { break }
        }
        return bytes
    }

    /// The encoding that a snapshot's first line names.
    private static func encoding(of bytes: [UInt8]) throws -> String {
        try bytes.prefix { $0 != UInt8(ascii: "\n") }.withUnsafeBufferPointer { line in
            try MirrorLine(line).schema?.encoding ?? "UTF-8"
        }
    }
}

extension Optional {
    /// Returns the value, and sets it to nil.
    fileprivate mutating func take() -> Wrapped? {
        defer { self = nil }
        return self
    }
}
