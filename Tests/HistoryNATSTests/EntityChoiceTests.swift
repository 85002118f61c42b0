import Foundation
import GRDB
import HistoryNATS
import TestSupport
import Testing

@testable import HistoryMirrors
@testable import PersistentHistory

/// A store, and a mirror of it that has some of its tables, chosen at one of the ends or at both.
private final class ChosenPair {
    let source: MirrorSource
    private(set) var mirror: Mirror
    private let path: String
    private let here: EntityChoice
    private var schema: MirrorSchema?
    /// Everything that would have left the source's machine.
    private(set) var sent: [UInt8] = []

    init(_ store: String, _ path: String, publishing: EntityChoice, following: EntityChoice) throws {
        self.path = path
        here = following
        source = try MirrorSource(
            store, spoolingIn: (path as NSString).deletingLastPathComponent, entities: publishing)
        mirror = try Mirror(path, of: "test", entities: following)
    }

    func restart() throws {
        try mirror.close()
        mirror = try Mirror(path, of: "test", entities: here)
        #expect(!mirror.hasOtherEntities)
    }

    fileprivate func apply(_ group: MirrorSource.Group, isSnapshot: Bool) throws {
        let bytes = try group.body.bytes(at: 0, atMost: .max >> 1)
        sent += bytes
        var rest: [UInt8]? = bytes
        try mirror.apply(
            {
                defer { rest = nil }
                return rest
            }, isSnapshot: isSnapshot,
            to: MirrorPosition(
                store: group.store, epoch: 1, position: group.through, sequence: 1, messageID: "s/1"))
        schema = group.schema
    }

    func refill() throws { try apply(try source.snapshot(), isSnapshot: true) }

    func follow() throws {
        guard let position = mirror.position else { return try refill() }
        switch try source.next(after: position.position, of: position.store, knowing: schema) {
        case .nothing: return
        case .group(let group): try apply(group, isSnapshot: false)
        case .lost(let loss): Issue.record("The source is \(loss).")
        }
    }
}

@Suite("Chosen tables")
struct EntityChoiceTests {
    private static let chosen = ["note", "Person"]

