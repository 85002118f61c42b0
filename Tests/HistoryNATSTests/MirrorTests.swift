import Foundation
import GRDB
import HistoryNATS
import TestSupport
import Testing

@testable import HistoryMirrors
@testable import PersistentHistory

/// A store, and a mirror of it, without a network between them.
private final class Pair {
    let folder: TemporaryFolder
    let source: MirrorSource
    let mirror: Mirror
    let writer: DatabaseQueue
    private var schema: MirrorSchema?

    init(_ sql: String, journal: String = "wal") throws {
        folder = try TemporaryFolder()
        var configuration = Configuration()
        configuration.acceptsDoubleQuotedStringLiterals = true
        configuration.foreignKeysEnabled = false
        writer = try DatabaseQueue(path: folder.file("source.sqlite"), configuration: configuration)
        try writer.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = \(journal);" + sql) }
        try Tracking.track(folder.file("source.sqlite"), [:], all: true)
        source = try MirrorSource(folder.file("source.sqlite"), spoolingIn: folder.path)
        mirror = try Mirror(folder.file("mirror.sqlite"), of: "test")
    }

    func write(_ sql: String) throws {
        try writer.writeWithoutTransaction { try $0.execute(sql: sql) }
    }

    func position(_ group: MirrorSource.Group) -> MirrorPosition {
        MirrorPosition(store: group.store, epoch: 1, position: group.through, sequence: 1, messageID: "s/1")
    }

    func snapshot() throws {
        let group = try source.snapshot()
        try mirror.apply(group.body.chunks(), isSnapshot: true, to: position(group))
        schema = group.schema
    }

    /// Brings what is new into the mirror.
    @discardableResult
    func follow() throws -> Bool {
        guard let position = mirror.position else { return false }
        guard
            case .group(let group) = try source.next(
                after: position.position, of: position.store, knowing: schema)
        else { return false }
        try mirror.apply(group.body.chunks(), isSnapshot: false, to: self.position(group))
        schema = group.schema
        return true
    }

    private func dump(_ path: String) throws -> [String: [String]] {
        let queue = try DatabaseQueue(path: path)
        return try queue.read { db in
            var dump: [String: [String]] = [:]
            let names = try String.fetchAll(
                db,
                sql: """
                    SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'historyd_%'
                    OR name IN ('historyd_entity', 'historyd_change')
                    """)
            for name in names {
                let columns = try String.fetchAll(
                    db, sql: "SELECT name FROM pragma_table_xinfo(?)", arguments: [name])
                let list = columns.map { "quote(\"\($0)\") || typeof(\"\($0)\") || hex(\"\($0)\")" }
                    .joined(separator: " || '|' || ")
                dump[name] = try String.fetchAll(db, sql: "SELECT \(list) FROM \"\(name)\" ORDER BY 1")
            }
            dump["sql"] = try String.fetchAll(
                db,
                sql: """
                    SELECT sql FROM sqlite_schema WHERE type IN ('table', 'index') AND sql IS NOT NULL
                    AND name NOT LIKE 'historyd_%' ORDER BY 1
                    """)
            return dump
        }
    }

    func expectEqual(_ location: SourceLocation = #_sourceLocation) throws {
        let (here, there) = (try dump(folder.file("source.sqlite")), try dump(folder.file("mirror.sqlite")))
        #expect(here == there, sourceLocation: location)
    }
}

@Suite("A mirror")
struct MirrorTests {
    private static let schema = """
        CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT, email TEXT UNIQUE, data);
        CREATE TABLE item (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID;
        CREATE TABLE loose (a, b);
        CREATE TABLE word (w TEXT PRIMARY KEY COLLATE NOCASE, length AS (length(w)));
        CREATE INDEX person_name ON person (name);
        INSERT INTO person VALUES (1, 'a', 'x', 1), (2, 'b', 'y', 2.0), (3, NULL, NULL, x'00ff');
        INSERT INTO item VALUES ('k', 1, 9e999), ('k', 1.5, -9e999), ('k', x'01', -0.0);
        INSERT INTO loose VALUES (CAST(x'ff00fe' AS TEXT), 'nul' || char(0) || 'inside'), (NULL, '"\\');
        INSERT INTO word VALUES ('One');
        """

