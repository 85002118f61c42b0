package import PersistentHistory
internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// Reads of a store what a mirror of it needs: a group, which is everything after a position, or a snapshot, which is
/// everything. Each is read in one read transaction, so that rows and history belong together.
package final class MirrorSource {
    package let path: String
    private let folder: String
    private let queue: DatabaseQueue
    private let file: FileID?
    private let probe: WriterProbe
    /// A mirror has what its own source published: there, numbers may be missing.
    private var mayHaveGaps = false
    /// As of `schemaVersion`.
    private var tables = MirrorTables()
    private var digest = StreamPosition.Digest()

    /// - Parameter folder: Where there is space for groups that do not fit into memory.
    package init(_ path: String, spoolingIn folder: String) throws {
        self.path = path
        self.folder = folder
        file = FileID(of: path)
        queue = try StoreConnection.open(path, .read)
        probe = try WriterProbes.shared.take(path)
        do {
            mayHaveGaps = try read { db in
                guard try RecordingFormat.isThere(db) else { throw HistoryError.notTracked(db) }
                return try StoreRecorder.isMirror(db)
            }
        } catch {
            // The first failure is the one to report.
            try? close()
            throw error
        }
    }

    deinit { WriterProbes.shared.keep(probe) }

    /// Whether a commit may become visible soon: see `VisibilityRule`.
    package func isWriterActive() throws -> Bool { try probe.isWriterActive() }

    /// Whether the path still leads to the file that is open.
    package var isThere: Bool { file != nil && FileID(of: path) == file }

    package func close() throws { try HistoryError.translating(path) { try queue.end() } }

    private func read<T>(_ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path) {
            try StoreConnection.rollingBack(path) { try queue.readInTransaction(body) }
        }
    }

    // MARK: Groups

    /// What is read at once.
    package struct Group {
        package let store: String
        package let after: StreamPosition
        package let through: StreamPosition
        package let body: GroupBody
        /// The names of the authors, of which two are enough; nil is an undeclared author. A snapshot names none.
        package var authors: Set<BinaryText?> = []
        /// What the schema is at the end.
        package let schema: MirrorSchema
    }

    package enum Next {
        case nothing
        case group(Group)
        /// The store does not go on where the stream ends.
        case lost(SourceLoss)
    }

    /// Reads everything after a position.
    ///
    /// - Parameters:
    ///   - store: The id of the store that the position is of.
    ///   - known: The schema at the position, where it is known.
    package func next(after position: StreamPosition, of store: String, knowing known: MirrorSchema?) throws
        -> Next
    {
        try read { db in
            let header = try HistoryHeader(db, fingerprintAt: position.number)
            if let loss = try loss(at: position, of: store, header) { return .lost(loss) }
            guard header.newest > position.number else { return .nothing }
            try tables.follow(db, path)
            guard let schema = tables.schema else { return .nothing }
            var whole: Set<BinaryText> = []
            if tables.digest != position.schema {
                guard let known, try known.digest == position.schema else { return .lost(.schemaUnknown) }
                whole = schema.newTables(since: known)
            }
            let end = try endPosition(db, header.newest)
            var writer = GroupWriter(db, tables, GroupBody(spoolingIn: folder))
            if tables.digest != position.schema { try writer.write(schema, header) }
            let changed: ChangedKeys
            do {
                changed = try writer.writeHistory(
                    after: position.number, floor: mayHaveGaps ? .max : header.floor)
            } catch is HistoryGap {
                return .lost(.gap)
            }
            try writer.writeRows(changed, whole: whole)
            try writer.finish()
            return .group(
                Group(
                    store: store, after: position, through: end, body: writer.body, authors: writer.authors,
                    schema: schema))
        }
    }

    /// Reads everything.
    ///
    /// - Parameter grown: Is called within the read transaction, each time that there is more in the group's body.
    /// - Throws: `HistoryError`, `SystemError`, what `grown` throws.
    package func snapshot(_ grown: @escaping (Group) throws -> Void = { _ in }) throws -> Group {
        try read { db in
            let header = try HistoryHeader(db)
            try tables.follow(db, path)
            guard let schema = tables.schema else { throw HistoryError.notTracked(db) }
            let end = try endPosition(db, header.end)
            let group = Group(
                store: header.storeID.text,
                after: StreamPosition(number: 0, fingerprint: nil, schema: "-"), through: end,
                body: GroupBody(spoolingIn: folder), schema: schema)
            var writer = GroupWriter(db, tables, group.body) { try grown(group) }
            try writer.write(schema, header)
            _ = try writer.writeHistory(after: 0, floor: .max, isSnapshot: true)
            try writer.writeRows(ChangedKeys(), whole: Set(names: schema.tables.map(\.name)))
            try writer.finish()
            return group
        }
    }

    /// The store's id, and its newest position.
    package func end() throws -> (store: String, position: StreamPosition, schema: MirrorSchema) {
        try read { db in
            let header = try HistoryHeader(db)
            try tables.follow(db, path)
            guard let schema = tables.schema else { throw HistoryError.notTracked(db) }
            return (
                header.storeID.text, try endPosition(db, header.end), schema
            )
        }
    }

    /// How the store stands to a position that somebody else has of it; nil where it goes on there.
    package func loss(at position: StreamPosition, of store: String) throws -> SourceLoss? {
        try read { db in
            try loss(at: position, of: store, HistoryHeader(db, fingerprintAt: position.number))
        }
    }

    private func loss(at position: StreamPosition, of store: String, _ header: HistoryHeader) throws
        -> SourceLoss?
    {
        SourceLoss(position, of: store, header, fingerprint: try digest.of(header.fingerprint))
    }

    private func endPosition(_ db: Database, _ number: Int64) throws -> StreamPosition {
        let fingerprint = try digest.of(HistoryHeader.fingerprint(db, at: number))
        return StreamPosition(number: number, fingerprint: fingerprint, schema: tables.digest)
    }
}

