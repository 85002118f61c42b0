import GRDB
import GRDBSQLite

/// The net effect of a large transaction on each object, as `ObjectIDNotification` has it for other
/// transactions.
///
/// A temporary SQLite file stores which change of an object is the first, and how the last one left it,
/// because there may be more objects than fit into memory. The objects themselves are read from the
/// history again.
final class NetEffects: Sendable {
    /// An anonymous database, which SQLite removes with the connection
    /// (https://www.sqlite.org/inmemorydb.html#temp_db).
    private let queue: DatabaseQueue
    private let transaction: HistoryTransaction
    private let history: any HistorySource
    /// The number of objects, and how many of them make a part.
    let count: Int
    private let filter: ChangeFilter
    private func partSize(_ values: WantedValues?) -> Int {
        values?.includesRows ?? false ? TransactionOutline.pieceSize(of: history.partSize) : history.partSize
    }

    /// - Parameter filter: Which changes are wanted. Its condition is evaluated for each portion.
    /// - Throws: `HistoryError`; `DatabaseError` if the temporary file cannot be written.
    init(of transaction: HistoryTransaction, _ filter: ChangeFilter, reading history: any HistorySource)
        throws
    {
        self.transaction = transaction
        self.filter = filter
        self.history = history
        queue = try DatabaseQueue(path: "")
        count = try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    PRAGMA journal_mode = OFF;
                    PRAGMA cache_size = -8192;
                    CREATE TABLE object (
                        first INTEGER PRIMARY KEY, entity INTEGER, key, was INTEGER, isGone INTEGER,
                        UNIQUE (entity, key));
                    BEGIN
                    """)
            // Whether the row existed before (1) or not (-1). An update does not show that (0).
            let insert = try db.cachedStatement(
                sql: """
                    INSERT INTO object VALUES (?, ?, ?, ?, ?) ON CONFLICT (entity, key) DO UPDATE
                    SET was = CASE was WHEN 0 THEN excluded.was ELSE was END, isGone = excluded.isGone
                    """)
            var kinds = Kinds()
            try history.forEachPart(of: transaction) { changes in
                for (number, change) in changes where filter.mayConcern(change) {
                    let key = change.objectID.integer(in: change.entity).map { HistoryValue.integer($0) }
                    try insert.write(
                        db,
                        [
                            .integer(number), .integer(kinds.number(of: change)),
                            key ?? .text(change.objectID.keyText),
                            .integer(change.operation == .insert ? -1 : change.operation == .delete ? 1 : 0),
                            .integer(change.operation == .delete ? 1 : 0),
                        ])
                }
            }
            // A row that was created and deleted within the transaction is left out.
            try db.execute(sql: "DELETE FROM object WHERE was < 0 AND isGone; COMMIT")
            return try Int.fetchOne(db, sql: "SELECT count(*) FROM object") ?? 0
        }
    }

    /// The kinds of changes within which a key identifies one object.
    private struct Kinds {
        private struct Kind: Hashable {
            let entity: BinaryText
            let columns: [BinaryText]
        }

        private var numbers: [Kind: Int64] = [:]
        private var last: (entity: Entity, isRowID: Bool, number: Int64)?

        mutating func number(of change: HistoryChange) -> Int64 {
            let isRowID = change.objectID.isRowID
            if let last, last.entity === change.entity, last.isRowID == isRowID { return last.number }
            let kind = Kind(
                entity: BinaryText(change.entity.name), columns: change.objectID.columns.asBinary)
            let number = numbers[kind] ?? Int64(numbers.count)
            numbers[kind] = number
            last = (change.entity, isRowID, number)
            return number
        }
    }

    /// Some objects, in the order in which the transaction first touched them.
    struct Portion: Sendable {
        let objects: [ObjectIDNotification.Object]
        /// How many there were before the filter's condition.
        let count: Int
        /// Where the next portion begins.
        let end: Int64
        /// The rows of the objects, if they are wanted.
        let values: RowValues?
    }

    /// - Parameters:
    ///   - position: The end of the previous portion, 0 at first.
    ///   - values: The objects whose rows are wanted.
    func portion(after position: Int64, values: WantedValues? = nil) throws -> Portion {
        let found = try queue.read { db in
            try Row.fetchAll(
                try db.cachedStatement(
                    sql:
                        "SELECT first, was < 0 AS isNew, isGone FROM object WHERE first > ? ORDER BY first LIMIT ?"
                ),
                arguments: [position, partSize(values)]
            ).map { row in
                (number: try row.integer("first"), isNew: try row.flag("isNew"), isGone: try row.flag("isGone"))
            }
        }
        let (changes, values) = try history.changes(
            at: found.map(\.number), of: transaction, values: values)
        let objects = zip(changes, found).compactMap { change, found -> ObjectIDNotification.Object? in
            // For a deleted row, this may be an earlier change, which does not show the row's last state.
            let isJudged = !found.isGone || change.operation == .delete
            if isJudged, filter.verdict(on: change, values) == .unwanted { return nil }
            return ObjectIDNotification.Effect(isNew: found.isNew, isGone: found.isGone).map {
                ObjectIDNotification.Object(entity: change.entity, objectID: change.objectID, effect: $0)
            }
        }
        return Portion(
            objects: objects, count: found.count, end: found.last?.number ?? position, values: values)
    }
}
