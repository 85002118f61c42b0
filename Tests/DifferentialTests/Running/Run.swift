import GRDBSQLite
import Glibc
@testable import PersistentHistory

/// Runs a case on a tracked store and on its untracked twin, and compares all the way.
struct Run {
    struct Failure: Error, CustomStringConvertible {
        enum Kind: String {
            /// The application's own statements came out differently.
            case twin
            /// The history does not say what happened.
            case history
            /// Something is left of tracking, or something of the application's is gone.
            case untracking
            /// The library reports an error.
            case error
        }

        let kind: Kind
        let description: String
    }

    /// A statement took more steps than a case may: no finding, and the rest is left out.
    private struct TooMuch: Error {}

    let specimen: Case
    let tracked: Subject
    let twin: Subject
    private let reader: HistoryReader
    /// Takes most transactions for large ones.
    private let partReader: HistoryReader
    private let replica: FollowingReplica
    var shapes: [TableShape]
    var oracle: Oracle
    private(set) var authors: [Case.Writer: Oracle.Author] = [
        .first: .init(name: "First", context: nil), .second: .init(name: "Second", context: "sync"),
        .attaching: .init(name: "Attaching", context: nil),
    ]
    var snapshot: Snapshot
    /// What there is by the history.
    var objects: Set<ObjectKey> = []
    private var recorded: [HistoryTransaction] = []
    private var place: Int64 = 0
    private var dataVersion: [[Cell]]?
    /// Tables of which a change may be missing in the history. Only their rows in the replica are compared.
    var lacking: Set<BinaryText> = []
    /// Those of them with a newer trigger of the application, until tracking is brought up to date.
    var skipped: Set<BinaryText> = []
    /// Tables whose rows a TEMP trigger may have kept unrecorded, without a notice.
    private var forgotten: Set<BinaryText> = []
    /// Those of which it does so where it meets a conflict, by writer.
    private var mayFail: [Case.Writer: Set<BinaryText>] = [:]
    /// Whether a writer has no extension as yet.
    private var isUnloaded: Bool
    /// Writers that loaded it within the transaction that they have open.
    private var loadedAmid: Set<Case.Writer> = []
    /// Whether the twin has gone another way, as the contract allows in one case.
    var hasParted = false
    /// Whether that would be allowed, for the order in which rows were visited.
    private var mayDiffer = false
    /// Writers whose `changes()` may be an older statement's on one side: see `isKeptFromTheSchema`.
    private var withOlderChanges: Set<Case.Writer> = []
    /// The statements of each writer's transaction under way.
    private(set) var underWay: [Case.Writer: [SQL]] = [:]

    /// - Returns: What is wrong; nil where nothing is.
    static func failure(_ specimen: Case, in folder: String) -> Failure? {
        let path = folder + "/case-\(specimen.seed)"
        defer {
            for store in ["tracked", "twin"] {
                for suffix in ["", "-own", "-replica"] {
                    for part in ["", "-wal", "-shm", "-journal"] { unlink("\(path).\(store)\(suffix)\(part)") }
                }
            }
        }
        var untracked: Subject?
        // What the application's own statements come to where the twin has gone another way.
        var parted: Subject?
        do {
            let tracked = try Subject(path + ".tracked", specimen, isTracked: true)
            let twin = try Subject(path + ".twin", specimen, isTracked: false)
            untracked = twin
            let schema = try tracked.schema()
            guard try !TableShape.all(tracked.observer).isEmpty else { return nil }
            var run = try Run(specimen, tracked, twin)
            defer { if run.hasParted { parted = tracked } }
            try run.run()
            try run.finish()
            if specimen.later.isEmpty, !specimen.isAltered {
                try run.untrack(expecting: schema)
            } else {
                try run.untrack(expecting: nil)
            }
            return nil
        } catch is TooMuch {
            return nil
        } catch let error as Connection.Failure {
            // A table that nobody can read: so is the twin's.
            let isReadable =
                (try? untracked.map { twin in
                    try TableShape.all(twin.observer).map { try $0.rows(twin.observer, withRowids: true) }
                }) != nil
            return isReadable ? Failure(kind: .error, description: "\(error)") : nil
        } catch {
            let failure = error as? Failure ?? Failure(kind: .error, description: "\(error)")
            do {
                let isSound = try untracked?.isSound != false && parted?.isSound != false
                return isSound ? failure : nil
            } catch {
                return failure
            }
        }
    }

