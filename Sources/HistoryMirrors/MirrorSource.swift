package import PersistentHistory
internal import FoundationEssentials
import GRDB
import GRDBSQLite

/// Reads from a store what a mirror of it needs: a group, which is everything after a position, or a snapshot,
/// which is everything. Each is read in one read transaction, so that rows and history are consistent.
package final class MirrorSource {
    package let path: String
    private let folder: String
    private let entities: EntityChoice
    private let queue: DatabaseQueue
    private let file: FileID?
    private let probe: WriterProbe
    /// A mirror's history is what its own source published: numbers may be missing.
    private var mayHaveGaps = false
    /// As of `schemaVersion`.
    private var tables: MirrorTables
    private var digest = StreamPosition.Digest()

    /// - Parameters:
    ///   - folder: A folder with space for groups that do not fit into memory.
    ///   - entities: The tables of which anything is read into groups and snapshots.
    package init(_ path: String, spoolingIn folder: String, entities: EntityChoice = .all) throws {
        self.path = path
        self.folder = folder
        self.entities = entities
        tables = MirrorTables(entities)
        file = FileID(of: path)
        queue = try StoreConnection.open(path, .read)
        probe = try WriterProbes.shared.take(path)
        do {
            mayHaveGaps = try read { db in
                guard try StoreRecorder.hasRecordedHistory(db) else { throw HistoryError.notTracked(db) }
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

    /// Whether the path still leads to the open file.
    package var isThere: Bool { file != nil && FileID(of: path) == file }

    package func close() throws { try HistoryError.translating(path) { try queue.end() } }

    func read<T>(_ body: (Database) throws -> T) throws -> T {
        try HistoryError.translating(path) {
            try StoreConnection.rollingBack(path) { try queue.readInTransaction(body) }
        }
    }

    // MARK: Groups

    /// The result of one read.
    package struct Group {
        package let store: String
        package let after: StreamPosition
        package let through: StreamPosition
        package let body: GroupBody
        /// The names of the authors, of which at most two are kept; nil is an undeclared author. A snapshot
        /// names none.
        package var authors: Set<BinaryText?> = []
        /// The schema at the end.
        package let schema: MirrorSchema
    }

    package enum Next {
        case nothing
        case group(Group)
        /// The store does not continue where the stream ends.
        case lost(SourceLoss)
    }

    /// Reads everything after a position.
    ///
    /// - Parameters:
    ///   - store: The id of the position's store.
    ///   - known: The schema at the position, if it is known.
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
    /// - Parameter grown: Called within the read transaction, each time the group's body has grown.
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

    /// Why the store does not continue at a position; nil if it does.
    package func loss(at position: StreamPosition, of store: String) throws -> SourceLoss? {
        try read { db in
            try loss(at: position, of: store, HistoryHeader(db, fingerprintAt: position.number))
        }
    }

    /// The chosen tables that the store does not track.
    package func missingEntities() throws -> [String] {
        entities.missing(in: try end().schema.tables.map(\.name))
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

/// Why a store does not continue where a stream of its history ends.
package enum SourceLoss: Hashable, Sendable {
    /// Another store is at the path.
    case otherStore
    /// The store was restored from a backup: the position is ahead of it.
    case restored
    /// Another transaction is at the position: two copies of the store diverged.
    case diverged
    /// The history after the position was deleted.
    case expired
    /// Changes after the position are missing in the middle: another program deleted them, or a page is
    /// damaged.
    case gap
    /// The schema changed unobserved: it is not known which tables were recreated.
    case schemaUnknown

    /// Nil if the store continues at the position.
    ///
    /// - Parameter fingerprint: The digest of the header's fingerprint.
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

/// The tables whose rows a mirror receives, with their SQL names; read again when the schema changes.
struct MirrorTables {
    let entities: EntityChoice
    /// The shapes of the chosen tables.
    private var chosen: Set<Int64> = []
    private var version: Int64 = -1
    private(set) var schema: MirrorSchema?
    /// The digest of the schema, which is expensive to calculate.
    private(set) var digest = ""
    /// By shape number.
    private(set) var shapes: [Int64: Entity] = [:]
    /// With the rowid, which is the same in a mirror.
    private(set) var tables: [BinaryText: RowTable] = [:]

    init(_ entities: EntityChoice) { self.entities = entities }

    /// Whether a change of this kind may be read.
    func isChosen(kind: Int64) -> Bool { entities.isAll || chosen.contains(kind >> 2) }

    mutating func follow(_ db: Database, _ path: String) throws {
        let version = try db.currentSchemaVersion()
        guard version != self.version || schema == nil else { return }
        try RecordingTables.check(db)
        let schema = try MirrorSchema(db).only(entities)
        let store = try StoreSchema(db)
        tables = [:]
        for table in schema.tables {
            tables[table.name] = RowTable(try TableSchema(table.name, in: store), withRowid: true)
        }
        shapes = try EntityCatalog(db).shapes
        chosen = Set(schema.shapes.map(\.shape))
        (self.schema, digest, self.version) = (schema, try schema.digest, version)
    }
}