/// Why a store does not go on where a stream of its history ends.
package enum SourceLoss: Hashable, Sendable {
    /// Another store is at the path.
    case otherStore
    /// It was restored from a backup: the position is ahead of it.
    case restored
    /// Another transaction is at the position: two copies of the store went on by themselves.
    case diverged
    /// The history after the position was deleted.
    case expired
    /// Changes behind the position are missing in the middle: deleted by another hand, or in a damaged page.
    case gap
    /// The schema changed unobserved: which tables were created again is not known.
    case schemaUnknown

    /// Nil where the store goes on at the position.
    ///
    /// - Parameter fingerprint: The digest of the header's.
    init?(_ position: StreamPosition, of store: String, _ header: HistoryHeader, fingerprint: String?) {
        guard header.storeID.text == store else {
            self = .otherStore
            return
        }
        if position.number > header.end {
            self = .restored
        } else if let fingerprint, let known = position.fingerprint, fingerprint != known {
            self = .diverged
        } else if position.number < header.floor {
            self = .expired
        } else {
            return nil
        }
    }
}

/// The tables that a mirror gets rows of, and how SQL finds them; read again when the schema changes.
struct MirrorTables {
    private var version: Int64 = -1
    private(set) var schema: MirrorSchema?
    /// The schema's, which takes long to calculate.
    private(set) var digest = ""
    /// By their numbers.
    private(set) var shapes: [Int64: Entity] = [:]
    /// With the rowid, which stays the same in a mirror.
    private(set) var tables: [BinaryText: RowTable] = [:]

    mutating func follow(_ db: Database, _ path: String) throws {
        let version = try db.currentSchemaVersion()
        guard version != self.version || schema == nil else { return }
        try RecordingTables.check(db)
        let schema = try MirrorSchema(db)
        let store = try StoreSchema(db)
        tables = [:]
        for table in schema.tables {
            tables[table.name] = RowTable(try TableSchema(table.name, in: store), withRowid: true)
        }
        shapes = try EntityCatalog(db).shapes
        (self.schema, digest, self.version) = (schema, try schema.digest, version)
    }
}
