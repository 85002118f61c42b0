import FoundationEssentials
import TestSupport
import Testing

@testable import HistoryBase
@testable import PersistentHistory

private let store = StoreID.sample()

private func json(_ body: (inout JSONBytes) -> Void) -> String {
    var json = JSONBytes()
    body(&json)
    return String(decoding: json.bytes.array, as: UTF8.self)
}

private func decode<Value: Decodable>(_ type: Value.Type, _ text: String) throws -> Value {
    try JSONDecoder().decode(type, from: Data(text.utf8))
}

@Suite struct JSONBytesTests {
    @Test func structureGetsItsCommas() {
        let text = json { json in
            json.object { json in
                json.name("a")
                json.array { json in
                    json.integer(1)
                    json.array { _ in }
                    json.object { _ in }
                    json.string(":")
                    json.string("{")
                    json.null()
                }
                json.name("b")
                json.bool(true)
            }
            json.endLine()
            json.bool(false)
        }
        #expect(text == #"{"a":[1,[],{},":","{",null],"b":true}"# + "\nfalse")
    }

    @Test func everyStringReadsBackAndHoldsNoLineBreak() throws {
        var generator = SystemRandomNumberGenerator()
        let odd: [Unicode.Scalar] = [
            "\"", "\\", "\n", "\r", "\t", "\0", "\u{1f}", "\u{7f}", "/", "é", "\u{2028}", "😀",
        ]
        for _ in 0..<500 {
            var text = ""
            for _ in 0..<Int.random(in: 0..<20, using: &generator) {
                let random = Unicode.Scalar(UInt32.random(in: 0..<0x11_0000, using: &generator))
                text.unicodeScalars.append(
                    Bool.random(using: &generator) ? odd.randomElement()! : random ?? "?")
            }
            let written = json { $0.string(text) }
            #expect(!written.utf8.contains { $0 < 0x20 }, "\(text.debugDescription)")
            let read = try decode([String].self, "[\(written)]")
            #expect(Array(read[0].utf8) == Array(text.utf8), "\(text.debugDescription)")
        }
    }

    @Test func aUUIDIsWrittenAsEverybodyWritesIt() {
        for uuid in (0..<50).map({ _ in UUID() }) {
            #expect(json { $0.array { $0.uuid(uuid) } } == "[\"\(uuid.uuidString)\"]")
        }
    }

    @Test(arguments: [
        (3.0, "3.0"), (-0.0, "-0.0"), (0.1, "0.1"), (1e20, "1e+20"), (.leastNonzeroMagnitude, "5e-324"),
        (.infinity, "9e999"), (-.infinity, "-9e999"), (.nan, "null"),
    ]) func realsShowThatTheyAreReals(_ value: Double, _ text: String) {
        #expect(json { $0.real(value) } == text)
    }

    @Test func everyRealReadsBackTheSame() throws {
        for _ in 0..<2000 {
            let value = Double(bitPattern: .random(in: .min ... .max))
            guard value.isFinite else { continue }
            let text = json { $0.real(value) }
            #expect(text.contains { ".e".contains($0) }, "\(text)")
            #expect(Double(text)?.bitPattern == value.bitPattern, "\(text)")
        }
    }

    @Test(arguments: [Int64.min, -10, -1, 0, 9, 10, .max]) func integers(_ value: Int64) {
        #expect(json { $0.integer(value) } == "\(value)")
    }

    @Test func base64IsThatOfFoundation() {
        for count in 0..<70 {
            let blob = (0..<count).map { _ in UInt8.random(in: 0...255) }
            #expect(json { $0.base64(blob) } == "\"\(Data(blob).base64EncodedString())\"")
        }
    }
}

@Suite struct HistoryJSONTests {
    private static func entity(_ name: String = "person", key: Entity.Key = .column("id")) -> Entity {
        Entity(shape: 1, name: name, columns: [], key: key, preserved: [])
    }

    private static func url(_ values: [HistoryValue], rowid: Bool = false, in entity: Entity = entity())
        -> String
    {
        let columns = values.indices.map { "c\($0)" }
        let id = ObjectID(columns: columns, values: values, isRowID: rowid)
        return HistoryJSON.objectIDURL(of: id, in: entity, store: store)
    }

