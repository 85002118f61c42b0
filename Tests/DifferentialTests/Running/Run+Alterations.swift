import PersistentHistory

/// The schema is altered, and later tracking is brought up to date.
extension Run {
    /// Where nobody has a transaction open: who is allowed to alter then is another question.
    mutating func alter(_ alteration: Alteration) throws {
        guard underWay.isEmpty else { return }
        // What is known of a table goes with its triggers.
        if alteration.endsRecording { try refresh() }
        let isAltered = try alter(alteration, tracked)
        let isTwinAltered = try alter(alteration, twin)
        // A connection that does not trust the schema cannot read one again that calls what is not innocuous.
        if isTwinAltered != isAltered, !specimen.settings.trustsSchema,
            specimen.schema.contains(where: { $0.text.contains("->>") || $0.text.contains("json_") })
        {
            hasParted = true
        }
        guard isTwinAltered == isAltered || hasParted else {
            throw Failure(
                kind: .twin,
                description:
                    "\(alteration.statements): only the \(isAltered ? "tracked" : "untracked") store was altered"
            )
        }
        guard isAltered else { return }
        if let table = alteration.droppedTable { try leaveOut(BinaryText(table)) }
        if case .createTrigger(_, let table, "AFTER", _, _) = alteration { skipped.insert(BinaryText(table)) }
        follow(alteration)
        lacking.formUnion(skipped)
        try readAnew()
        if alteration.endsRecording {
            try refresh()
            try twin.keepRowids()
        }
        try readSchemas()
    }

    /// A schema that was altered is read before the next statement is compiled; while another has a lock
    /// on it, that is what fails.
    private func readSchemas() throws {
        for subject in [tracked, twin] {
            for writer in Case.Writer.allCases {
                let schema = writer == .attaching ? "store" : "main"
                _ = try subject.writer(writer).run("SELECT count(*) FROM \(schema).sqlite_schema")
            }
        }
    }

    /// The rows that go with a table are no changes; what foreign keys do to others is, and what one to the
    /// table itself does to them before they go may be.
    private mutating func leaveOut(_ table: BinaryText) throws {
        shapes.removeAll { $0.name == table }
        snapshot = snapshot.without(table)
        objects = objects.filter { $0.table != table }
        try compare([SQL("DROP TABLE \(table)")], by: authors[.plain], dropping: table)
    }

    /// - Returns: Whether SQLite allowed it.
    private func alter(_ alteration: Alteration, _ subject: Subject) throws -> Bool {
        var statements = alteration.statements
        if subject.isTracked, let table = alteration.tableInTheWay {
            statements = try subject.ownTriggers(of: table).map { "DROP TRIGGER \($0)" } + statements
        }
        let writer = try subject.writer(.plain)
        for sql in ["BEGIN IMMEDIATE"] + statements + ["COMMIT"] {
            let outcome = writer.run(sql)
            if !outcome.succeeded {
                if writer.isInTransaction { try writer.execute("ROLLBACK") }
                return false
            }
        }
        return true
    }

    private mutating func follow(_ alteration: Alteration) {
        oracle.names.alter(alteration)
        switch alteration {
        case .renameColumn(let table, let from, let to):
            let (from, to) = (BinaryText(from), BinaryText(to))
            oracle.preserved[table] = oracle.preserved[table]?.map { $0 == from ? to : $0 }
        case .dropColumn(let table, let column):
            let (table, column) = (BinaryText(table), BinaryText(column))
            guard oracle.preserved[table]?.contains(column) == true else { break }
            oracle.preserved[table]?.removeAll { $0 == column }
            oracle.dropped[table, default: []].insert(column)
        case .renameTable(let from, let to):
            let (from, to) = (BinaryText(from), BinaryText(to))
            oracle.preserved[to] = oracle.preserved.removeValue(forKey: from)
            oracle.dropped[to] = oracle.dropped.removeValue(forKey: from)
            if oracle.mayLack.remove(from) != nil { oracle.mayLack.insert(to) }
            if lacking.remove(from) != nil { lacking.insert(to) }
            if skipped.remove(from) != nil { skipped.insert(to) }
            objects = Set(objects.map { $0.table == from ? $0.moved(to: to) : $0 })
        case .addColumn, .dropTable, .makeAnew, .createTrigger: break
        }
    }

    /// The same rows, as the tables show them now.
    private mutating func readAnew() throws {
        shapes = try TableShape.all(tracked.observer)
        oracle.tables = Dictionary(uniqueKeysWithValues: shapes.map { ($0.name, $0) })
        guard let now = try Snapshot(shapes, tracked.observer) else {
            throw Connection.Failure(description: "A lock that nobody can have.")
        }
        snapshot = now
    }

    mutating func refresh() throws {
        guard underWay.isEmpty else { return }
        oracle.note(try Tracking.refresh(tracked.path))
        // From here on everything is recorded again; what was not, the replica has by the notice.
        lacking.subtract(skipped.subtracting(oracle.mayLack))
        skipped = []
        oracle.names = KnownNames()
        for shape in shapes {
            oracle.preserved[shape.name] = shape.columns.filter {
                oracle.preserved[shape.name]?.contains($0) == true
                    || oracle.dropped[shape.name]?.contains($0) == true
            }
        }
        try readSchemas()
    }
}
