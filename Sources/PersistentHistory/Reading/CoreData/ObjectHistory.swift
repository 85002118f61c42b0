import GRDB
import GRDBSQLite

/// Finds the values of changed objects before and after their changes. Where none are certain, there are
/// none.
package final class ObjectHistory {
    /// A change's object, as `ACHANGE` names it.
    private struct Object: Hashable {
        let entity: Int64
        let number: Int64
    }

    private let reader: CoreDataReader
    private var past: PastStates?
    private var isPastKnown = false

    /// The texts and blobs of a transaction's objects, or of a part of a large one.
    private static let mostBytes = 16 << 20

    package init(_ reader: CoreDataReader) { self.reader = reader }

    /// Adds values to the changes of transactions.
    package func add(to transactions: [HistoryTransaction]) throws -> [HistoryTransaction] {
        let groups = transactions.map { ($0.number, $0.changes) }
        return try zip(transactions, add(to: groups)).map { transaction, changes in
            changes.isEmpty ? transaction : transaction.with(changes)
        }
    }

    /// The same for changes of a large transaction.
    package func add(to changes: [HistoryChange], of transaction: HistoryTransaction) throws -> [HistoryChange]
    {
        try add(to: [(transaction.number, changes)]).first ?? changes
    }

    private func add(to groups: [(number: Int64, changes: [HistoryChange])]) throws -> [[HistoryChange]] {
        try reader.read { db, catalog in
            let latest = try latest(db, groups)
            var rows = ObjectRows(catalog)
            let past = states(catalog)
            return groups.map { number, changes in
                // Opened only where there is something to find.
                let states = changes.isEmpty ? nil : past?.around(number)
                var room = Self.mostBytes
                return changes.map { change in
                    guard let object = Self.object(change), latest[object]?.isTwice(number) != true else {
                        return change
                    }
                    var before = states?.before.row(object.entity, object.number, room: room)
                    room -= before?.bytes ?? 0
                    var after = states?.after.row(object.entity, object.number, room: room)
                    room -= after?.bytes ?? 0
                    if past?.isOutdated == true { (before, after) = (nil, nil) }
                    var current: ObjectColumns.Row?
                    if after == nil, change.operation != .delete, latest[object]?.number == number {
                        current = rows.row(db, object.entity, object.number, room: room)
                        room -= current?.bytes ?? 0
                    }
                    return change.with(Self.values(of: change, before, after, current))
                }
            }
        }
    }

    private static func object(_ change: HistoryChange) -> Object? {
        guard case .integer(let number)? = change.objectID.onlyValue else { return nil }
        return Object(entity: change.entity.shape, number: number)
    }

    /// The log is read once. A store that a process begins to use has no past any more.
    private func states(_ catalog: CoreDataCatalog) -> PastStates? {
        if !isPastKnown { past = try? PastStates(reader.path, catalog) }
        isPastKnown = true
        if past?.isOutdated == true { past = nil }
        return past
    }

    // MARK: The last change

    /// The last transaction that changed an object.
    private struct Latest {
        var number: Int64
        /// Transactions with several changes of it: what is between them is not known.
        var twice: Set<Int64> = []

        func isTwice(_ number: Int64) -> Bool { twice.contains(number) }
    }

    private func latest(_ db: Database, _ groups: [(number: Int64, changes: [HistoryChange])]) throws
        -> [Object: Latest]
    {
        var latest: [Object: Latest] = [:]
        for change in groups.lazy.flatMap(\.changes) {
            if let object = Self.object(change) { latest[object] = Latest(number: 0) }
        }
        guard !latest.isEmpty, let first = groups.map(\.number).min() else { return [:] }
        try db.rows(
            """
            SELECT ZTRANSACTIONID, ZENTITY, ZENTITYPK FROM ACHANGE NOT INDEXED WHERE ZTRANSACTIONID >= ?
            """, first
        ) { row in
            while try row.step(db) {
                let object = Object(entity: sqlite3_column_int64(row, 1), number: sqlite3_column_int64(row, 2))
                guard var known = latest[object] else { continue }
                let number = sqlite3_column_int64(row, 0)
                if known.number == number { known.twice.insert(number) }
                known.number = max(known.number, number)
                latest[object] = known
            }
        }
        return latest
    }

    // MARK: Values

    private static func values(
        of change: HistoryChange, _ before: ObjectColumns.Row?, _ after: ObjectColumns.Row?,
        _ current: ObjectColumns.Row?
    ) -> ChangeValues? {
        typealias State = ChangeValues.State
        let source: ChangeValues.Source = after == nil ? .current : .wal
        var (old, new): (State?, State?)
        switch change.operation {
        case .insert:
            new = (after ?? current).map { State(source, $0.values, omitted: $0.omitted) }
        case .update:
            var names = Set(names: change.changedProperties)
            if let before, let after { names.formUnion(differences(before, after)) }
            old = before.flatMap { $0.state(.wal, names) }
            new = (after ?? current).flatMap { $0.state(source, names) }
        case .delete:
            old =
                before.map { State(.wal, $0.values, omitted: $0.omitted) }
                ?? change.tombstone.flatMap { $0.values.isEmpty ? nil : State(.tombstone, $0.values) }
        }
        return old == nil && new == nil ? nil : ChangeValues(before: old, after: new)
    }

    /// SQLite's triggers change counters that no update names.
    private static func differences(_ before: ObjectColumns.Row, _ after: ObjectColumns.Row) -> [BinaryText] {
        let old = Dictionary(before.values.map { (BinaryText($0.column.name), $0.value) }) { first, _ in first }
        return after.values.compactMap { column, value in
            guard let known = old[BinaryText(column.name)], known != value else { return nil }
            return BinaryText(column.name)
        }
    }
}

extension ObjectColumns.Row {
    /// Nil if it has none of the properties.
    fileprivate func state(_ source: ChangeValues.Source, _ names: Set<BinaryText>) -> ChangeValues.State? {
        let values = values.filter { names.contains(BinaryText($0.column.name)) }
        let omitted = omitted.filter { names.contains(BinaryText($0)) }
        return values.isEmpty && omitted.isEmpty
            ? nil : ChangeValues.State(source, values, omitted: omitted)
    }
}
