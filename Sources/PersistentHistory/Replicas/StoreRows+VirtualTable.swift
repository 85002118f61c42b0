import GRDB
import GRDBSQLite

/// The module through which SQLite reads store rows (https://www.sqlite.org/vtab.html).
func storeRowsModule() -> sqlite3_module {
    var module = sqlite3_module()
    // Without xCreate the table exists under the module's name (section 2.1.2).
    module.xConnect = { database, rows, _, _, result, _ in
        guard let rows else { return SQLITE_MISUSE }
        let unmanaged = Unmanaged<StoreRows>.fromOpaque(rows)
        let code = sqlite3_declare_vtab(database, unmanaged.takeUnretainedValue().declaration)
        guard code == SQLITE_OK else { return code }
        let table = UnsafeMutablePointer<Table>.allocate(capacity: 1)
        table.initialize(to: Table(rows: unmanaged))
        result?.pointee = UnsafeMutableRawPointer(table).assumingMemoryBound(to: sqlite3_vtab.self)
        return SQLITE_OK
    }
    module.xDisconnect = { table in
        table.map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: Table.self).deallocate() }
        return SQLITE_OK
    }
    module.xBestIndex = { table, plan in
        guard let table, let plan else { return SQLITE_MISUSE }
        return rows(table).plan(&plan.pointee)
    }
    module.xOpen = { table, result in
        guard let table else { return SQLITE_MISUSE }
        let cursor = UnsafeMutablePointer<StoreCursor>.allocate(capacity: 1)
        cursor.initialize(to: StoreCursor(rows(table)))
        result?.pointee = UnsafeMutableRawPointer(cursor).assumingMemoryBound(to: sqlite3_vtab_cursor.self)
        return SQLITE_OK
    }
    module.xClose = { base in
        guard let cursor = cursor(base) else { return SQLITE_MISUSE }
        cursor.pointee.end()
        cursor.deinitialize(count: 1)
        cursor.deallocate()
        return SQLITE_OK
    }
    module.xFilter = { base, lookup, _, _, arguments in
        guard let cursor = cursor(base), let lookup = StoreRows.Lookup(rawValue: lookup) else {
            return SQLITE_MISUSE
        }
        let rows = cursor.pointee.rows.takeUnretainedValue()
        do {
            try rows.begin(lookup, arguments, &cursor.pointee)
        } catch {
            return rows.fail(error)
        }
        return step(cursor)
    }
    module.xNext = { base in cursor(base).map(step) ?? SQLITE_MISUSE }
    module.xEof = { base in cursor(base)?.pointee.isAtEnd == false ? 0 : 1 }
    module.xColumn = { base, result, column in
        cursor(base)?.pointee.give(column, to: result)
        return SQLITE_OK
    }
    module.xRowid = { base, result in
        result?.pointee = cursor(base)?.pointee.number ?? 0
        return SQLITE_OK
    }
    return module
}

extension StoreRows {
    fileprivate var declaration: String {
        let columns = (0..<columnCount).map { "c\($0), " }.joined()
        return "CREATE TABLE rows (\(columns)object HIDDEN, first HIDDEN, last HIDDEN)"
    }

    /// How to look rows up if some of the columns are given.
    fileprivate func plan(_ plan: inout sqlite3_index_info) -> Int32 {
        plan.estimatedCost = 10
        plan.estimatedRows = 10
        for index in 0..<Int(plan.nConstraint) {
            let constraint = plan.aConstraint[index]
            guard constraint.iColumn >= columnCount, constraint.op == UInt8(SQLITE_INDEX_CONSTRAINT_EQ) else {
                continue
            }
            // The tables must be joined in another order, in which the given value is known.
            if constraint.usable == 0 { return SQLITE_CONSTRAINT }
            plan.aConstraintUsage[index].argvIndex = constraint.iColumn == columnCount + 2 ? 2 : 1
            plan.aConstraintUsage[index].omit = 1
            plan.idxNum = (constraint.iColumn == columnCount ? Lookup.object : .run).rawValue
        }
        return SQLITE_OK
    }
}

/// SQLite's handle of a table; SQLite's own part comes first.
private struct Table {
    private var base = sqlite3_vtab()
    let rows: Unmanaged<StoreRows>

    init(rows: Unmanaged<StoreRows>) { self.rows = rows }
}

private func rows(_ table: UnsafeMutablePointer<sqlite3_vtab>) -> StoreRows {
    UnsafeMutableRawPointer(table).assumingMemoryBound(to: Table.self).pointee.rows.takeUnretainedValue()
}

private func cursor(_ base: UnsafeMutablePointer<sqlite3_vtab_cursor>?) -> UnsafeMutablePointer<StoreCursor>? {
    base.map { UnsafeMutableRawPointer($0).assumingMemoryBound(to: StoreCursor.self) }
}

private func step(_ cursor: UnsafeMutablePointer<StoreCursor>) -> Int32 {
    let code = cursor.pointee.step()
    if code == SQLITE_OK { return code }
    return cursor.pointee.rows.takeUnretainedValue().fail(
        cursor.pointee.isEndless
            ? DatabaseError(
                resultCode: .SQLITE_CORRUPT, message: "a table has more rows than its file has bytes")
            : nil)
}
