import GRDB
import TestSupport
import Testing

@testable import PersistentHistory

/// To SQLite, texts are bytes; to Swift, two that have the same canonical form are equal.
@Suite struct BinaryTextTests {
    /// One character, and two, which look the same.
    private static let (one, two) = ("caf\u{e9}", "cafe\u{301}")
    /// Of the same length in bytes.
    private static let (angstrom, decomposed) = ("\u{212b}", "A\u{30a}")

    @Test func textsAreComparedAsBytes() {
        #expect(Self.one == Self.two)
        #expect(!Self.one.hasSameBytes(as: Self.two) && !Self.angstrom.hasSameBytes(as: Self.decomposed))
        #expect(Self.two.hasSameBytes(as: String(decoding: Array(Self.two.utf8), as: UTF8.self)))
        #expect("".hasSameBytes(as: "") && !"".hasSameBytes(as: "a"))
        #expect(BinaryText(Self.one) != BinaryText(Self.two) && BinaryText(Self.two) < BinaryText(Self.one))
        let names = [Self.one, Self.two, Self.angstrom, Self.decomposed, Self.one]
        let set = Set<BinaryText>(names: names)
        #expect(set.count == 4 && names.allSatisfy { set.contains($0) } && !set.contains("\u{c5}"))
        #expect(!set.contains(where: { $0.text.isEmpty }))
        #expect("historyd_\u{301}".hasBytePrefix("historyd_") && !"historyd_\u{301}".hasPrefix("historyd_"))
    }

    @Test func keysAreToldApart() throws {
        func entity(_ name: String, _ column: String = "id") -> Entity {
            Entity(
                shape: 1, name: name, columns: [.init(name: column, declaredType: "")], key: .column(column),
                preserved: [])
        }
        func object(_ text: String, _ column: String = "id") -> ObjectID {
            ObjectID(columns: [column], value: .text(text))
        }
        let (one, two) = (Self.one, Self.two)
        #expect(HistoryValue.text(one) != .text(two))
        #expect(
            Set([HistoryValue.text(one), .text(two), .invalidText(Array(one.utf8)), .text(one)]).count == 3)
        #expect(object(one) != object(two) && object("a", one) != object("a", two))
        #expect(Set([object(one), object(two), object(one)]).count == 2)
        #expect(entity(one) != entity(two) && entity("t", one) != entity("t", two))
        let urls = [one, two].compactMap { ObjectIDURL("x-history://\(StoreID.none)/t/t\($0)") }
        #expect(Set(urls).count == 2)
        #expect(Authorship(one, nil) != Authorship(two, nil) && Authorship("a", one) != Authorship("a", two))