    @Test(
        "It is the source, value by value, after a snapshot and after each group", arguments: ["wal", "delete"])
    func equal(journal: String) throws {
        let pair = try Pair(Self.schema, journal: journal)
        try pair.snapshot()
        try pair.expectEqual()
        for sql in [
            "UPDATE person SET email = 'y2' WHERE id = 2; UPDATE person SET email = 'y' WHERE id = 1;",
            "BEGIN; UPDATE person SET email = NULL; UPDATE person SET email = 'x' WHERE id = 2; COMMIT;",
            "REPLACE INTO person VALUES (7, 'r', 'x', 3);", "UPDATE person SET id = id + 10;",
            "REPLACE INTO word VALUES ('ONE'); DELETE FROM item WHERE n = 1; INSERT INTO loose VALUES (1, 2);",
            "UPDATE item SET n = n || 'x'; DELETE FROM loose WHERE rowid = 1; DELETE FROM word;",
            "INSERT INTO item SELECT 'big', value, randomblob(10) FROM generate_series(1, 1);",
        ] where !sql.contains("generate_series") {
            try pair.write(sql)
            #expect(try pair.follow())
            try pair.expectEqual()
        }
        #expect(try !pair.follow())
    }

    @Test("Another history at a number that the mirror has already is not taken for its own")
    func overlap() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        let before = try #require(pair.mirror.position)
        try pair.write("INSERT INTO loose VALUES (1, 1)")
        #expect(try pair.follow())
        // As after a restore of the source, which then went on otherwise.
        try pair.write("UPDATE historyd_change SET origin = origin + 1 WHERE id > \(before.position.number)")
        let group = try pair.source.group(after: before)
        expectNeedOfSnapshot {
            try pair.mirror.apply(group.body.chunks(), isSnapshot: false, to: pair.position(group))
        }
    }

    @Test(
        "A mirror whose history was cleaned takes a group that begins before its position, and cleans on after a refill"
    )
    func cleaned() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        let before = try #require(pair.mirror.position)
        for number in 0..<5 {
            try pair.write("INSERT INTO loose VALUES (\(number), 1)")
            #expect(try pair.follow())
        }
        let known = try #require(pair.mirror.position).position.number
        let cleaner = try DatabaseQueue(path: pair.folder.file("mirror.sqlite"))
        let rule = DeliveryRule(authors: [])
        func clean(through number: Int64) throws -> Int? {
            try cleaner.writeWithoutTransaction { db in
                _ = try CleaningStep(db, limit: number, rule: rule, size: 1000)
                return try Int.fetchOne(db, sql: "SELECT count(*) FROM historyd_change WHERE kind & 3 <> 3")
            }
        }
        #expect(try clean(through: known) == 0)
        try pair.write("INSERT INTO loose VALUES (9, 9)")
        // What the publisher sends after the server was set back.
        let group = try pair.source.group(after: before)
        try pair.mirror.apply(group.body.chunks(), isSnapshot: false, to: pair.position(group))
        let changes = try cleaner.read { db in
            try Int64.fetchAll(db, sql: "SELECT id FROM historyd_change WHERE kind & 3 <> 3")
        }
        #expect(changes == [known + 1], "what was cleaned has come back")
        try pair.snapshot()
        #expect(try clean(through: known + 1) == 0)
    }

    @Test("Tables that are new, altered, renamed, dropped or made again come with the group that needs them")
    func schemas() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        for sql in [
            "ALTER TABLE person ADD COLUMN note DEFAULT 'n'; CREATE TABLE fresh (k PRIMARY KEY, v);",
            "ALTER TABLE loose RENAME TO loosened; DROP INDEX person_name; CREATE INDEX other ON person (note);",
            "DROP TABLE word; CREATE TABLE again (x); INSERT INTO again VALUES (1); DROP TABLE item; CREATE TABLE item (code TEXT, n, v, PRIMARY KEY (code, n)) WITHOUT ROWID; INSERT INTO item VALUES ('unrecorded', 1, 1);",
        ] {
            try pair.write(sql)
            try Tracking.track(pair.folder.file("source.sqlite"), [:], all: true)
            try pair.write("INSERT INTO person (name) VALUES ('after')")
            #expect(try pair.follow())
            try pair.expectEqual()
        }
    }

    @Test(
        "A snapshot has all rows, however many there are and however they are cut", arguments: [1, 100, 5000])
    func cut(size: Int) throws {
        for count in [0, 1, 15, 16, 17, 32, 50] {
            let pair = try Pair(Self.schema)
            try pair.write(
                """
                WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < \(count))
                INSERT INTO loose SELECT n, iif(n % 3, 'text ' || n, randomblob(n)) FROM number WHERE n <= \(count)
                """)
            let group = try pair.source.snapshot()
            var offset = 0
            try pair.mirror.apply(
                {
                    guard offset < group.body.count else { return nil }
                    defer { offset += size }
                    return try group.body.bytes(at: offset, atMost: size)
                }, isSnapshot: true, to: pair.position(group))
            try pair.expectEqual()
        }
    }

    @Test("A snapshot can be taken away while it is read, and its parts are the whole")
    func growing() throws {
        let pair = try Pair(Self.schema)
        // More than is kept in memory.
        try pair.write(
            """
            WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 300)
            INSERT INTO loose SELECT n, hex(randomblob(20000)) FROM number
            """)
        let whole = try pair.source.snapshot().body
        let expected = try whole.bytes(at: 0, atMost: whole.count)
        #expect(expected.count > 8 << 20)
        for size in [1 << 12, 1 << 16, 5 << 20] {
            let taken = Locked<[UInt8]>([])
            let turns = Locked(0)
            let group = try pair.source.snapshot { group in
                // Now and then only, so that some of it gets into the file and some does not.
                guard
                    turns.withLock({
                        $0 += 1; return $0
                    }).isMultiple(of: 7)
                else { return }
                try taken.withLock { taken in
                    while group.body.count - taken.count >= size {
                        taken += try group.body.bytes(at: taken.count, atMost: size)
                        group.body.forget(before: taken.count)
                    }
                }
            }
            try taken.withLock { taken in
                #expect(!taken.isEmpty && taken.count < group.body.count)
                while taken.count < group.body.count {
                    taken += try group.body.bytes(at: taken.count, atMost: 1 << 20)
                }
                #expect(taken == expected)
            }
        }
    }

    private static func change(_ line: String) -> String {
        "{\"changes\":[\"id\",\"origin\",\"kind\",\"object\",\"detail\"]}\n\(line)\n"
    }

    /// What nothing behind the mirror could read, or SQLite refuses.
    private static let nonsense = [
        // Of a shape that there is not, with a key that is none, with a note that is none.
        change("[9,\"1\",400,1,null]"), change("[9,1,4,\"nonsense\",null]"), change("[9,1,4,\"1\",null]"),
        change("[9,1,3,\"recreated\",\"nonsense\"]"),
        // A text for an INTEGER PRIMARY KEY.
        "{\"rows\":\"person\",\"columns\":[\"id\"],\"whole\":true}\n[\"text\"]\n",
        "{\"rows\":\"person\",\"columns\":[\"id\"],\"whole\":true}\n["
            + String(repeating: "1,", count: 100_000) + "1]\n",
    ]

    @Test("What cannot be applied is no fault of the disk, and what could not be read is not taken in")
    func foreignRows() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        var position = try #require(pair.mirror.position)
        let before = position
        position.position.number = 9
        for lines in Self.nonsense {
            let body = GroupBody(spoolingIn: pair.folder.path)
            try body.append(Array(lines.utf8))
            #expect(throws: MirrorError.self, "\(lines.prefix(200))") {
                try pair.mirror.apply(body.chunks(), isSnapshot: false, to: position)
            }
        }
        // A snapshot's body of another store than its header says.
        let group = try pair.source.snapshot()
        var other = pair.position(group)
        other.store = "1e6c3f0e-6f43-4c1e-9d52-6f2c6a3f6a10"
        #expect(throws: MirrorError.self) {
            try pair.mirror.apply(group.body.chunks(), isSnapshot: true, to: other)
        }
        #expect(pair.mirror.position == before)
        try pair.expectEqual()
    }

    @Test("A line without an end is given up")
    func endlessLine() {
        let chunk = [UInt8](repeating: UInt8(ascii: "1"), count: 1000)
        var count = 0
        #expect(throws: MirrorError.self) {
            try Lines.forEach(
                of: {
                    count += 1
                    return count < 100 ? chunk : nil
                }, longest: 5000
            ) { _ in }
        }
        #expect(count < 10)
    }

    @Test("A damaged mirror is moved aside, and filled again")
    func damaged() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        try pair.mirror.close()
        let path = pair.folder.file("mirror.sqlite")
        try Data("no database at all, and long enough to be one".utf8).write(to: URL(filePath: path))
        #expect { try Mirror(path, of: "test") } throws: { ($0 as? HistoryError)?.code == .replicaDamaged }
        _ = try Mirror.moveAside(path)
        let mirror = try Mirror(path, of: "test")
        let group = try pair.source.snapshot()
        try mirror.apply(group.body.chunks(), isSnapshot: true, to: pair.position(group))
        try pair.expectEqual()
    }

    @Test("A group that fails leaves the mirror as it was")
    func failure() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        let before = try #require(pair.mirror.position)
        try pair.write("INSERT INTO person (name) VALUES ('new')")
        for lines in [
            "{\"changes\":[\"id\",\"origin\",\"kind\",\"object\",\"detail\"]}\n[99,1,4,1,null]\n[98,1,4,1,null]\n",
            "[1]\n", "{\"rows\":\"nothing\",\"columns\":[\"a\"],\"whole\":true}\n",
            "{\"rows\":\"person\",\"columns\":[\"nothing\"],\"whole\":true}\n",
            "{\"rows\":\"person\",\"columns\":[\"id\"],\"whole\":true}\n[1,2]\n",
            "{\"rows\":\"person\",\"columns\":[\"id\"],\"whole\":true}\n[1",
            "{\"gone\":\"historyd_change\",\"columns\":[\"id\"]}\n[1]\n", "", "{}\n", "nonsense\n",
        ] {
            let body = GroupBody(spoolingIn: pair.folder.path)
            try body.append(Array(lines.utf8))
            var position = before
            position.position.number += 1
            #expect(throws: MirrorError.self, "\(lines)") {
                try pair.mirror.apply(body.chunks(), isSnapshot: false, to: position)
            }
            #expect(pair.mirror.position == before)
        }
        #expect(try pair.follow())
        try pair.expectEqual()
    }

    @Test("Other writers are refused, and so is tracking it")
    func foreignWriters() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        let other = try DatabaseQueue(path: pair.folder.file("mirror.sqlite"))
        for sql in ["INSERT INTO person (name) VALUES (1)", "UPDATE item SET v = 1", "DELETE FROM loose"] {
            #expect { try other.write { try $0.execute(sql: sql) } } throws: { error in
                (error as? DatabaseError)?.message?.contains("mirror") == true
            }
        }
        #expect {
            try Tracking.track(pair.folder.file("mirror.sqlite"), ["person": nil])
        } throws: { error in
            (error as? HistoryError)?.code == .isMirror
        }
        try pair.expectEqual()
    }

    @Test(
        "What others write between two groups is noticed",
        arguments: [
            ("DELETE FROM historyd_change", true), ("ALTER TABLE person DROP COLUMN data", false),
            ("UPDATE historyd_mirror SET sequence = sequence + 1", false),
        ])
    func written(sql: String, fits: Bool) throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        for _ in 0..<2 {
            try pair.write("INSERT INTO person (name) VALUES ('known')")
            #expect(try pair.follow())
        }
        let other = try DatabaseQueue(path: pair.folder.file("mirror.sqlite"))
        try other.write { try $0.execute(sql: sql) }
        try pair.write("INSERT INTO person (name) VALUES ('new')")
        if fits {
            #expect(try pair.follow())
        } else {
            #expect(throws: MirrorError.self) { try pair.follow() }
        }
    }

    @Test("A row larger than what is kept in memory goes through the file")
    func large() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        try pair.write("INSERT INTO person (data) VALUES (randomblob(4500000)), (1), (randomblob(100))")
        #expect(try pair.follow())
        try pair.expectEqual()
    }

    @Test("Where changes are missing in the source's history, nothing is passed over: a snapshot is needed")
    func gap() throws {
        let pair = try Pair(Self.schema)
        try pair.snapshot()
        try pair.write("INSERT INTO person (data) VALUES (1), (2), (3)")
        let (store, end, schema) = try pair.source.end()
        try pair.write("INSERT INTO person (data) VALUES (4)")
        try pair.write(
            "INSERT INTO person (data) VALUES (5); DELETE FROM historyd_change WHERE id = \(end.number + 1)")
        guard case .lost(.gap) = try pair.source.next(after: end, of: store, knowing: schema) else {
            Issue.record("The missing change was passed over.")
            return
        }
        try pair.snapshot()
        try pair.expectEqual()
        // A mirror's own history may have them, and is published all the same.
        try pair.write("INSERT INTO person (data) VALUES (6)")
        #expect(try pair.follow())
        try pair.expectEqual()
        let chain = try MirrorSource(pair.folder.file("mirror.sqlite"), spoolingIn: pair.folder.path)
        let (mirrorID, _, mirrorSchema) = try chain.end()
        let start = StreamPosition(number: end.number - 1, fingerprint: nil, schema: try mirrorSchema.digest)
        guard case .group = try chain.next(after: start, of: mirrorID, knowing: mirrorSchema) else {
            Issue.record("The mirror does not go on.")
            return
        }
        try chain.close()
    }

    @Test("A source that was restored, or is another one, does not go on")
    func losses() throws {
        let pair = try Pair(Self.schema)
        let (store, end, _) = try pair.source.end()
        #expect(try pair.source.loss(at: end, of: store) == nil)
        #expect(try pair.source.loss(at: end, of: "other") == .otherStore)
        var position = end
        position.number += 1
        #expect(try pair.source.loss(at: position, of: store) == .restored)
        try pair.write("UPDATE person SET data = 5; UPDATE person SET data = 6")
        position = try pair.source.end().position
        position.fingerprint = "another"
        #expect(try pair.source.loss(at: position, of: store) == .diverged)
    }
}