    @Test func urlsTellTypesApart() {
        #expect(Self.url([.integer(42)]) == "x-history://00000000-0000-0000-0000-000000000001/person/p42")
        #expect(Self.url([.integer(-1)]) == "x-history://00000000-0000-0000-0000-000000000001/person/p-1")
        #expect(Self.url([.real(3)]) == "x-history://00000000-0000-0000-0000-000000000001/person/r3.0")
        #expect(
            Self.url([.text("a,b/ü~")])
                == "x-history://00000000-0000-0000-0000-000000000001/person/ta%2Cb%2F%C3%BC~")
        #expect(Self.url([.text("")]) == "x-history://00000000-0000-0000-0000-000000000001/person/t")
        #expect(
            Self.url([.blob([0, 0xAB, 0xff])])
                == "x-history://00000000-0000-0000-0000-000000000001/person/x00abff")
        #expect(
            Self.url([.integer(1), .text("x"), .blob([])])
                == "x-history://00000000-0000-0000-0000-000000000001/person/p1,tx,x")
        let odd = Self.entity("a/b c", key: .column("id"))
        #expect(
            Self.url([.integer(1)], in: odd) == "x-history://00000000-0000-0000-0000-000000000001/a%2Fb%20c/p1")
    }

    @Test func rowidsAreNotMistakenForKeys() {
        #expect(Self.url([.integer(5)], rowid: true, in: Self.entity(key: .rowid)).hasSuffix("/p5"))
        #expect(
            Self.url([.integer(5)], rowid: true, in: Self.entity(key: .columns(["a", "b"]))).hasSuffix(
                "/rowid5"))
    }

    @Test func objectIDKeepsTypes() {
        let id = ObjectID(
            columns: ["a", "b", "c", "d"], values: [.integer(1), .text("1"), .real(1), .blob([1])])
        #expect(json { HistoryJSON.write(id, to: &$0) } == #"{"a":1,"b":"1","c":1.0,"d":{"base64":"AQ=="}}"#)
    }

    @Test(
        arguments: [
            // (declared type, value, text)
            ("TEXT", .text("x"), "x"), ("INTEGER", .integer(30), "30"), ("REAL", .real(3), "3.0"),
            ("REAL", .real(3.14), "3.14"), ("BLOB", .blob([1, 2]), "AQI="), ("", .text(""), ""),
            ("UUID", .text("123e4567-e89b-12d3-a456-426614174000"), "123E4567-E89B-12D3-A456-426614174000"),
            ("uuid", .blob(Array(0...15)), "00010203-0405-0607-0809-0A0B0C0D0E0F"),
            ("UUID", .text("no uuid"), "no uuid"), ("UUID", .blob([1]), "AQ=="), ("UUID", .integer(7), "7"),
            ("UUID", .text("123e4567-e89b-12d3-a456-42661417400g"), "123e4567-e89b-12d3-a456-42661417400g"),
            ("TEXT", .text("123e4567-e89b-12d3-a456-426614174000"), "123e4567-e89b-12d3-a456-426614174000"),
            ("URL", .text("https://example.com/a b"), "https://example.com/a b"),
            ("BOOLEAN", .integer(1), "true"), ("BOOLEAN", .integer(0), "false"), ("BOOLEAN", .integer(2), "2"),
            ("DATE", .text("2025-01-07"), "2025-01-07T00:00:00Z"),
            ("DATETIME", .text("2025-01-07 10:30:00"), "2025-01-07T10:30:00Z"),
            ("datetime", .text("2025-01-07T10:30"), "2025-01-07T10:30:00Z"),
            ("TIMESTAMP(3)", .text("2025-01-07 10:30:00.250+02:00"), "2025-01-07T08:30:00.250Z"),
            ("TIMESTAMP", .text("2024-12-31 23:30:00-01:00"), "2025-01-01T00:30:00Z"),
            ("TIMESTAMP", .text("2025-01-07 10:30:00.123456Z"), "2025-01-07T10:30:00.123456Z"),
            ("TIMESTAMP", .text("2025-01-07 10:30:00.000"), "2025-01-07T10:30:00Z"),
            ("TIMESTAMP", .integer(1_736_245_800), "2025-01-07T10:30:00Z"),
            ("TIMESTAMP", .integer(-1), "1969-12-31T23:59:59Z"),
            ("TIMESTAMP", .real(1_736_245_800), "2025-01-07T10:30:00Z"),
            ("TIMESTAMP", .real(1_736_245_800.5), "2025-01-07T10:30:00.500Z"),
            ("TIMESTAMP", .real(1.1), "1970-01-01T00:00:01.100Z"),
            ("TIMESTAMP", .real(-0.25), "1969-12-31T23:59:59.750Z"),
            ("TIMESTAMP", .real(-2), "1969-12-31T23:59:58Z"),
            ("TIMESTAMP", .real(.infinity), "9e999"), ("TIMESTAMP", .real(1e300), "1e+300"),
            ("TIMESTAMP", .integer(.max), "9223372036854775807"),
            ("DATE", .text("yesterday"), "yesterday"), ("DATE", .text("10:30"), "10:30"),
            ("DATE", .text("2025-13-01"), "2025-13-01"), ("DATE", .text("2025-01-07x"), "2025-01-07x"),
            ("DATE", .text("2025-01-07Z"), "2025-01-07Z"), ("DATE", .blob([1]), "AQ=="),
            ("DATETIME", .text("2025-01-07 10:30:00."), "2025-01-07 10:30:00."),
            ("DATETIME", .text("2023-02-30"), "2023-03-02T00:00:00Z"),
        ] as [(String, HistoryValue, String)])
    func attributesAreText(_ type: String, _ value: HistoryValue, _ text: String) {
        #expect(TombstoneText.text(of: value, declaredType: type) == text)
    }

    @Test func nullIsNoAttribute() {
        #expect(TombstoneText.text(of: .null, declaredType: "DATE") == nil)
    }

    @Test func everyDayReadsBack() {
        for day in stride(from: Int64(-719_528), through: 2_932_896, by: 97) {
            let civil = CivilDate(daysSince1970: day)
            #expect(CivilDate.daysSince1970(year: civil.year, month: civil.month, day: civil.day) == day)
        }
    }

    @Test func wholeTransaction() {
        let person = Self.entity()
        let time = HistoryTimestamp(milliseconds: 1_767_781_800_250)
        let tombstone = Tombstone(
            values: [
                (Entity.Column(name: "name", declaredType: "TEXT"), .text("Ann")),
                (Entity.Column(name: "email", declaredType: "TEXT"), .null),
                (Entity.Column(name: "icon", declaredType: "BLOB"), .blob([1])),
                (Entity.Column(name: "born", declaredType: "DATE"), .integer(0)),
            ], deletedDate: time)
        func id(_ number: Int64) -> ObjectID { ObjectID(columns: ["id"], values: [.integer(number)]) }
        let transaction = HistoryTransaction(
            token: HistoryToken(store: store, number: 17), author: "Widget\"s", context: nil, processID: 4711,
            timestamp: time,
            changes: [
                HistoryChange(entity: person, operation: .insert, objectID: id(1)),
                HistoryChange(
                    entity: person, operation: .update, objectID: id(2), changedProperties: ["name", "age"]),
                HistoryChange(entity: person, operation: .delete, objectID: id(3), tombstone: tombstone),
            ])
        let header =
            #""token":"00000000-0000-0000-0000-000000000001:17","author":"Widget\"s","context":null,"processID":4711,"#
            + #""timestamp":"2026-01-07T10:30:00.250Z""#
        let insert =
            #""entityName":"person","operation":"insert","objectID":{"id":1},"#
            + #""objectIDURL":"x-history://00000000-0000-0000-0000-000000000001/person/p1""#
        let update =
            #""entityName":"person","operation":"update","objectID":{"id":2},"#
            + #""objectIDURL":"x-history://00000000-0000-0000-0000-000000000001/person/p2","changedProperties":["name","age"]"#
        let delete =
            #""entityName":"person","operation":"delete","objectID":{"id":3},"#
            + #""objectIDURL":"x-history://00000000-0000-0000-0000-000000000001/person/p3","tombstone":{"#
            + #""attributes":{"name":"Ann","icon":"AQ==","born":"1970-01-01T00:00:00Z"},"#
            + #""values":{"name":"Ann","email":null,"icon":{"base64":"AQ=="},"born":0},"#
            + #""deletedDate":"2026-01-07T10:30:00.250Z"}"#
        #expect(json { HistoryJSON.writeHeader(of: transaction, to: &$0) } == "{\(header)}")
        #expect(
            json { HistoryJSON.write(transaction, to: &$0) }
                == "{\(header),\"changes\":[{\(insert)},{\(update)},{\(delete)}]}")
        #expect(json { HistoryJSON.write(transaction.changes[0], of: store, to: &$0) } == "{\(insert)}")
        let end = #","timestamp":"2026-01-07T10:30:00.250Z","author":"Widget\"s""#
        var noValues: ValueWriter?
        #expect(
            json { HistoryJSON.writeContexts(transaction.changes[1...], of: transaction, &noValues, to: &$0) }
                == "[{\(update)\(end)},{\(delete)\(end)}]")
        #expect(tombstone.attributes == ["name": "Ann", "icon": "AQ==", "born": "1970-01-01T00:00:00Z"])
    }
}