    private static let schema = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE);
        CREATE TABLE note (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID;
        CREATE TABLE hidden (hidden_id INTEGER PRIMARY KEY, hidden_value);
        CREATE TABLE other_hidden (k TEXT PRIMARY KEY, v);
        CREATE INDEX person_name ON person (name);
        CREATE INDEX hidden_index ON hidden (hidden_value);
        """

    private func statement(_ random: inout SplitMix) -> String {
        let n = Int.random(in: 1...12, using: &random)
        switch Int.random(in: 0..<10, using: &random) {
        case 0...1: return "INSERT OR REPLACE INTO person VALUES (\(n), 'name \(n)', \(n % 5))"
        case 2: return "UPDATE OR IGNORE person SET id = id + 1 WHERE id = \(n)"
        case 3: return "DELETE FROM person WHERE id > \(n)"
        case 4: return "INSERT OR REPLACE INTO note (code, n, v) VALUES ('k', \(n), randomblob(3))"
        case 5: return "DELETE FROM note WHERE n = \(n)"
        case 6...7: return "INSERT OR REPLACE INTO hidden (hidden_id, hidden_value) VALUES (\(n), 'hidden')"
        case 8: return "DELETE FROM hidden WHERE hidden_id = \(n)"
        default: return "INSERT OR REPLACE INTO other_hidden VALUES ('hidden \(n)', 1)"
        }
    }

    private func change(of schema: inout Int, _ random: inout SplitMix) -> String {
        schema += 1
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return "ALTER TABLE note ADD COLUMN c\(schema)"
        case 1: return "ALTER TABLE hidden ADD COLUMN hidden_c\(schema)"
        case 2:
            return """
                DROP TABLE note; CREATE TABLE note (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID;
                INSERT INTO note VALUES ('unrecorded', \(schema), 1)
                """
        case 3:
            return """
                DROP TABLE other_hidden; CREATE TABLE other_hidden (k TEXT PRIMARY KEY, v);
                INSERT INTO other_hidden VALUES ('hidden', \(schema))
                """
        case 4: return "CREATE INDEX note_\(schema) ON note (v)"
        // A table gets a name that is chosen, and the one that had it another.
        default:
            return """
                ALTER TABLE person RENAME TO hidden_\(schema);
                CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE)
                """
        }
    }

    private func dump(_ db: Database) throws -> [String: [String]] {
        var dump: [String: [String]] = [:]
        let isChosen = "lower(tbl_name) IN ('person', 'note')"
        let names = try String.fetchAll(
            db, sql: "SELECT name FROM sqlite_schema WHERE type = 'table' AND \(isChosen)")
        for name in names {
            let columns = try String.fetchAll(
                db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [name])
            let list = columns.map { "quote(\"\($0)\")" }.joined(separator: " || '|' || ")
            dump[name] = try String.fetchAll(db, sql: "SELECT \(list) FROM \"\(name)\" ORDER BY 1")
        }
        dump["sql"] = try String.fetchAll(
            db,
            sql: """
                SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND \(isChosen)
                AND name NOT LIKE 'historyd_%' ORDER BY 1
                """)
        dump["history"] = try String.fetchAll(
            db,
            sql: """
                SELECT id || quote(origin) || kind || quote(object) || quote(detail) FROM historyd_change
                JOIN historyd_entity ON shape = kind >> 2 AND lower(name) IN ('person', 'note') AND kind & 3 <> 3
                ORDER BY id
                """)
        dump["end"] = try String.fetchAll(db, sql: "SELECT max(id) FROM historyd_change")
        return dump
    }

    @Test(
        "For random histories the mirror is what was chosen of the source, and nothing else leaves it",
        arguments: 0..<12)
    func property(seed: Int) throws {
        var random = SplitMix(state: UInt64(seed))
        let folder = try TemporaryFolder()
        let store = folder.file("source.sqlite")
        var configuration = Configuration()
        configuration.foreignKeysEnabled = false
        let writer = try DatabaseQueue(path: store, configuration: configuration)
        func write(_ sql: String) throws { try writer.writeWithoutTransaction { try $0.execute(sql: sql) } }
        try write("PRAGMA journal_mode = wal;" + Self.schema)
        try Tracking.track(store, [:], all: true)
        let choice = EntityChoice(Self.chosen)
        let pairs = try [(choice, EntityChoice.all), (.all, choice), (choice, choice)].enumerated().map {
            try ChosenPair(
                store, folder.file("mirror\($0.offset).sqlite"), publishing: $0.element.0,
                following: $0.element.1)
        }
        var schema = 0
        for step in 0..<40 {
            if Int.random(in: 0..<6, using: &random) == 0 {
                try write(change(of: &schema, &random))
                try Tracking.track(store, [:], all: true)
            }
            let statements = (0...Int.random(in: 0..<3, using: &random)).map { _ in statement(&random) }
            // A schema without a change behind it is not published yet.
            try write(
                "BEGIN; INSERT OR REPLACE INTO hidden (hidden_id, hidden_value) VALUES (0, \(step));"
                    + statements.joined(separator: ";") + ";COMMIT")
            for (index, pair) in pairs.enumerated() {
                switch Int.random(in: 0..<12, using: &random) {
                case 0: try pair.refill()
                case 1: try pair.restart()
                default: break
                }
                try pair.follow()
                let (expected, found) = (
                    try writer.read(dump),
                    try DatabaseQueue(path: folder.file("mirror\(index).sqlite")).read(dump)
                )
                #expect(found == expected, "mirror \(index), step \(step), of \(seed)")
                try DatabaseQueue(path: folder.file("mirror\(index).sqlite")).read { db in
                    let others = try String.fetchAll(
                        db, sql: "SELECT name FROM sqlite_schema WHERE tbl_name LIKE '%hidden%'")
                    let marks = try Int.fetchOne(
                        db, sql: "SELECT count(*) FROM historyd_change WHERE detail IS 'passed over'")
                    #expect(others == [] && (marks ?? 0) <= 1, "mirror \(index), step \(step), of \(seed)")
                    // An old name of a table that was chosen is part of its history.
                    if index > 0 { return }
                    #expect(
                        try Int.fetchOne(
                            db, sql: "SELECT count(*) FROM historyd_entity WHERE name LIKE '%hidden%'") == 0)
                }
            }
        }
        for index in [0, 2] {
            let sent = String(decoding: pairs[index].sent, as: UTF8.self)
            #expect(!sent.contains("hidden"), "of \(seed)")
        }
        // It can fail: the one that chooses at the follower gets everything.
        #expect(String(decoding: pairs[1].sent, as: UTF8.self).contains("hidden"))
    }

    @Test(
        "Another history, of a source that was restored, is not taken for what the mirror left out",
        arguments: [false, true])
    func otherHistory(isRestored: Bool) throws {
        let folder = try TemporaryFolder()
        let store = folder.file("source.sqlite")
        let writer = try DatabaseQueue(path: store)
        func write(_ sql: String) throws { try writer.writeWithoutTransaction { try $0.execute(sql: sql) } }
        try write("PRAGMA journal_mode = wal;" + Self.schema)
        try Tracking.track(store, [:], all: true)
        let pair = try ChosenPair(
            store, folder.file("mirror.sqlite"), publishing: .all, following: EntityChoice(["person"]))
        try pair.refill()
        let before = try #require(pair.mirror.position)
        try write("INSERT INTO hidden VALUES (1, 1)")
        try pair.follow()
        if isRestored {
            try write(
                "DELETE FROM historyd_change WHERE id > \(before.position.number); DELETE FROM hidden;"
                    + "INSERT INTO person VALUES (1, 'other', 'x')")
            try write("UPDATE historyd_change SET origin = origin + 1 WHERE id > \(before.position.number)")
        }
        try write("INSERT INTO person VALUES (2, 'next', 'y')")
        // The server was set back as well: the group begins before the mirror's position.
        let group = try pair.source.group(after: before)
        guard isRestored else { return try pair.apply(group, isSnapshot: false) }
        expectNeedOfSnapshot { try pair.apply(group, isSnapshot: false) }
    }

    @Test("A mirror with another list goes on from a snapshot; a list in other words is the same")
    func otherList() throws {
        let folder = try TemporaryFolder()
        let store = folder.file("source.sqlite")
        let writer = try DatabaseQueue(path: store)
        try writer.writeWithoutTransaction { try $0.execute(sql: Self.schema) }
        try Tracking.track(store, [:], all: true)
        let path = folder.file("mirror.sqlite")
        func pair(_ names: [String]?) throws -> ChosenPair {
            try ChosenPair(store, path, publishing: .all, following: EntityChoice(names))
        }
        func tables() throws -> [String] {
            try DatabaseQueue(path: path).read { db in
                try String.fetchAll(
                    db,
                    sql:
                        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd_%' ORDER BY 1"
                )
            }
        }
        let first = try pair(["person"])
        #expect(!first.mirror.hasOtherEntities)
        try first.refill()
        #expect(try tables() == ["person"] && first.mirror.missingEntities.isEmpty)
        try first.mirror.close()
        for (names, isOther) in [(["PERSON"], false), (["note", "person"], true), (nil, true)] {
            let next = try pair(names)
            #expect(next.mirror.hasOtherEntities == isOther, "\(names ?? [])")
            try next.mirror.close()
        }
        let next = try pair(["person", "nothing"])
        try next.refill()
        #expect(!next.mirror.hasOtherEntities && next.mirror.missingEntities == ["nothing"])
    }

    @Test("A publisher with another list begins a new epoch")
    func newEpoch() throws {
        let digest = try EntityChoice(["a"]).digest
        #expect(try EntityChoice(["b"]).digest != digest && EntityChoice(["A"]).digest == digest)
        let position = StreamPosition(number: 5, fingerprint: nil, schema: "s")
        var header = GroupHeader(
            .begin, store: "a5e3d0d6-6f43-4c1e-9d52-6f2c6a3f6a10", epoch: 7, after: position, through: position)
        header.source.entities = digest
        let fields = Dictionary(uniqueKeysWithValues: header.fields.map { ($0.name, $0.value) })
        let read = try GroupHeader { fields[$0] }
        #expect(read.source.entities == digest)
        func decision(_ entities: String?) -> PublishDecision {
            let known = PublishDecision.Known(last: read, head: nil, memory: nil)
            return PublishDecision(known, of: .init(entities: entities), at: 100) { _, _ in nil }
        }
        #expect(decision(digest) == .goOn(epoch: 7, after: position))
        for other in [nil, try EntityChoice(["b"]).digest] {
            guard case .startOver(epoch: 100, _) = decision(other) else {
                Issue.record("\(decision(other))")
                return
            }
        }
    }
}