    private init(_ specimen: Case, _ tracked: Subject, _ twin: Subject) throws {
        self.specimen = specimen
        self.tracked = tracked
        self.twin = twin
        shapes = try TableShape.all(tracked.observer)
        let every = specimen.settings.preservesEvery
        var preserved: [BinaryText: [BinaryText]] = [:]
        for table in shapes {
            preserved[table.name] = table.columns.enumerated().filter { every > 0 && $0.offset % every == 0 }
                .map(\.element)
        }
        oracle = Oracle(
            tables: Dictionary(uniqueKeysWithValues: shapes.map { ($0.name, $0) }), preserved: preserved,
            cascades: specimen.settings.foreignKeys,
            hasTriggers: specimen.hasTriggers)
        isUnloaded = specimen.settings.loadsLate
        oracle.note(try Tracking.track(tracked.path, preserved.mapValues { $0.map(\.text) }))
        try twin.keepRowids()
        for sql in specimen.later {
            _ = tracked.observer.run(sql.text)
            _ = twin.observer.run(sql.text)
        }
        if !specimen.later.isEmpty { oracle.note(try Tracking.refresh(tracked.path)) }
        snapshot = try Snapshot(shapes, tracked.observer) ?? Snapshot()
        reader = try HistoryReader(path: tracked.path, timeout: .zero)
        partReader = try HistoryReader(path: tracked.path, timeout: .zero, partSize: 3)
        replica = FollowingReplica(of: tracked.path)
        try tracked.connect(specimen.settings)
        try twin.connect(specimen.settings)
        for (writer, author) in authors {
            _ = try tracked.writer(writer).run(declaration(author.name.text, author.context?.text))
        }
    }

    private func declaration(_ author: String?, _ context: String?) -> String {
        "SELECT history_author(\(author.map { "'\($0)'" } ?? "NULL"), \(context.map { "'\($0)'" } ?? "NULL"))"
    }

    private mutating func run() throws {
        for step in specimen.steps {
            switch step {
            case .declare(.plain, _, _) where isUnloaded: break
            case .declare(let writer, let author, let context):
                let outcome = try tracked.writer(writer).run(declaration(author, context))
                if outcome.succeeded {
                    authors[writer] = author.map {
                        Oracle.Author(name: BinaryText($0), context: context.map { BinaryText($0) })
                    }
                } else if underWay[writer] == nil {
                    throw Failure(kind: .history, description: "an author was refused: \(outcome.message)")
                }
            case .load(let writer):
                guard isUnloaded else { break }
                try tracked.writer(writer).installHistory()
                isUnloaded = false
                if underWay[writer] != nil { loadedAmid.insert(writer) }
            case .temporary(let writer, let trigger):
                try run(trigger.sql, writer)
                let table = BinaryText(trigger.table)
                if trigger.skips { forgotten.insert(table) }
                if trigger.mayFail { mayFail[writer, default: []].insert(table) }
            case .sql(let writer, let sql): try run(sql, writer)
            case .alter(let alteration): try alter(alteration)
            case .refresh: try refresh()
            }
        }
    }

    private mutating func run(_ sql: SQL, _ writer: Case.Writer) throws {
        var outcome = try tracked.writer(writer).run(sql.text)
        var expected = hasParted ? outcome : try twin.writer(writer).run(sql.text)
        // Three of SQLite's own: VACUUM leaves the number of something it copied, and an INSERT that a
        // foreign key refuses at its end, as it is with triggers, that of the row it had inserted. And where a row
        // refers to itself, RETURNING may show what it refers to by the affinity of the column that refers.
        if sql.text.hasPrefix("VACUUM") || outcome.violatesForeignKey {
            for store in [tracked, twin] { try store.writer(writer).forgetLastInsert() }
            (outcome.lastInsertRowid, expected.lastInsertRowid) = (0, 0)
        }
        if specimen.schema.contains(where: \.refersToItself),
            outcome.rows.map({ $0.map(\.asNumber) }) == expected.rows.map({ $0.map(\.asNumber) })
        {
            expected.rows = outcome.rows
        }
        guard !outcome.wasTooMuch, !expected.wasTooMuch else { throw TooMuch() }
        if !outcome.succeeded, sql.text.contains("OR FAIL") {
            forgotten.formUnion(mayFail[writer] ?? [])
        }
        if outcome.wasRaised { lacking.formUnion(oracle.mayLack) }
        if sql.changesRows, outcome.succeeded, expected.succeeded { withOlderChanges.remove(writer) }
        if withOlderChanges.contains(writer) { (outcome.changes, expected.changes) = (0, 0) }
        if dependsOnOrder(sql) { mayDiffer = true }
        if outcome != expected, mayDiffer || isAllowed(outcome, expected) { hasParted = true }
        if try outcome.succeeded && expected.violatesForeignKey && hasDanglingRows(writer) { hasParted = true }
        // What the statement did before the error is not taken back without triggers.
        if outcome.violatesType || outcome.failsToCompute, outcome.isInTransaction { hasParted = true }
        if outcome != expected, !hasParted {
            guard isKeptFromTheSchema(outcome, expected) else {
                throw Failure(
                    kind: .twin, description: "\(sql.text)\n  tracked: \(outcome)\n  twin:    \(expected)")
            }
            withOlderChanges.insert(writer)
        }
        underWay[writer, default: []].append(sql)
        guard !outcome.isInTransaction else { return }
        let statements = underWay.removeValue(forKey: writer) ?? []
        try compare(statements, by: authors[writer], beginsUndeclared: loadedAmid.remove(writer) != nil)
    }