@Suite("Bytes on their way")
struct ByteTests {
    @Test(
        "SHA-256 gives the digests of the standard's examples",
        arguments: [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
            ),
        ])
    func digests(text: String, digest: String) throws {
        #expect(try SHA256.of(Array(text.utf8)) == digest)
    }

    @Test("A snapshot's digest is the SHA-256 of all bytes, however they are divided")
    func snapshotDigests() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<50 {
            let bytes = (0..<Int.random(in: 0...1000)).map { _ in UInt8.random(in: 0...255, using: &random) }
            let digest = SHA256()
            var rest = bytes[...]
            while !rest.isEmpty {
                let piece = rest.prefix(Int.random(in: 1...200, using: &random))
                Array(piece).withUnsafeBytes { digest.update($0) }
                rest = rest.dropFirst(piece.count)
            }
            #expect(try digest.hexadecimal() == SHA256.of(bytes))
        }
    }

    @Test("Values are read as they were written, whatever they are")
    func values() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            let values = (0..<Int.random(in: 0...6)).map { _ in Self.value(&random) }
            var json = JSONBytes()
            json.array { json in for value in values { HistoryJSON.write(value, to: &json) } }
            var read: [LineValue] = []
            try json.bytes.array.withUnsafeBufferPointer {
                try ValueLine.append($0, to: &read)
                #expect(read.map(\.copy) == values)
            }
        }
    }

    private static func value(_ random: inout SystemRandomNumberGenerator) -> HistoryValue {
        let bytes = (0..<Int.random(in: 0...20)).map { _ in UInt8.random(in: 0...255, using: &random) }
        switch Int.random(in: 0...7, using: &random) {
        case 0: return .null
        case 1:
            // Of all lengths.
            return .integer(
                .random(in: .min ... .max, using: &random) >> Int64.random(in: 0...63, using: &random))
        case 2: return .real(Double.random(in: -1e300...1e300, using: &random))
        case 3:
            return .real(
                [0.5, 3, .infinity, -.infinity, .leastNonzeroMagnitude, -0.0].randomElement(using: &random) ?? 0
            )
        case 4: return .text(String(decoding: bytes, as: UTF8.self))
        case 5: return .text("\u{0}\"\\\n😀" + String(repeating: "x", count: 5))
        case 6: return HistoryValue(textOf: bytes)
        default: return .blob(bytes)
        }
    }

    @Test("What is no list of values is refused, and nothing traps")
    func refusals() {
        for text in [
            "", "[", "]", "[1", "[1,]", "[1 ]", "[\"a]", "[\"\\u00\"]", "[\"\\ud800\"]", "[{\"base64\":\"a\"}]",
            "[nul]",
            "[{\"base64\":\"====\"}]", "[{\"base64\":\"AA=A\"}]", "[{\"base64\":\"AB==\"}]",
            "[{\"base64\":\"AAAA==\"}]", "[9223372036854775808]", "[--1]", "[1e]", "[1],", "[\"\\",
            "[{\"base64Text", "[\u{e9}]",
        ] {
            var read: [LineValue] = []
            #expect(throws: MirrorError.self, "\(text)") {
                try Array(text.utf8).withUnsafeBufferPointer { try ValueLine.append($0, to: &read) }
            }
        }
    }
}

extension MirrorSource {
    /// The group behind a position, as a publisher sends it whose server was set back to there.
    func group(after position: MirrorPosition) throws -> Group {
        let next = try next(after: position.position, of: position.store, knowing: nil)
        let group: Group? = if case .group(let group) = next { group } else { nil }
        return try #require(group, "there is no group")
    }
}

/// Expects that a mirror finds out that a group does not continue its history.
func expectNeedOfSnapshot(_ body: () throws -> Void) {
    #expect {
        try body()
    } throws: { error in
        if case MirrorError.needsSnapshot = error { true } else { false }
    }
}