        // A normalization of file names: each row goes, and one of another key comes.
        for (old, new) in [(one, two), (two, one)] {
            let changes = [(ChangeOperation.delete, old), (.insert, new)].map {
                HistoryChange(entity: entity("f"), operation: $0, objectID: object($1))
            }
            let transaction = HistoryTransaction(
                token: HistoryToken(store: .none, number: 2), author: nil, context: nil, processID: nil,
                timestamp: HistoryTimestamp(milliseconds: 0), changes: changes)
            let objects = ObjectIDNotification(transaction).objects
            #expect(objects.map(\.effect) == [.deleted, .inserted])
            #expect(objects.map(\.objectID) == [object(old), object(new)])
            var filter = HistoryFilter()
            (filter.authors, filter.entities) = ([BinaryText(old)], [BinaryText(old)])
            #expect(filter.accepts(Origin(Authorship(old, nil), timestamp: transaction.timestamp)))
            #expect(!filter.accepts(Origin(Authorship(new, nil), timestamp: transaction.timestamp)))
            #expect(filter.accepts(entity(old), .insert) && !filter.accepts(entity(new), .insert))
        }
        let rule = DeliveryRule(authors: [BinaryText(one)], deliversUnlisted: false)
        #expect(rule.covers(one) && !rule.covers(two))
        #expect(!rule.delivers(one, to: one) && rule.delivers(one, to: two))
    }

    /// A configuration may come back from an editor in another form.
    @Test func checkpointsAreToldApart() throws {
        let store = try GatekeeperStore()
        let state = try store.state()
        let (one, two) = (Self.one, Self.two)
        for (position, name) in [(1, one), (2, two)] as [(Int64, String)] {
            try state.cursors.save(Checkpoint(position: position, movedAt: .now), of: name)
            try state.feeds.begin(FeedID(consumer: two, context: name), at: position, nil)
        }
        #expect(try state.cursors.all().mapValues(\.position) == [BinaryText(one): 1, BinaryText(two): 2])
        #expect(try state.keepOnly([two]).haveSameBytes(as: [one]))
        #expect(try state.cursors.saved().keys.map(\.self) == [BinaryText(two)])
        #expect(try state.feeds.keepOnly([two], of: two).haveSameBytes(as: [one]))
        try state.close()
    }

    /// To `String`, a quote and an accent behind it are one character.
    @Test func quotesAreBytes() throws {
        let name = "a\"\u{301}b\"\"'\u{301}"
        let db = try DatabaseQueue()
        let made = try db.write { db in
            try db.execute(
                sql: "CREATE TABLE \(SQLText.name(name)) (x); INSERT INTO \(SQLText.name(name)) VALUES (1)")
            return try String.fetchOne(
                db, sql: "SELECT name FROM sqlite_schema WHERE name = \(SQLText.literal(name))")
        }
        #expect(try #require(made).hasSameBytes(as: name))
        let tokens = SQLTokens.tokens("\(SQLText.name(name)) \(SQLText.literal(name)) [\u{301}a] INSERT")
        #expect(tokens.map { $0.unquoted.hasSameBytes(as: name) } == [true, true, false, false])
        #expect(tokens[2].unquoted.hasSameBytes(as: "\u{301}a"))
        // As SQLite has it, no other letter than i is a small I.
        #expect(!SQLTokens.tokens("\u{131}nsert")[0].isWord("INSERT") && tokens[3].isWord("INSERT"))
        #expect(ColumnAffinity(declaredType: "\u{131}nt", isStrict: false) == .numeric)
        #expect(SQLText.cacheable("SELECT \(Self.angstrom)") != SQLText.cacheable("SELECT \(Self.decomposed)"))
    }

    /// Two tables, and two columns of each, whose names look the same.
    @Test func tablesAndColumnsAreToldApart() throws {
        let folder = try TemporaryFolder(inMemory: true)
        let path = folder.file("s.sqlite")
        let store = try DatabaseQueue(path: path)
        let (one, two) = (Self.one, Self.two)
        try store.write { db in
            for table in [one, two, "\u{c9}", "\u{e9}"] {
                try db.execute(
                    sql: "CREATE TABLE \"\(table)\" (id TEXT PRIMARY KEY NOT NULL, \"\(one)\", \"\(two)\")")
            }
        }
        let preserved: [BinaryText: [String]?] = [BinaryText(one): [one], BinaryText(two): [two]]
        #expect(try Tracking.track(path, preserved, all: true).added.count == 4)
        try store.write { db in
            try db.execute(sql: "INSERT INTO \"\(one)\" VALUES ('\(one)', 1, 1), ('\(two)', 2, 2)")
            try db.execute(sql: "INSERT INTO \"\(two)\" VALUES ('\(one)', 3, 3)")
            try db.execute(sql: "UPDATE \"\(one)\" SET \"\(two)\" = 5 WHERE id = '\(two)'")
            try db.execute(sql: "DELETE FROM \"\(two)\"")
        }
        #expect(try Tracking.track(path, preserved, all: true).isEmpty)
        let reader = try HistoryReader(path: path)
        let changes = try reader.batch(after: 0, changes: .max).transactions.flatMap(\.changes)
        try reader.close()
        let names = [one, one, two, one, two]
        #expect(changes.map(\.entity.name).haveSameBytes(as: names))
        #expect(changes.map(\.objectID.values) == [one, two, one, two, one].map { [.text($0)] })
        #expect(changes[3].changedProperties.haveSameBytes(as: [two]))
        let tombstone = try #require(changes[4].tombstone)
        #expect(tombstone.attributes == [BinaryText(two): "3"])
        let described = try StoreDescription(path: path).entities
        #expect(described.map { BinaryText($0.name) } == [two, "\u{c9}", "\u{e9}", one].asBinary.sorted())
        #expect(described.first { $0.name.hasSameBytes(as: one) }?.changes == 3)
        // No other letters than those of ASCII have two cases.
        #expect(try Tracking.untrack(path, ["\u{c9}"]).haveSameBytes(as: ["\u{c9}"]))
        #expect(try Tracking.untrack(path, [two.uppercased()], purging: true).haveSameBytes(as: [two]))
        #expect(
            try StoreDescription(path: path).entities.map { BinaryText($0.name) } == [
                BinaryText(one), "\u{e9}",
            ])
    }
}