    /// Whether the twin has rows that refer to no key, as an UPSERT may leave them. With triggers SQLite counts a row
    /// that one of them comes to refer to against one that refers to no key itself.
    private func hasDanglingRows(_ writer: Case.Writer) throws -> Bool {
        try !twin.writer(writer).run("PRAGMA foreign_key_check").rows.isEmpty
    }

    /// Whether it may matter in which order rows are visited: with triggers an UPDATE visits them by
    /// their keys, whatever index finds them.
    private func dependsOnOrder(_ sql: SQL) -> Bool {
        guard sql.head.hasPrefix("UPDATE ") else { return false }
        let plan = twin.observer.run("EXPLAIN QUERY PLAN \(sql.text)").rows
        return plan.contains { "\($0)".contains(" INDEX ") }
    }

    /// Whether a statement that fails anyway fails for a lock: an update of the tracking is a change of the
    /// schema, which a connection reads again, and cannot while another has the store to itself. What is
    /// not even compiled leaves `changes()` as it was. Nor can it read an index of a function that is not allowed where
    /// the schema is not trusted.
    private func isKeptFromTheSchema(_ outcome: Connection.Outcome, _ expected: Connection.Outcome) -> Bool {
        (outcome.code & 0xff == SQLITE_BUSY
            || outcome.code & 0xff == SQLITE_CORRUPT && expected.message.contains("unsafe use of"))
            && !expected.succeeded && outcome.isInTransaction == expected.isInTransaction
    }

    /// Where SQLite itself does otherwise as soon as a table has triggers; what follows cannot be
    /// compared.
    ///
    /// - A value of a type that the column refuses: in a STRICT table other constraints go first.
    /// - A foreign key of a table to itself: REPLACE overlooks without triggers that it is violated, or
    ///   says with any UPDATE trigger that it is where it is not. With any INSERT trigger a statement that a FAIL
    ///   ends as well reports the foreign key.
    /// - A foreign key that refers to no key, as after the key was renamed: an INSERT of one row without
    ///   triggers overlooks that, and may still report a foreign key of the row's own.
    /// - A function that is not allowed in a schema that is not trusted: without triggers SQLite need not compute
    ///   it to empty a table, or to update a column that the index does not have.
    /// - REPLACE with recursive triggers: an updated row may be in its own way; and with any DELETE trigger, what
    ///   a foreign key's action does to the table of a replaced row is an error while an UPDATE is in it.
    private func isAllowed(_ outcome: Connection.Outcome, _ expected: Connection.Outcome) -> Bool {
        outcome.violatesType || outcome.message.contains("unsafe use of")
            || outcome.message.hasPrefix("foreign key mismatch")
                && (expected.succeeded || expected.violatesForeignKey)
            || specimen.settings.recursiveTriggers
                && (outcome.violatesUniqueness && !expected.violatesUniqueness || outcome.meetsPinnedRow)
            || outcome.violatesForeignKey && specimen.schema.contains(where: \.refersToItself)
    }

    /// Compares, if something was committed.
    mutating func compare(
        _ statements: [SQL], by author: Oracle.Author?, dropping table: BinaryText? = nil,
        beginsUndeclared: Bool = false
    ) throws {
        let lacking = lacking.union(forgotten)
        guard let version = try tracked.observer.rows("PRAGMA data_version"), version != dataVersion,
            let after = try Snapshot(shapes, tracked.observer)
        else { return }
        dataVersion = version
        if mayDiffer, !hasParted, try Snapshot(shapes, twin.observer) != after { hasParted = true }
        if !hasParted, try Snapshot(shapes, twin.observer) != after {
            throw Failure(
                kind: .twin, description: "the tables differ after \(statements.last?.text ?? "nothing")")
        }
        var transactions: [HistoryTransaction] = []
        let start = place
        while true {
            let batch = try reader.batch(after: place)
            // What was altered may have gone unrecorded, and says so; the oracle looks at the rows.
            transactions += batch.transactions.filter(\.recreated.isEmpty)
            place = batch.end
            if batch.isLast { break }
        }
        recorded += transactions
        if specimen.seed % 8 == 2 || specimen.seed % 8 == 4,
            let problem = try FeedJudge.compareParts(of: transactions, after: start, partReader)
        {
            throw Failure(
                kind: .history, description: "after \(statements.last?.text ?? "nothing"): \(problem)")
        }
        if let table { transactions = oracle.leaveOut(table, of: transactions) }
        // Of what RAISE(FAIL) ended, not all may be recorded: `track` has said of which tables. Known rows have it
        // recorded later.
        var (before, known) = (snapshot, after)
        for table in lacking {
            transactions = oracle.leaveOut(table, of: transactions)
            (before, known) = (before.without(table), known.without(table))
        }
        if let problem = oracle.judge(
            transactions, by: author, before: before, after: known, exact: isExact(statements),
            beginsUndeclared: beginsUndeclared)
        {
            throw Failure(
                kind: .history, description: "after \(statements.last?.text ?? "nothing"): \(problem)")
        }
        objects = oracle.objects(objects, after: transactions)
        if !lacking.isEmpty {
            objects = objects.filter { !lacking.contains($0.table) }
                .union(after.rows.keys.filter { lacking.contains($0.table) })
        }
        snapshot = after
        if specimen.seed % 4 == 0 { try replica.follow() }
    }

    /// One plain UPDATE that writes no row twice, in a schema where nothing else writes.
    private func isExact(_ statements: [SQL]) -> Bool {
        guard statements.count == 1, let head = statements.first?.head, head.hasPrefix("UPDATE ") else {
            return false
        }
        let schema = specimen.schema
        // A virtual REAL column's value is converted only when it is stored.
        return !specimen.isAltered && !schema.contains { $0.text.contains(" REAL AS ") }
            && !head.contains("REPLACE") && !specimen.settings.foreignKeys
            && !schema.contains { $0.text.contains("REPLACE") } && !specimen.hasTriggers
    }

    /// Ends what is open, and reads the whole history once more.
    private mutating func finish() throws {
        for writer in Case.Writer.allCases where try tracked.writer(writer).isInTransaction {
            try run(SQL("ROLLBACK"), writer)
        }
        var whole: [HistoryTransaction] = []
        var place: Int64 = 0
        while true {
            // In small steps, which split no declared transaction.
            let batch = try reader.batch(after: place, changes: 7)
            whole += batch.transactions.filter(\.recreated.isEmpty)
            place = batch.end
            if batch.isLast { break }
        }
        guard normal(whole) == normal(recorded) else {
            throw Failure(
                kind: .history, description: "read at once, transactions are split or joined otherwise")
        }
        guard objects == Set(snapshot.rows.keys) else {
            throw Failure(kind: .history, description: "a copy made from the history differs from the store")
        }
        try reader.close()
        try partReader.close()
        // Tables have other names by now.
        if specimen.isAltered { try refresh() }
        try replica.follow()
        try replica.close()
        // A rowid beside a key is no column: a change of it is not recorded.
        let shapes = shapes.filter { !forgotten.contains($0.name) }
        let copy = try Snapshot(shapes, Connection(replica.path), withRowids: false)
        let original = try Snapshot(shapes, tracked.observer, withRowids: false) ?? Snapshot()
        guard copy == original else {
            throw Failure(
                kind: .history,
                description:
                    "the replica differs from the store:\n  \(copy.map { $0.difference(from: original) } ?? "locked")"
            )
        }
    }

    /// Transactions as one may rely on them.
    private struct Group: Equatable {
        /// Nil for undeclared changes.
        let token: HistoryToken?
        let author: BinaryText?
        let context: BinaryText?
        var changes: [HistoryChange]
    }

    /// Undeclared transactions that touch each other count as one: they may be grouped either way.
    private func normal(_ transactions: [HistoryTransaction]) -> [Group] {
        var groups: [Group] = []
        for transaction in transactions {
            let isDeclared = transaction.author != nil
            if !isDeclared, let last = groups.last, last.author == nil {
                groups[groups.count - 1].changes += transaction.changes
            } else {
                groups.append(
                    Group(
                        token: isDeclared ? transaction.token : nil,
                        author: transaction.author.map { BinaryText($0) },
                        context: transaction.context.map { BinaryText($0) }, changes: transaction.changes))
            }
        }
        return groups
    }

    private func untrack(expecting schema: [[Cell]]?) throws {
        tracked.disconnect()
        twin.disconnect()
        try Tracking.untrack(tracked.path)
        let expected = try schema ?? twin.schema().filter { !"\($0[1])".hasPrefix("'twin ") }
        let present = try tracked.observer.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema") ?? []
        guard present == expected || hasParted && specimen.isAltered else {
            throw Failure(
                kind: .untracking, description: "the schema is\n\(present)\nand should be\n\(expected)")
        }
        let check = "PRAGMA integrity_check"
        guard try hasParted || tracked.observer.rows(check) == twin.observer.rows(check) else {
            throw Failure(kind: .untracking, description: "the integrity check fails")
        }
    }
}
